"""/ragstats: what is asked for, what is shown, and to whom."""

from dataclasses import replace
from typing import Any

import pytest

from app import feedback, ragstats
from app.blocks import BLOCK_TEXT, FALLBACK_TEXT, MESSAGE_TEXT, Message
from app.ragstats import Request
from app.stats import MOST_GAPS, MOST_RUNS, Cost, Counts, Gap, Gaps, Scope, SetRuns, Source, Stats
from tests.app.bot import ADMIN, Bot
from tests.app.questions import add_page, add_run, ask

STATS = Stats(
    scope=Scope(),
    counts=Counts(
        asked=64,
        answered=52,
        abstained=8,
        failed=4,
        flagged=3,
        helpful=9,
        input_tokens=1_234_567,
        output_tokens=34_567,
        cost=Cost(usd=4.2218),
        median_ms=3_412,
        p95_ms=9_812,
    ),
    before=Counts(
        asked=52,
        answered=40,
        abstained=9,
        failed=3,
        flagged=3,
        cost=Cost(usd=3.5),
        median_ms=3_700,
        p95_ms=9_000,
    ),
    freshness_days=365,
    at_fault={"generation": 1, "search": 1},
    gaps=Gaps(
        groups=3,
        questions=10,
        top=(
            Gap(count=5, abstained=5, flagged=0, name="ERR_2041", question="what is err 2041?"),
            Gap(count=3, abstained=2, flagged=2, name=None, question=None),
            Gap(count=2, abstained=0, flagged=2, name=None, question="how much leave?"),
        ),
    ),
    sources=(
        Source(name="guide", fresh=300, stale=0, undated=0),
        Source(name="wiki", fresh=1_000, stale=400, undated=242),
    ),
    runs=(
        SetRuns(name="handbook/dev", recall_at_5=0.89, before=0.86),
        SetRuns(name="claude-docs", recall_at_5=0.81, before=None),
    ),
)

HERE = "In this channel I answer mentions."

TEXT = """\
In the last 30 days, beside the 30 before
Asked: 64 ↑ 12
Answered: 52 (81%) ↑ 4 points
Abstained: 8 (12%) ↓ 5 points
Failed: 4 (6%) =
Flagged 👎: 3 (5%) ↓ 1 point
Helpful 👍: 9 (14%) ↑ 14 points
Time to answer: median 3.4 s ↓ 0.3 s, 95% within 9.8 s
Tokens: 1,234,567 in, 34,567 out
Cost: $4.22 ↑ $0.72
Stage at fault: generation 1, search 1, not known yet 1

Unanswered or flagged
5 × what is err 2041? · not answered · no page mentions ERR_2041
3 × asked by others · 2 not answered, 2 flagged 👎
2 × how much leave? · flagged 👎

The index
Pages: 1,942 (1,300 verified within 365 days, 400 longer ago, 242 without a verification date)
recall@5: handbook/dev 0.86 → 0.89 · claude-docs 0.81"""


def texts(message: Message) -> list[str]:
    return [block["text"]["text"] for block in message.blocks]


def test_the_text_has_shares_and_what_moved() -> None:
    assert ragstats.build_text(STATS) == TEXT


def test_slack_gets_the_same_in_blocks() -> None:
    message = ragstats.build_message(STATS, HERE)
    parts = [*TEXT.split("\n\n"), f"Here\n{HERE}"]
    assert message.text == "\n".join(parts)
    assert texts(message) == [
        f"*{title}*\n{lines}" for title, _, lines in (part.partition("\n") for part in parts)
    ]
    assert all(block["text"]["verbatim"] for block in message.blocks)


def test_without_a_period_before_nothing_has_moved() -> None:
    text = ragstats.build_text(replace(STATS, before=Counts()))
    assert text.startswith("In the last 30 days\nAsked: 64\nAnswered: 52 (81%)\n")
    assert "median 3.4 s, 95% within 9.8 s" in text


