"""The form after a 👎, as Slack takes it and as it comes back; pure.

All its texts are plain, so that no title can call anybody or look like anything else.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from app import mrkdwn
from app.feedback import Complaint, Page, Reason

View = dict[str, Any]

COMPLAINT = "complaint"
REASON, PAGE, NOTE = "reason", "page", "note"  # each a block with one element of the same name

OPTION_TEXT = 75  # of an option's text and of its description
NOTE_LENGTH = 2_000
MIN_QUERY_LENGTH = 2  # of what is typed before titles are searched

NO_VOTE = "There is no 👎 of yours on this answer any more, so nothing was saved."

_REASONS: dict[Reason, str] = {
    "wrong": "It is wrong",
    "outdated": "It is outdated",
    "missing": "Something is missing",
    "not_asked": "It is not what I asked",
}


def build_complaint_view(trace_id: UUID, complaint: Complaint, page: Page | None) -> View:
    """The form in which a person says what is wrong with an answer, filled in as they left it.

    page is that of the complaint. Nothing of the question or the answer stands in it.
    """
    reasons = {reason: _option(words, reason) for reason, words in _REASONS.items()}
    return {
        "type": "modal",
        "callback_id": COMPLAINT,
        "private_metadata": str(trace_id),
        "title": _plain("What is wrong?"),
        "submit": _plain("Send"),
        "close": _plain("Skip"),
        "blocks": [
            _input(
                "The answer",
                {
                    "type": "radio_buttons",
                    "action_id": REASON,
                    "options": list(reasons.values()),
                    **({"initial_option": reasons[complaint.reason]} if complaint.reason else {}),
                },
            ),
            _input(
                "The right page",
                {
                    "type": "external_select",
                    "action_id": PAGE,
                    "min_query_length": MIN_QUERY_LENGTH,
                    "placeholder": _plain("Type words of its title"),
                    **({"initial_option": _page_option(page)} if page else {}),
                },
            ),
            _input(
                "Anything else",
                {
                    "type": "plain_text_input",
                    "action_id": NOTE,
                    "multiline": True,
                    "max_length": NOTE_LENGTH,
                    **({"initial_value": complaint.note} if complaint.note else {}),
                },
            ),
        ],
    }


def build_page_options(pages: Sequence[Page]) -> list[dict[str, Any]]:
    """The pages as options, in their order; the path tells apart those of one title."""
    return [_page_option(page) for page in pages]


def parse_complaint(view: Mapping[str, Any]) -> tuple[UUID, Complaint]:
    """The trace and what was said of it, of a form that was sent; blanks are left out.

    Raises ValueError or KeyError for anything but our form.
    """
    values = view["state"]["values"]
    reason = values[REASON][REASON].get("selected_option")
    page = values[PAGE][PAGE].get("selected_option")
    note = (values[NOTE][NOTE].get("value") or "").replace("\0", "").strip()  # PostgreSQL: no NUL
    return UUID(view["private_metadata"]), Complaint(
        reason=_parse_reason(reason["value"]) if reason else None,
        document_id=int(page["value"]) if page else None,
        note=note[:NOTE_LENGTH] or None,
    )


def _parse_reason(value: str) -> Reason:
    (reason,) = (each for each in _REASONS if each == value)
    return reason


def _input(label: str, element: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "input",
        "block_id": element["action_id"],
        "optional": True,
        "label": _plain(label),
        "element": element,
    }


def _page_option(page: Page) -> dict[str, Any]:
    path = mrkdwn.flatten(page.path, len(page.path)) or str(page.document_id)
    return {
        **_option(mrkdwn.flatten(page.title, OPTION_TEXT) or path, str(page.document_id)),
        # The end of a path says more than its beginning.
        "description": _plain(path if len(path) <= OPTION_TEXT else f"…{path[1 - OPTION_TEXT :]}"),
    }


def _option(words: str, value: str) -> dict[str, Any]:
    return {"text": _plain(mrkdwn.flatten(words, OPTION_TEXT)), "value": value}


def _plain(words: str) -> dict[str, Any]:
    # emoji: a title that says :no_entry: shall not become one.
    return {"type": "plain_text", "text": words, "emoji": False}
