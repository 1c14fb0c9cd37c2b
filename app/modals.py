"""The form after a 👎, as Slack takes it and as it comes back; pure.

All its texts are plain, so that no title can call anybody or look like anything else.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from app import blocks, mrkdwn
from app.feedback import Complaint, Page, Reason

View = dict[str, Any]

COMPLAINT = "complaint"
REASON, PAGE, NOTE = "reason", "page", "note"  # each a block with one element of the same name

OPTION_TEXT = 75  # of an option's text and of its description
NOTE_LENGTH = 2_000
MIN_QUERY_LENGTH = 2  # of what is typed before titles are searched

NO_VOTE = "There is no 👎 of yours on this answer any more, so nothing was saved."

REASONS: dict[Reason, str] = {
    "wrong": "It is wrong",
    "outdated": "It is outdated",
    "missing": "Something is missing",
    "not_asked": "It is not what I asked",
}


def build_complaint_view(
    trace_id: UUID, complaint: Complaint, page: Page | None, *, is_reviewed: bool = False
) -> View:
    """The form in which a person says what is wrong with an answer, filled in as they left it.

    page is that of the complaint. Nothing of the question or the answer stands in it, but that
    people read them, where is_reviewed.
    """
    reasons = {reason: _option(words, reason) for reason, words in REASONS.items()}
    return {
        "type": "modal",
        "callback_id": COMPLAINT,
        "private_metadata": str(trace_id),
        "title": build_plain("What is wrong?"),
        "submit": build_plain("Send"),
        "close": build_plain("Skip"),
        "blocks": [
            build_input(
                "The answer",
                {
                    "type": "radio_buttons",
                    "action_id": REASON,
                    "options": list(reasons.values()),
                    **({"initial_option": reasons[complaint.reason]} if complaint.reason else {}),
                },
            ),
            build_page_input(page),
            build_text_input(NOTE, "Anything else", complaint.note, max_length=NOTE_LENGTH),
            *([build_note(blocks.WHO_READS)] if is_reviewed else []),
        ],
    }


def build_page_options(pages: Sequence[Page]) -> list[dict[str, Any]]:
    """The pages as options, in their order; the path tells apart those of one title."""
    return [build_page_option(page) for page in pages]


def parse_complaint(view: Mapping[str, Any]) -> tuple[UUID, Complaint]:
    """The trace and what was said of it, of a form that was sent; blanks are left out.

    Raises ValueError or KeyError for anything but our form.
    """
    values = view["state"]["values"]
    reason = values[REASON][REASON].get("selected_option")
    return UUID(view["private_metadata"]), Complaint(
        reason=_parse_reason(reason["value"]) if reason else None,
        document_id=parse_page(view),
        note=parse_text(view, NOTE)[:NOTE_LENGTH] or None,
    )


def _parse_reason(value: str) -> Reason:
    (reason,) = (each for each in REASONS if each == value)
    return reason


def build_input(label: str, element: dict[str, Any], *, is_optional: bool = True) -> dict[str, Any]:
    """A block with one element to fill in, of the same name."""
    return {
        "type": "input",
        "block_id": element["action_id"],
        "optional": is_optional,
        "label": build_plain(label),
        "element": element,
    }


def build_page_input(page: Page | None, *, is_optional: bool = True) -> dict[str, Any]:
    """Where a page is chosen by typing words of its title; page is what is chosen already."""
    element = {
        "type": "external_select",
        "action_id": PAGE,
        "min_query_length": MIN_QUERY_LENGTH,
        "placeholder": build_plain("Type words of its title"),
        **({"initial_option": build_page_option(page)} if page else {}),
    }
    return build_input("The right page", element, is_optional=is_optional)


def build_text_input(
    name: str, label: str, written: str | None, *, max_length: int, is_optional: bool = True
) -> dict[str, Any]:
    """Where several lines are written; written is what stands there already."""
    element = {
        "type": "plain_text_input",
        "action_id": name,
        "multiline": True,
        "max_length": max_length,
        **({"initial_value": written[:max_length]} if written else {}),
    }
    return build_input(label, element, is_optional=is_optional)


def build_note(words: str) -> dict[str, Any]:
    """Small print."""
    return {"type": "context", "elements": [build_plain(words)]}


def parse_text(view: Mapping[str, Any], name: str) -> str:
    """What was written into a form under a name; "" where it has no such element."""
    value = (view["state"]["values"].get(name) or {}).get(name, {}).get("value")
    return (value or "").replace("\0", "").strip()  # PostgreSQL: no NUL


def parse_page(view: Mapping[str, Any]) -> int | None:
    """The document_id of the page that was chosen, if one was."""
    chosen = view["state"]["values"][PAGE][PAGE].get("selected_option")
    return int(chosen["value"]) if chosen else None


def build_page_option(page: Page) -> dict[str, Any]:
    """A page as it is chosen."""
    path = mrkdwn.flatten(page.path, len(page.path)) or str(page.document_id)
    return {
        **_option(mrkdwn.flatten(page.title, OPTION_TEXT) or path, str(page.document_id)),
        # The end of a path says more than its beginning.
        "description": build_plain(
            path if len(path) <= OPTION_TEXT else f"…{path[1 - OPTION_TEXT :]}"
        ),
    }


def _option(words: str, value: str) -> dict[str, Any]:
    return {"text": build_plain(mrkdwn.flatten(words, OPTION_TEXT)), "value": value}


def build_plain(words: str) -> dict[str, Any]:
    """Words as they are: no mark, no link, nobody called."""
    # emoji: a title that says :no_entry: shall not become one.
    return {"type": "plain_text", "text": words, "emoji": False}
