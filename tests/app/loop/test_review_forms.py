"""The forms in which people decide about cases."""

from dataclasses import replace
from typing import Any

import pytest

from app import modals
from app.feedback import Page
from app.loop import review_forms
from app.loop.cases import Reply
from app.loop.review_forms import Decision
from retrieval.metrics import Gold
from tests.app.loop.test_review_blocks import CASE, HOSTILE, PAGE, REVIEW, TRACE_ID
from tests.stand_ins import slack_limits

SPAN = "The queue holds 500 jobs."
REPLY = Reply(
    reply_id="C1-1767225601.000001",
    question="how long?",
    answer="500",
    document_id=7,
    user_id="U5",
    trace_id=TRACE_ID,
)


def submitted(view: modals.View, **values: Any) -> modals.View:
    """The form as it comes back: with these values, else as it was opened."""
    state = {}
    for block in view["blocks"]:
        if block["type"] == "input":
            name, element = block["block_id"], block["element"]
            filled = {
                "value": element.get("initial_value"),
                "selected_option": element.get("initial_option"),
            }
            state[name] = {name: filled | values.get(name, {})}
    return {**view, "state": {"values": state}}


def read_notes(view: modals.View) -> list[str]:
    return [each["text"] for block in view["blocks"] for each in block.get("elements", [])]


def find_fields(view: modals.View) -> list[str]:
    return [block["block_id"] for block in view["blocks"] if block["type"] == "input"]


def decide(view: modals.View, **values: str) -> Decision:
    filled = {name: {"value": value} for name, value in values.items()}
    return review_forms.parse_case_view(submitted(view, **filled))


@pytest.mark.parametrize("character", ["&", "x", "*", "<", "\u202e", "word "])
def test_however_much_there_is_to_fill_in_slack_takes_it(character: str) -> None:
    long = character * 9_000
    page = replace(PAGE, title=long, url=f"https://wiki.example/{long}", span=long)
    case = replace(CASE, question=long, gold_any=tuple(Gold(doc=long) for _ in range(30)))
    pages = tuple(replace(page, number=n, document_id=n) for n in range(30))
    review = replace(REVIEW, case=case, pages=pages)
    choice = Page(document_id=7, title=long, path=long)
    reply = replace(REPLY, question=long, answer=long)
    passages = {n: [long + str(other) for other in range(5)] for n in range(30)}
    for view in (
        review_forms.build_case_view(review, passages),
        review_forms.build_looking_view(review),
        review_forms.build_page_view(CASE.case_id, choice),
        review_forms.build_reply_view(reply, choice),
        review_forms.build_saved_view(CASE),
    ):
        assert slack_limits.view_problems(view) == []


def test_nothing_in_a_form_calls_anybody_or_leads_elsewhere() -> None:
    page = replace(PAGE, title=HOSTILE, url="not a url", number=0)
    review = replace(REVIEW, case=replace(CASE, question=HOSTILE), pages=(page,))
    passages = {7: [SPAN, HOSTILE]}
    shown = [
        holder
        for view in (
            review_forms.build_case_view(review, passages),
            review_forms.build_looking_view(review),
        )
        for block in view["blocks"]
        for holder in (block.get("text"), *block.get("elements", []))
        if holder and holder["type"] == "mrkdwn"
    ]
    assert len(shown) == 3
    for holder in shown:
        assert "<" not in holder["text"] and holder["text"].count("\n") == 0


def test_what_stands_in_the_form_is_what_a_case_is_made_of() -> None:
    more = replace(PAGE, document_id=8, number=2)
    review = replace(REVIEW, pages=(*REVIEW.pages, more))
    decision = decide(review_forms.build_case_view(review))
    assert decision == Decision(
        case_id=CASE.case_id,
        question=CASE.question,
        seen=review_forms.digest(CASE.gold),
        spans={0: SPAN, 2: ""},
    )


