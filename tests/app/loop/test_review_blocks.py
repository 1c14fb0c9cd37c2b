"""Cases as reviewers see them: within Slack's limits, and nothing in them but words."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from app import blocks
from app.loop import review_blocks
from app.loop.cases import Case, State
from app.loop.review import Asked, Flag, Found, KnownPage, Review
from app.loop.stages import Fault
from retrieval.metrics import Gold
from tests.stand_ins import slack_limits

TRACE_ID = UUID("00000000-0000-0000-0000-000000000001")
WORKSPACE = "https://stand-in.slack.com/"
HOSTILE = "<!channel> <@U1> <https://evil.example|wiki> *bold* `code` & @here\n> quoted\n"
CASE = Case(
    case_id=f"flag-{TRACE_ID}",
    state="proposed",
    origin="flag",
    type="flagged",
    question="how long is the queue?",
    history=(),
    gold_any=(Gold(doc="queue.md", span="The queue holds 500 jobs.", source="wiki"),),
    gold_all=(),
    answer="",
    held_out=False,
    reviewer=None,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    reviewed_at=None,
    orphaned_at=None,
    page_wrong_by=None,
    page_wrong=None,
    review_channel_id=None,
    review_ts=None,
    trace_ids=(TRACE_ID,),
)
PAGE = KnownPage(
    document_id=7,
    doc="queue.md",
    title="The queue",
    url="https://wiki.example/queue",
    owner="Ops",
    source="wiki",
)
REVIEW = Review(
    case=CASE,
    flags=(Flag(user_id="U1", reason="wrong", note="it is 500"),),
    asked=Asked(channel_id="C1", message_ts="1767225601.000001", thread_ts="1767225601.000001"),
    answer="It is **400** long. [1]",
    is_abstained=False,
    found=(
        Found(
            place="The queue › Size",
            url="https://wiki.example/queue",
            relevance=0.42,
            is_kept=True,
        ),
    ),
    fault=Fault(stage="generation", why="the right page was used", is_known=True),
    pages=(replace(PAGE, span="The queue holds 500 jobs.", number=0),),
    used=PAGE,
    alike=None,
)


def read(message: blocks.Message) -> list[str]:
    """The text of each block but the buttons."""
    return [
        holder["text"]["text"] if isinstance(holder["text"], dict) else holder["text"]
        for block in message.blocks
        if block["type"] != "actions"
        for holder in (block, *block.get("elements", []))
        if "text" in holder
    ]


def test_a_case_reads_from_what_was_asked_to_what_answers() -> None:
    link = "https://stand-in.slack.com/archives/C1/p1767225601000001"
    assert read(review_blocks.build_message(REVIEW, WORKSPACE)) == [
        f"*An answer was flagged* in <#C1> "
        f"(<{link}?thread_ts=1767225601.000001&amp;cid=C1|see the thread>)\n"
        "> how long is the queue?",
        "👎 <@U1>: It is wrong – “it is 500”",
        "*I answered:*",
        "It is *400* long. [1]",
        "*Made from:*\n• <https://wiki.example/queue|The queue › Size> · relevance 0.42",
        "*At fault:* *generation* – the right page was used",
        "*Right page:* <https://wiki.example/queue|The queue>\n> The queue holds 500 jobs.",
    ]


def test_one_person_has_one_line_with_what_they_said_last() -> None:
    flags = (
        Flag(user_id="U1", reason="wrong", note=None),
        Flag(user_id="U2", reason=None, note=None, page="a/*b*.md"),
        Flag(user_id="U1", reason="outdated", note=None),
    )
    head, lines, *_ = read(review_blocks.build_message(replace(REVIEW, flags=flags), None))
    assert head.startswith("*An answer was flagged* by 2 people in <#C1>\n")
    assert lines == "👎 <@U1>, 2 times: It is outdated\n👎 <@U2> – names `a/*b*.md`"


@pytest.mark.parametrize("character", ["&", "x", "*", "<", "\u202e", "word "])
def test_however_much_there_is_to_show_slack_takes_it(character: str) -> None:
    long = character * 9_000
    page = replace(PAGE, title=long, url=f"https://wiki.example/{long}", owner=long, span=long)
    review = replace(
        REVIEW,
        case=replace(
            CASE, question=long, answer=long, page_wrong_by="U1", page_wrong=Gold(doc=long)
        ),
        flags=tuple(Flag(user_id=f"U{n}", reason="not_asked", note=long) for n in range(90)),
        answer=long,
        found=tuple(
            Found(place=long, url=page.url, relevance=0.5, is_kept=True) for _ in range(30)
        ),
        pages=(page,) * 30,
    )
    for case in (review.case, replace(review.case, state="approved", reviewer=long)):
        message = review_blocks.build_message(replace(review, case=case), WORKSPACE)
        shown = list(message.blocks)
        assert slack_limits.problems(shown) == []
        assert len(shown) <= slack_limits.MESSAGE_BLOCKS
        assert sum(map(len, read(message))) <= blocks.MESSAGE_TEXT
        assert len(message.text) <= blocks.FALLBACK_TEXT


def test_nothing_in_a_case_calls_anybody_or_leads_elsewhere() -> None:
    page = replace(PAGE, title=HOSTILE, url="not a url", owner=HOSTILE, span=HOSTILE)
    review = replace(
        REVIEW,
        case=replace(CASE, question=HOSTILE, answer=HOSTILE),
        flags=(Flag(user_id="U9", reason=None, note=HOSTILE),),
        answer=HOSTILE,
        found=(Found(place=HOSTILE, url="", relevance=0, is_kept=False),),
        pages=(page,),
    )
    texts = [
        *read(review_blocks.build_message(review, WORKSPACE)),
        review_blocks.build_unknown_owner(page, "U9"),
        review_blocks.build_wrong_page(page, "U9", None),
        review_blocks.build_told_owner(page, "U9", "C1"),
    ]
    for words in texts:
        ours = re.sub(r"<@U9>|<#C1>|<https://stand-in[^>]*>", "", words)
        assert "<" not in ours, words
        assert "*bold*" not in re.sub(r"`[^`\n]*`", "", words)
    assert texts[0].count("\n") == 1  # the question is one line


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("proposed", "Nearly the same is to be reviewed, too: “how long?”"),
        ("approved", "Nearly the same is a case already: “how long?”"),
        ("dismissed", "Nearly the same was put aside: “how long?”"),
    ],
)
def test_a_question_that_is_nearly_the_same_is_told(state: State, said: str) -> None:
    alike = replace(CASE, state=state, question="how long?")
    *_, last = read(review_blocks.build_message(replace(REVIEW, alike=alike), None))
    assert last == said


def test_who_decided_is_told_in_place_of_the_buttons() -> None:
    for state, origin, end in (
        ("approved", "flag", "<@U5> has made it a case"),
        ("dismissed", "flag", "<@U5> says that the answer was right"),
        ("dismissed", "reply", "<@U5> says that this is no case"),
    ):
        case = replace(CASE, state=state, origin=origin, reviewer="U5")  # type: ignore[arg-type]
        message = review_blocks.build_message(replace(REVIEW, case=case), None)
        assert message.blocks[-1]["elements"][0]["text"] == end
    at_terminal = replace(CASE, state="approved", reviewer="ann <!here>")
    message = review_blocks.build_message(replace(REVIEW, case=at_terminal), None)
    assert message.blocks[-1]["elements"][0]["text"] == "ann &lt;!here&gt; has made it a case"


def test_the_page_that_is_wrong_is_named() -> None:
    def find_said(review: Review) -> str:
        *_, last = read(review_blocks.build_message(review, None))
        return last

    marked = replace(CASE, page_wrong_by="ann", page_wrong=Gold(doc="queue.md", source="wiki"))
    told = "ann says that a page is wrong: <https://wiki.example/queue|The queue>"
    assert find_said(replace(REVIEW, case=marked)) == told
    elsewhere = replace(marked, page_wrong=Gold(doc="<gone>.md", source="wiki"))
    told = "ann says that a page is wrong: &lt;gone&gt;.md"
    assert find_said(replace(REVIEW, case=elsewhere)) == told


def test_each_page_can_be_marked_as_wrong_once_and_only_where_one_is_known() -> None:
    def find_buttons(review: Review) -> list[str]:
        buttons = review_blocks.build_message(review, None).blocks[-1]["elements"]
        return [button["action_id"] for button in buttons]

    assert review_blocks.PAGE_WRONG in find_buttons(REVIEW)
    assert review_blocks.PAGE_WRONG in find_buttons(replace(REVIEW, pages=()))
    assert review_blocks.PAGE_WRONG not in find_buttons(replace(REVIEW, pages=(), used=None))
    for source, is_other in (("wiki", False), ("handbook", True)):
        wrong = Gold(doc="queue.md", source=source)
        marked = replace(REVIEW, case=replace(CASE, page_wrong_by="U1", page_wrong=wrong))
        assert (review_blocks.PAGE_WRONG in find_buttons(marked)) is is_other


def test_a_page_that_is_gone_is_told() -> None:
    gone = replace(REVIEW, case=replace(CASE, gold_any=(Gold(doc="<old>.md"),)), pages=())
    (*_, told) = read(review_blocks.build_message(gone, None))
    assert told == "The page that was named, &lt;old&gt;.md, is not in the index now."