@pytest.mark.parametrize(
    ("cost", "before", "line"),
    [
        (Cost(usd=0.1), None, "Cost: $0.10"),
        (Cost(usd=0.0004), Cost(usd=0.0003), "Cost: under $0.01 ="),
        (Cost(usd=1_234.56), Cost(usd=1_240), "Cost: $1,235 ↓ $5.44"),
        (Cost(usd=2), Cost(usd=1, unpriced=("claude-c",)), "Cost: $2.00"),
        (
            Cost(usd=2, unpriced=("claude_c", "claude-d")),
            Cost(usd=1),
            "Cost: $2.00, without claude_c, claude-d: no price in PRICES",
        ),
    ],
)
def test_a_cost_is_rounded_and_compared_where_all_of_it_is_known(
    cost: Cost, before: Cost | None, line: str
) -> None:
    counts = replace(STATS.counts, cost=cost), replace(STATS.before, cost=before)
    stats = replace(STATS, counts=counts[0], before=counts[1])
    assert f"\n{line}\n" in ragstats.build_message(stats, HERE).text


def test_without_prices_and_complaints_there_is_no_word_of_them() -> None:
    counts = replace(STATS.counts, cost=None, flagged=0)
    text = ragstats.build_text(replace(STATS, counts=counts, at_fault={}))
    assert "Cost" not in text and "Stage" not in text


def test_what_was_stopped_or_one_too_many_is_told_where_there_are_any() -> None:
    counts = replace(STATS.counts, limited=8, stopped=16)
    text = ragstats.build_text(replace(STATS, counts=counts))
    assert (
        "\nFailed: 4 (6%) =\nOver the hourly limit: 8 (12%) ↑ 12 points\n"
        "Stopped: 16 (25%) ↑ 25 points\nFlagged"
    ) in text


def test_nothing_asked_and_nothing_indexed_is_said() -> None:
    empty = Stats(scope=Scope(days=7), counts=Counts(), before=Counts(), freshness_days=365)
    nobody = "Nobody has asked anything in the last 7 days."
    assert ragstats.build_text(empty) == f"{nobody}\n\nThe index\nPages: 0"
    assert texts(ragstats.build_gaps(empty)) == [
        "*Unanswered or flagged in the last 7 days*\nNothing."
    ]


def test_beside_the_sums_few_gaps_are_shown_and_alone_more() -> None:
    top = tuple(
        Gap(count=1, abstained=1, flagged=0, name=None, question=f"question {number}?")
        for number in range(MOST_GAPS)
    )
    stats = replace(STATS, gaps=Gaps(groups=20, questions=25, top=top))
    _, beside, *_ = texts(ragstats.build_message(stats, HERE))
    alone, *_ = texts(ragstats.build_gaps(stats))
    assert beside.count("question ") == 5
    assert beside.endswith("and 20 questions more")
    assert alone.count("question ") == MOST_GAPS
    assert alone.endswith("and 13 questions more")


WORST = [
    *("&" * 400, "<!channel> " * 40, "<https://evil.example|click> " * 20, "`*_~" * 100),
    *("a\n> b\n```c", "\u202eevil\u202c", "*bold* _it_ ~no~ `code`", "@here #general a@b.example"),
]


@pytest.mark.parametrize("words", WORST)
def test_whatever_was_asked_fits_slack_and_calls_nobody(words: str) -> None:
    gap = Gap(count=10**6, abstained=10**5, flagged=10**5, name=words, question=words)
    run = SetRuns(name=words, recall_at_5=0.5, before=0.5)
    stats = replace(
        STATS,
        gaps=Gaps(groups=10**6, questions=10**6, top=(gap,) * MOST_GAPS),
        runs=(run,) * MOST_RUNS,
    )
    for message in (ragstats.build_message(stats, HERE), ragstats.build_gaps(stats)):
        shown = texts(message)
        assert max(map(len, shown)) <= BLOCK_TEXT
        assert sum(map(len, shown)) <= MESSAGE_TEXT
        assert 0 < len(message.text) <= FALLBACK_TEXT
        for text in (*shown, message.text):
            assert not set("<>\u202e") & set(text)
            lines = text.splitlines()
            assert all(line.count("`") % 2 == 0 for line in lines)
            assert not any(line.startswith(("&gt;", "```")) for line in lines)
        for line in message.text.splitlines():
            outside = "".join(line.split("`")[::2])
            assert not set("*_~") & set(outside)


