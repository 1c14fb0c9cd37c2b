"""The sums of the last days."""

import json

import pytest
from sqlalchemy import text

from app import eval_runs as kept
from app import feedback, stats
from app.claims import claim
from app.config import Settings
from app.records import Answer, Arrival
from app.stats import Cost, Counts, Gap, Gaps, Scope, SetRuns, Source, Stats, Viewer
from app.traces import save_answer, save_retrieval
from retrieval.db import Database
from retrieval.records import Query, Retrieval
from tests.app import eval_runs
from tests.app.nights import know_cases, restrict_case
from tests.app.questions import add_page, add_run, ask, complain, reopen

EVERYTHING = Viewer(is_admin=True)


def load(
    database: Database,
    viewer: Viewer = EVERYTHING,
    *,
    days: int = 30,
    channel_id: str | None = None,
    prices: dict[str, tuple[float, float]] | None = None,
) -> Stats:
    scope = Scope(days=days, channel_id=channel_id)
    return stats.load_stats(database, scope, viewer=viewer, settings=Settings(prices=prices or {}))


def gaps(database: Database, viewer: Viewer = EVERYTHING) -> list[tuple[int, str | None]]:
    """How often each was asked, and in which words."""
    return [(gap.count, gap.question) for gap in load(database, viewer).gaps.top]


def test_an_empty_database_has_empty_sums(database: Database) -> None:
    assert load(database) == Stats(
        scope=Scope(), counts=Counts(), before=Counts(), freshness_days=365
    )


def test_what_was_deleted_is_shown_to_nobody(database: Database) -> None:
    ask(database, "abstained", question="my password is hunter2, why am I locked out?")
    with database.transaction() as connection:
        connection.execute(text("""UPDATE traces SET settings = '{"deleted": true}'"""))
    assert gaps(database) == []
    assert load(database).counts.abstained == 1  # it was asked, though


def test_questions_are_counted_by_what_came_of_them(database: Database) -> None:
    first, second = (ask(database, took_s=seconds) for seconds in (1, 2))
    ask(database, "abstained", took_s=6)
    ask(database, "failed", took_s=0)  # counts in no median
    ask(database, "failed", took_s=0, error_class="Limited")
    ask(database, "stopped", took_s=0)
    ask(database, "pending")
    ask(database, took_s=9, days_ago=61)
    ask(database, took_s=9, question="")  # a bare mention
    feedback.vote(database, first, "U1", -1)
    feedback.vote(database, first, "U2", -1)
    feedback.vote(database, first, "U3", 1)
    feedback.vote(database, second, "U1", 1)
    assert load(database).counts == Counts(
        asked=7,
        answered=2,
        abstained=1,
        failed=1,
        limited=1,
        stopped=1,
        flagged=1,
        helpful=2,
        median_ms=2000,  # of 1, 2 and 6 s
        p95_ms=5600,  # 9/10 of the way from 2 to 6 s
    )


def test_days_are_counted_back_from_now_and_the_period_before_from_there(
    database: Database,
) -> None:
    for days_ago in (6.9, 7.1, 13.9, 14.1):
        ask(database, took_s=1, days_ago=days_ago)
    loaded = load(database, days=7)
    assert (loaded.counts.asked, loaded.before.asked) == (1, 2)


def test_a_channel_has_counts_and_gaps_of_its_own(database: Database) -> None:
    ask(database, "abstained", question="here?")
    ask(database, "abstained", question="there?", channel_id="C2")
    ask(database, channel_id="C2", days_ago=31)
    loaded = load(database, channel_id="C1")
    assert (loaded.counts.asked, loaded.before.asked) == (1, 0)
    assert [gap.question for gap in loaded.gaps.top] == ["here?"]


def test_tokens_are_those_of_rewording_and_answering(database: Database) -> None:
    ask(database, tokens={"input": 1_000, "output": 100})
    ask(database, tokens={"input": 2_000, "output": 200, "rewrite_input": 30, "rewrite_output": 4})
    ask(database)  # without a model
    counts = load(database).counts
    assert (counts.input_tokens, counts.output_tokens) == (3_030, 304)


