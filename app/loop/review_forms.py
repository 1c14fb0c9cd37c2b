"""The forms in which people decide about cases, as Slack takes them and as they come back; pure."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from app import blocks, modals, mrkdwn
from app.blocks import Block
from app.feedback import Page
from app.loop import cases
from app.loop.cases import Case, Reply
from app.loop.review import KnownPage, Review
from app.loop.review_blocks import CHOOSE_PAGE, MAKE_CASE, build_no_page, build_page_link
from app.modals import View
from retrieval.metrics import Gold

# The forms that two of the buttons open have the buttons' names as their callback_ids.
SAVE_REPLY = "save_as_case"  # callback_id of the form that the shortcut opens
QUESTION, SPAN, ANSWER = "question", "span", "answer"  # fields; a span's has its number behind

MOST_PAGES = 5  # of a case whose passages are shown; chosen
OTHER_LENGTH = 400  # of a passage to copy from; chosen
FIELD_LENGTH = 3_000  # Slack takes no more

KEPT_FOR_REVIEW = "Thanks, that is kept for review."
CASE_ALREADY = "This question is a case already, so nothing was changed."
FOR_REPLIES = (
    "“Save as case” is for what people answer. What is wrong with an answer of mine, its 👎 tells."
)
NO_WORDS = "There are no words in that message that I could keep."
PAGE_GONE = "That page is no longer in the index. Please choose another one."
NOT_IN_PAGE = (
    "This does not stand in the page word for word. Please copy it from there, or empty the field: "
    "then the page as a whole counts."
)
EMPTY = "Please write something here."
LOOKING = "Looking for the passage that answers …"
DECIDED = "Somebody has decided about this meanwhile. Please close this form."
CHANGED = "What answers this was changed meanwhile. Please close this form and open it again."
OTHERS = "Others on this page that may answer:"
LONGER = "That is the beginning. Unless you change it, all of it is kept."
CUT = "There is more of it than fits here: its end is cut off."


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a reviewer has filled in to make a case."""

    case_id: str
    question: str
    seen: str  # the digest of what answered the case when the form was opened
    spans: Mapping[int, str]  # by the number of the gold; "" where the page as a whole counts


def build_page_view(case_id: str, page: Page | None) -> View:
    """The form in which the right page is chosen; page is what is chosen already."""
    fields = [
        modals.build_page_input(page, is_optional=False),
        modals.build_note("The passage that answers is looked for in it, and shown to you."),
    ]
    return _build_view(CHOOSE_PAGE, "Right page", case_id, fields, submit="Choose")


def build_looking_view(review: Review) -> View:
    """What stands in place of that form while passages are looked for: nothing to send yet."""
    fields = [
        mrkdwn.build_folding(f"> {mrkdwn.quote(review.case.question, OTHER_LENGTH)}"),
        modals.build_note(LOOKING),
    ]
    return _build_view(MAKE_CASE, "Make it a case", "", fields)


def build_case_view(review: Review, passages: Mapping[int, Sequence[str]] | None = None) -> View:
    """The form in which a case is looked at, changed and approved.

    passages are those of each page that may answer, the likeliest first, by document_id.
    """
    shown = review.pages[:MOST_PAGES]
    metadata = {
        "case_id": review.case.case_id,
        "seen": digest(review.case.gold),
        "numbers": [page.number for page in shown],
    }
    fields = list(_build_question(review.case.question, LONGER))
    for page in shown:
        fields += _build_page(page, (passages or {}).get(page.document_id, ()))
    if not shown:
        fields.append(mrkdwn.build_folding(build_no_page(review.case)))
    return _build_view(
        MAKE_CASE, "Make it a case", json.dumps(metadata), fields, submit="Make it a case"
    )


def parse_page_view(view: Mapping[str, Any]) -> tuple[str, int | None]:
    """The case and the page chosen, of a form that was sent."""
    return view["private_metadata"], modals.parse_page(view)


def parse_case_view(view: Mapping[str, Any]) -> Decision:
    """What was filled in to make a case."""
    metadata = json.loads(view["private_metadata"])
    return Decision(
        case_id=metadata["case_id"],
        question=modals.parse_text(view, QUESTION),
        seen=metadata["seen"],
        spans={
            number: modals.parse_text(view, f"{SPAN}{number}") for number in metadata["numbers"]
        },
    )