@pytest.mark.parametrize(
    ("typed", "request_"),
    [
        ("", Request()),
        ("7d", Request(days=7)),
        ("30d", Request()),
        ("90d", Request(days=90)),
        ("here", Request(is_here=True)),
        ("gaps", Request(is_gaps=True)),
        ("  Gaps\u00a090D  HERE ", Request(days=90, is_here=True, is_gaps=True)),
    ],
)
def test_arguments_come_in_any_order_case_and_spacing(typed: str, request_: Request) -> None:
    assert ragstats.parse(typed) == request_


@pytest.mark.parametrize(
    "typed",
    ["help", "7d help", "7d 30d", "7d 7d", "here here", "14d", "7", "-h", "<!channel>", "7d; here"],
)
def test_anything_else_gets_the_usage(typed: str) -> None:
    assert ragstats.parse(typed) is None


def run(bot: Bot, typed: str = "", *, user_id: str = "U1", channel_id: str = "C1") -> str:
    """What somebody sees who types /ragstats and this."""
    count = len(bot.slack.calls("response_url")) + 1
    envelope_id = bot.slack.send_slash_command("/ragstats", typed, user_id, channel_id)
    assert bot.slack.wait_for_ack(envelope_id).ack_seconds < 3
    call = bot.slack.wait_for_call("response_url", count=count)[-1]
    assert call.params["response_type"] == "ephemeral"
    assert call.answer == {"ok": True}
    return "\n".join(block["text"]["text"] for block in call.params["blocks"])


def test_a_database_without_anything_is_told(bot: Bot) -> None:
    assert run(bot) == (
        f"*Nobody has asked anything in the last 30 days.*\n*The index*\nPages: 0\n*Here*\n{HERE}"
    )
    assert run(bot, "gaps here") == (
        "*Unanswered or flagged in the last 30 days in this channel*\nNothing."
    )


@pytest.mark.parametrize(("typed", "asked"), [("7d", 1), ("", 2), ("30d", 2), ("90D", 3)])
def test_a_period_says_what_is_counted(bot: Bot, typed: str, asked: int) -> None:
    for days_ago in (1, 8, 31):
        ask(bot.database, took_s=1, days_ago=days_ago)
    assert f"\nAsked: {asked}" in run(bot, typed)


def test_a_period_is_shown_beside_the_one_before(bot: Bot) -> None:
    ask(bot.database, took_s=4)
    ask(bot.database, "abstained", took_s=4)
    for outcome in ("answered", "answered", "answered", "abstained"):
        ask(bot.database, outcome, took_s=2, days_ago=10)
    shown = run(bot, "7d")
    assert "*In the last 7 days, beside the 7 before*\nAsked: 2 ↓ 2\n" in shown
    assert "Answered: 1 (50%) ↓ 25 points\nAbstained: 1 (50%) ↑ 25 points" in shown
    assert "median 4.0 s ↑ 2.0 s, 95% within 4.0 s" in shown


def test_here_counts_this_channel_alone(bot: Bot) -> None:
    ask(bot.database, channel_id="C1")
    ask(bot.database, "abstained", question="there?", channel_id="C2", user_id="U1")
    shown = run(bot, "here", channel_id="C1")
    assert "*In the last 30 days in this channel*\nAsked: 1\n" in shown
    assert "there?" not in shown
    assert "there?" in run(bot, "gaps here", channel_id="C2")