def test_what_was_billed_before_an_edit_counts_too(database: Database) -> None:
    tokens = {"input": 1_000, "output": 100, "rewrite_input": 30, "rewrite_output": 4}
    models = {"generator": "claude-a", "rewrite_model": "claude-b"}
    trace_id = ask(database, tokens=tokens, settings=models)
    reopen(database, trace_id, "how far?")
    once = (1_000 * 3 + 100 * 15) / 1e6 + (30 * 1 + 4 * 5) / 1e6
    loaded = load(database, prices=PRICES).counts
    assert (loaded.input_tokens, loaded.output_tokens) == (1_030, 104)
    assert loaded.cost == Cost(usd=pytest.approx(once))
    answer = Answer(text="9 km.", tokens={"input": 2_000, "output": 200})
    save_answer(
        database, trace_id, answer, settings={"generator": "claude-b"}, stage_ms={}, attempt=1
    )
    loaded = load(database, prices=PRICES).counts
    assert (loaded.input_tokens, loaded.output_tokens) == (3_030, 304)
    assert loaded.cost == Cost(usd=pytest.approx(once + (2_000 * 1 + 200 * 5) / 1e6))


PRICES = {"claude-a": (3.0, 15.0), "claude-b": (1.0, 5.0)}


def test_a_cost_is_that_of_each_model_at_its_price(database: Database) -> None:
    both = {"generator": "claude-a", "rewrite_model": "claude-b"}
    tokens = {"input": 10_000, "output": 2_000, "rewrite_input": 1_000, "rewrite_output": 100}
    ask(database, tokens=tokens, settings=both)
    ask(database, tokens={"rewrite_input": 1_000, "rewrite_output": 100}, settings=both)
    ask(database, tokens=tokens, settings=both, days_ago=31, channel_id="C2")
    ask(database, settings={"generator": "quoted"})
    loaded = load(database, prices=PRICES)
    once = (10_000 * 3 + 2_000 * 15) / 1e6 + (1_000 * 1 + 100 * 5) / 1e6
    assert loaded.counts.cost == Cost(usd=pytest.approx(once + 0.0015))
    assert loaded.before.cost == Cost(usd=pytest.approx(once))
    assert load(database, prices=PRICES, channel_id="C1").before.cost is None
    assert load(database).counts.cost is None


def test_a_model_without_a_price_is_named_beside_what_the_others_cost(database: Database) -> None:
    settings = {"generator": "claude-a", "rewrite_model": "claude-c"}
    tokens = {"input": 1_000_000, "output": 0, "rewrite_input": 1_000, "rewrite_output": 100}
    ask(database, tokens=tokens, settings=settings)
    assert load(database, prices=PRICES).counts.cost == Cost(usd=3, unpriced=("claude-c",))


def test_the_stage_at_fault_is_counted_where_a_page_was_named(database: Database) -> None:
    named, other, elsewhere = ask(database), ask(database), ask(database, channel_id="C2")
    for trace_id in (named, other, elsewhere):
        feedback.vote(database, trace_id, "U1", -1)
    feedback.vote(database, other, "U2", 1)
    for trace_id in (named, elsewhere):
        complain(database, trace_id, "U1", add_page(database, "wiki", f"{trace_id}.md"))
    loaded = load(database, channel_id="C1")
    assert loaded.at_fault == {"search": 1}
    assert (loaded.counts.flagged, loaded.fault_not_known) == (2, 1)


def test_another_tenant_has_its_own_sums(database: Database, database_url: str) -> None:
    ask(database, "abstained")
    add_page(database, "wiki", "a.md", verified_days_ago=1)
    add_run(database, "handbook/dev", 0.8)
    other = Database(database_url, tenant_id="other")
    assert load(other) == Stats(scope=Scope(), counts=Counts(), before=Counts(), freshness_days=365)
    other.close()


def test_questions_are_one_whatever_their_case_spacing_and_outer_punctuation(
    database: Database,
) -> None:
    ask(database, "abstained", question="Do we get  shares", days_ago=3)
    ask(database, "abstained", question="do we get shares??", days_ago=2)
    ask(database, "abstained", question="do we get options?")
    ask(database, "abstained", question="???", days_ago=4)
    assert gaps(database) == [
        (2, "do we get shares??"),  # the last wording
        (1, "do we get options?"),
        (1, "???"),
    ]