def test_while_passages_are_looked_for_there_is_nothing_to_send() -> None:
    view = review_forms.build_looking_view(replace(REVIEW, pages=(replace(PAGE, number=0),)))
    assert "submit" not in view and find_fields(view) == []
    assert read_notes(view) == [review_forms.LOOKING]


def test_the_likeliest_passage_stands_in_the_form_and_others_to_copy_from_below() -> None:
    unknown = replace(REVIEW, pages=(replace(PAGE, number=0),))
    passages = {7: [SPAN, "It is *long*."]}
    view = review_forms.build_case_view(unknown, passages)
    assert decide(view).spans == {0: SPAN}
    assert read_notes(view) == [review_forms.OTHERS, "> `It is *long*.`"]
    other = replace(REVIEW, pages=(replace(PAGE, number=0, span="It is *long*."),))
    view = review_forms.build_case_view(other, passages)
    assert decide(view).spans == {0: "It is *long*."}
    assert read_notes(view) == [review_forms.OTHERS, f"> {SPAN}"]
    assert read_notes(review_forms.build_case_view(REVIEW, {7: [SPAN]})) == []


def test_what_the_form_does_not_show_stays_as_it_is() -> None:
    gold = tuple(Gold(doc=f"{n}.md", span=f"span {n}", source="wiki") for n in range(8))
    pages = tuple(
        replace(PAGE, document_id=n, doc=f"{n}.md", span=f"span {n}", number=n)
        for n in range(1, 8)  # the first is not in the index now
    )
    review = replace(REVIEW, case=replace(CASE, gold_any=gold), pages=pages)
    view = review_forms.build_case_view(review)
    assert find_fields(view) == ["question", "span1", "span2", "span3", "span4", "span5"]
    kept = review_forms.build_gold(review.case, decide(view, span2="other", span3=" "))
    changed = {2: replace(gold[2], span="other"), 3: replace(gold[3], span=None)}
    assert kept == [changed.get(n, each) for n, each in enumerate(gold)]


def test_what_is_longer_than_a_field_is_kept_unless_it_is_changed() -> None:
    question, span = "word " * 900 + "end?", "long " * 900 + "end."
    case = replace(CASE, question=question, gold_any=(Gold(doc="queue.md", span=span),))
    review = replace(REVIEW, case=case, pages=(replace(PAGE, span=span, number=0),))
    view = review_forms.build_case_view(review)
    assert read_notes(view) == [review_forms.LONGER]
    decision = decide(view)
    assert review_forms.find_question(case, decision) == question
    assert review_forms.build_gold(case, decision) == [*case.gold]
    changed = decide(view, question="how long?")
    assert review_forms.find_question(case, changed) == "how long?"


def test_that_an_answer_is_cut_is_said() -> None:
    assert review_forms.CUT not in read_notes(review_forms.build_reply_view(REPLY, None))
    long = replace(REPLY, answer="word " * 900)
    assert review_forms.CUT in read_notes(review_forms.build_reply_view(long, None))


def test_a_form_knows_what_it_has_shown() -> None:
    gold = Gold(doc="a.md", source="wiki")
    others = [
        (),
        (Gold(doc="b.md", source="wiki"),),
        (Gold(doc="a.md", source="guide"),),
        (replace(gold, span="x"),),
        (gold, gold),
    ]
    digests = {review_forms.digest(each) for each in [(gold,), *others]}
    assert len(digests) == 6 and review_forms.digest([gold]) in digests


def test_a_reply_comes_back_as_it_was_filled_in() -> None:
    page = Page(document_id=7, title="The queue", path="queue.md")
    view = submitted(review_forms.build_reply_view(REPLY, page))
    assert review_forms.parse_reply_view(view, "U5") == REPLY
    without = replace(REPLY, trace_id=None, document_id=None)
    view = submitted(review_forms.build_reply_view(without, None))
    assert review_forms.parse_reply_view(view, "U5") == without