@pytest.mark.parametrize("channel_id", ["D1", "G1"])
@pytest.mark.parametrize("user_id", ["U1", ADMIN])
def test_here_in_a_direct_message_or_a_private_channel_is_about_that_alone(
    bot: Bot, channel_id: str, user_id: str
) -> None:
    for place, question in (("D1", "my pay?"), ("D2", "Ann's pay?"), ("G1", "the layoffs?")):
        ask(bot.database, "abstained", question=question, channel_id=place, user_id="U2")
    words = "asked by others"
    if user_id == ADMIN:
        words = {"D1": "my pay?", "G1": "the layoffs?"}[channel_id]
    for typed in ("here", "gaps here"):
        shown = run(bot, typed, user_id=user_id, channel_id=channel_id)
        assert [line for line in shown.splitlines() if " · " in line] == [
            f"1 × {words} · not answered"
        ]


def test_gaps_shows_nothing_else(bot: Bot) -> None:
    ask(bot.database, "abstained", question="do we get shares?")
    assert run(bot, "gaps 7d") == (
        "*Unanswered or flagged in the last 7 days*\n1 × do we get shares? · not answered"
    )


@pytest.mark.parametrize("words", ["> a quotation?", "• a list?", "1. an item?", "# a title?"])
def test_no_question_begins_a_line(bot: Bot, words: str) -> None:
    ask(bot.database, "abstained", question=words)
    (line,) = (line for line in run(bot, "gaps").splitlines() if " · " in line)
    assert line.startswith("1 × ")


def test_a_flagged_answer_is_a_gap(bot: Bot) -> None:
    feedback.vote(bot.database, ask(bot.database, question="how long?"), "U2", -1)
    assert "how long? · flagged 👎" in run(bot)


def test_what_others_asked_is_counted_for_all_and_worded_for_admins(bot: Bot) -> None:
    ask(bot.database, "abstained", question="is Ann paid more?", user_id="U2")
    ask(bot.database, "abstained", question="where is sk-9?", user_id="U2", unknown="sk-9")
    ask(bot.database, "abstained", question="how much leave?", user_id="U1")
    mine = run(bot, "gaps", user_id="U1")
    assert "how much leave? · not answered" in mine
    assert mine.endswith("1 × asked by others · not answered · 2 such questions")
    assert "Ann" not in mine and "sk-9" not in mine
    everything = run(bot, user_id=ADMIN)
    assert "is Ann paid more? · not answered" in everything
    assert "where is sk-9? · not answered · no page mentions sk-9" in everything
    assert "how much leave?" in everything
    sent = [str(call.params) for call in bot.slack.calls("response_url")]
    assert "Ann" not in sent[0]


def test_pages_and_runs_are_shown(bot: Bot) -> None:
    add_page(bot.database, "wiki", "a.md", verified_days_ago=10)
    add_page(bot.database, "wiki", "b.md", verified_days_ago=400)
    for recall in (0.86, 0.89):
        add_run(bot.database, "handbook/dev", recall)
    shown = run(bot)
    assert "Pages: 2 (1 verified within 365 days, 1 longer ago)" in shown
    assert "recall@5: handbook/dev 0.86 → 0.89" in shown


@pytest.mark.parametrize("typed", ["help", "7d 30d", "lunch <!channel>"])
def test_nonsense_gets_the_usage_and_is_not_repeated(bot: Bot, typed: str) -> None:
    assert run(bot, typed) == ragstats.USAGE


def test_a_question_that_would_call_everybody_calls_nobody(bot: Bot) -> None:
    ask(bot.database, "abstained", question="hey <!channel> & *all*\nlook")
    ask(bot.database, "abstained", question="<https://evil.example|here>?")
    shown = run(bot)
    assert "1 × `hey &lt;!channel&gt; &amp; *all* look` · not answered" in shown
    assert "&lt;https://evil.example|here&gt;? · not answered" in shown
    call: Any = bot.slack.calls("response_url")[-1]
    assert "<" not in call.params["text"]