def test_questions_about_one_unknown_name_are_one(database: Database) -> None:
    ask(database, "abstained", question="what is ERR_9?", unknown="ERR_9", days_ago=2)
    ask(database, "abstained", question="err 9, help", unknown="err 9")
    ask(database, "abstained", question="err9")  # a text that only looks like it
    named, plain = load(database).gaps.top
    assert named == Gap(count=2, abstained=2, flagged=0, name="err 9", question="err 9, help")
    assert (plain.count, plain.name) == (1, None)


def test_the_name_that_no_page_mentions_is_kept_with_the_trace(database: Database) -> None:
    trace_id = claim(database, Arrival(question="what is ERR_9?"))
    assert trace_id
    query = Query(text="what is ERR_9?", question="what is ERR_9?")
    retrieval = Retrieval(query=query, candidates=(), kept=(), unknown=("ERR_9",))
    save_retrieval(database, trace_id, retrieval, tokens={})
    answer = Answer(text="None.", abstained_because="UNKNOWN_IDENTIFIER")
    save_answer(database, trace_id, answer, settings={}, stage_ms={})
    assert [gap.name for gap in load(database).gaps.top] == ["ERR_9"]


def test_a_gap_is_unanswered_or_flagged_or_both(database: Database) -> None:
    flagged = ask(database, question="how far?")
    both = ask(database, "abstained", question="how far?")
    ask(database, "failed", question="how far?")
    ask(database, question="how near?")
    for trace_id in (flagged, both):
        feedback.vote(database, trace_id, "U1", -1)
        feedback.vote(database, trace_id, "U2", -1)
    (gap,) = load(database).gaps.top
    assert (gap.count, gap.abstained, gap.flagged) == (2, 1, 2)


def test_the_most_frequent_gaps_come_first_and_of_the_rest_the_number(database: Database) -> None:
    for number in range(stats.MOST_GAPS + 3):
        ask(database, "abstained", question=f"question {number}?", days_ago=1 + number)
    ask(database, "abstained", question="question 9?", days_ago=29)
    loaded = load(database).gaps
    assert [gap.question for gap in loaded.top[:2]] == ["question 9?", "question 0?"]
    assert len(loaded.top) == stats.MOST_GAPS
    assert (loaded.groups, loaded.questions) == (stats.MOST_GAPS + 3, stats.MOST_GAPS + 4)


def test_words_are_loaded_for_who_said_them_and_for_admins(database: Database) -> None:
    ask(database, "abstained", question="my salary?", user_id="U1", days_ago=2)
    ask(database, "abstained", question="My salary?", user_id="U2")
    ask(database, "abstained", question="is sk-9 bad?", user_id="U2", unknown="sk-9")
    assert gaps(database) == [(2, "My salary?"), (1, "is sk-9 bad?")]
    assert gaps(database, Viewer(user_id="U1")) == [(1, "my salary?"), (1, None), (1, None)]
    assert gaps(database, Viewer(user_id="U3")) == [(2, None), (1, None)]
    assert gaps(database, Viewer()) == [(2, None), (1, None)]
    assert [gap.name for gap in load(database, Viewer(user_id="U1")).gaps.top] == [None] * 3


def test_asking_the_same_does_not_tell_how_many_others_did(database: Database) -> None:
    for user_id in ("U2", "U3"):
        ask(database, "abstained", question="is project tulip cancelled?", user_id=user_id)
    ask(database, "abstained", question="is sk-9 bad?", user_id="U2", unknown="sk-9")
    before = load(database, Viewer(user_id="U1")).gaps
    ask(database, "abstained", question="Is project tulip cancelled?", user_id="U1")
    ask(database, "abstained", question="sk-9?", user_id="U1", unknown="sk-9")
    after = load(database, Viewer(user_id="U1")).gaps
    assert {gap.count for gap in after.top if gap.question} == {1}
    assert tuple(gap for gap in after.top if not gap.question) == before.top
    assert (after.groups, after.questions) == (before.groups + 2, before.questions + 2)
    assert gaps(database)[0][0] == 3