def digest(gold: Sequence[Gold]) -> str:
    """By which one sees whether what answers a case is still what a form has shown."""
    return hashlib.sha256(json.dumps(cases.build_gold(gold)).encode()).hexdigest()


def build_gold(case: Case, decision: Decision) -> list[Gold]:
    """What answers a case with the passages that were filled in; what was not shown stays."""
    return [
        replace(gold, span=_find_kept(gold.span, decision.spans[number]) or None)
        if number in decision.spans
        else gold
        for number, gold in enumerate(case.gold)
    ]


def find_question(case: Case, decision: Decision) -> str:
    """The question as it was worded in the form."""
    return _find_kept(case.question, decision.question)


def build_reply_view(reply: Reply, page: Page | None) -> View:
    """The form in which what a person answered is saved, with what is known of it."""
    metadata = json.dumps(
        {"reply_id": reply.reply_id, "trace_id": reply.trace_id and str(reply.trace_id)}
    )
    fields = [
        *_build_question(reply.question, CUT),
        modals.build_page_input(page),
        modals.build_text_input(
            ANSWER, "The answer", reply.answer, max_length=FIELD_LENGTH, is_optional=False
        ),
        *([modals.build_note(CUT)] if len(reply.answer) > FIELD_LENGTH else []),
        modals.build_note(blocks.WHO_READS),
    ]
    return _build_view(SAVE_REPLY, "Save as case", metadata, fields, submit="Save")


def parse_reply_view(view: Mapping[str, Any], user_id: str) -> Reply:
    """What a person answered, as it was saved by user_id."""
    metadata = json.loads(view["private_metadata"])
    return Reply(
        reply_id=metadata["reply_id"],
        question=modals.parse_text(view, QUESTION),
        answer=modals.parse_text(view, ANSWER),
        document_id=modals.parse_page(view),
        user_id=user_id,
        trace_id=UUID(metadata["trace_id"]) if metadata["trace_id"] else None,
    )


def build_saved_view(case: Case | None) -> View:
    """What takes the place of that form once it is kept, in this case."""
    is_decided = case is not None and case.state == "approved"
    said = modals.build_plain(CASE_ALREADY if is_decided else KEPT_FOR_REVIEW)
    view = _build_view(SAVE_REPLY, "Save as case", "", [{"type": "section", "text": said}])
    return {**view, "close": modals.build_plain("Close")}


def _find_kept(before: str | None, written: str) -> str:
    """What was written, or what stood there before, where a field had only its beginning."""
    return before if before and before[:FIELD_LENGTH].strip() == written else written


def _build_question(question: str, if_longer: str) -> Iterator[Block]:
    yield modals.build_text_input(
        QUESTION,
        "The question, worded to stand on its own",
        question,
        max_length=FIELD_LENGTH,
        is_optional=False,
    )
    if len(question) > FIELD_LENGTH:
        yield modals.build_note(if_longer)


def _build_page(page: KnownPage, passages: Sequence[str]) -> Iterator[Block]:
    """A right page with the passage that is known or likeliest, and others to copy from."""
    span = page.span or next(iter(passages), None)
    yield mrkdwn.build_folding(f"*Right page:* {build_page_link(page)}")
    yield modals.build_text_input(
        f"{SPAN}{page.number}",
        "The passage that answers, word for word",
        span,
        max_length=FIELD_LENGTH,
    )
    others = [each for each in passages if each != span]
    if others:
        yield modals.build_note(OTHERS)
    for other in others:
        yield mrkdwn.build_context(f"> {mrkdwn.quote(other, OTHER_LENGTH)}")


def _build_view(
    callback_id: str, title: str, metadata: str, fields: list[Block], *, submit: str | None = None
) -> View:
    return {
        "type": "modal",
        "callback_id": callback_id,
        "private_metadata": metadata,
        "title": modals.build_plain(title),
        **({"submit": modals.build_plain(submit)} if submit else {}),
        "close": modals.build_plain("Cancel"),
        "blocks": fields,
    }