def test_ones_own_gaps_come_first(database: Database) -> None:
    for _ in range(2):
        ask(database, "abstained", question="how far?", user_id="U2")
    ask(database, "abstained", question="how long?", user_id="U1", days_ago=9)
    assert gaps(database, Viewer(user_id="U1")) == [(1, "how long?"), (2, None)]
    assert gaps(database) == [(2, "how far?"), (1, "how long?")]


def test_pages_are_fresh_stale_or_without_a_date(database: Database) -> None:
    for number, days_ago in enumerate([0, 365, 366, None]):
        add_page(database, "wiki", f"{number}.md", verified_days_ago=days_ago)
    add_page(database, "guide", "a.md", verified_days_ago=20)
    assert stats.load_sources(database, 365) == (
        Source(name="guide", fresh=1, stale=0, undated=0),
        Source(name="wiki", fresh=2, stale=1, undated=1),
    )
    assert stats.load_sources(database, 10)[0] == Source(name="guide", fresh=0, stale=1, undated=0)


def test_the_last_two_runs_of_each_set_are_compared(database: Database) -> None:
    for name, recall in (("dev", 0.7), ("dev", 0.86), ("docs", 0.8), ("dev", 0.89), ("off", None)):
        add_run(database, name, recall)
    assert load(database).runs == (
        SetRuns(name="dev", recall_at_5=0.89, before=0.86),
        SetRuns(name="docs", recall_at_5=0.8, before=None),
    )


def test_p47_of_our_own_cases_those_are_counted_that_may_be_read(database: Database) -> None:
    know_cases(database, ["found", "lost"])
    found = eval_runs.result(eval_runs.case("found"))
    lost = eval_runs.result(eval_runs.case("lost"), [eval_runs.OTHER])
    kept.save(database, eval_runs.run(found, lost, name="cases"))
    assert load(database).runs == (SetRuns(name="cases", recall_at_5=0.5, before=None),)
    restrict_case(database, "lost")
    assert load(database).runs == (SetRuns(name="cases", recall_at_5=1.0, before=None),)
    restrict_case(database, "found")
    assert load(database).runs == ()


COUNTS = Counts(
    asked=8,
    answered=5,
    abstained=2,
    failed=1,
    flagged=1,
    helpful=3,
    input_tokens=900,
    output_tokens=80,
    cost=Cost(usd=0.0123456, unpriced=("claude-c",)),
    median_ms=2345.6789,
    p95_ms=9000.04,
)
LOADED = Stats(
    scope=Scope(days=7),
    counts=COUNTS,
    before=Counts(),
    freshness_days=365,
    at_fault={"search": 1},
    gaps=Gaps(
        groups=1,
        questions=2,
        top=(Gap(count=2, abstained=2, flagged=0, name=None, question="wie lange – ungefähr?"),),
    ),
    sources=(Source(name="wiki", fresh=1, stale=2, undated=3),),
    runs=(SetRuns(name="dev", recall_at_5=0.8, before=None),),
)


def test_the_json_is_one_line_with_every_sum_to_tenths_of_a_millisecond() -> None:
    line = stats.to_json(LOADED)
    outcomes = {"answered": 5, "abstained": 2, "failed": 1, "limited": 0, "stopped": 0}
    counts = {"asked": 8, **outcomes, "flagged": 1, "helpful": 3}
    tokens = {"input_tokens": 900, "output_tokens": 80}
    assert json.loads(line) == {
        "days": 7,
        **counts,
        **tokens,
        "cost": {"usd": 0.0123456, "unpriced": ["claude-c"]},
        "median_ms": 2345.7,
        "p95_ms": 9000.0,
        "before": {
            **dict.fromkeys([*counts, *tokens], 0),
            **dict.fromkeys(["cost", "median_ms", "p95_ms"]),
        },
        "stage_at_fault": {"search": 1, "not_known": 0},
        "freshness_days": 365,
        "sources": [{"name": "wiki", "fresh": 1, "stale": 2, "undated": 3}],
        "runs": [{"name": "dev", "recall_at_5": 0.8, "before": None}],
        "gaps": {
            "groups": 1,
            "questions": 2,
            "top": [
                {
                    "count": 2,
                    "abstained": 2,
                    "flagged": 0,
                    "name": None,
                    "question": "wie lange – ungefähr?",
                }
            ],
        },
    }
    assert "\n" not in line
