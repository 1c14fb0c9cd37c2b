"""What is told of a week."""

import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from slack_sdk.errors import SlackApiError
from sqlalchemy import text

from app import feedback, posting
from app.blocks import BLOCK_TEXT, FALLBACK_TEXT, MESSAGE_BLOCKS, MESSAGE_TEXT
from app.config import Settings
from app.loop import digest
from app.loop.digest import CaseCounts, Digest, Recall, StalePage
from app.stats import MOST_GAPS, Cost, Counts, Gap, Gaps, Scope, Stats
from retrieval.db import Database
from tests.app.nights import know_cases, restrict_case
from tests.app.questions import add_page, ask
from tests.retrieval.pages import find_rows
from tests.stand_ins.slack import SlackStandIn

WEEK = Digest(
    until=date(2026, 11, 30),
    stats=Stats(
        scope=Scope(days=7),
        counts=Counts(asked=64, answered=56, abstained=8, flagged=3, cost=Cost(usd=4.2218)),
        before=Counts(asked=52, answered=45, abstained=7, cost=Cost(usd=3.5)),
        freshness_days=365,
        at_fault={"search": 3},
        gaps=Gaps(
            groups=7,
            questions=13,
            top=(Gap(count=5, abstained=4, flagged=1, name=None, question="do we get shares?"),),
        ),
    ),
    stale=(
        StalePage(
            document_id=1,
            title="VPN",
            url="https://wiki.example/vpn",
            owner="IT",
            verified_at=date(2025, 1, 2),
            answers=4,
        ),
        StalePage(document_id=2, title="Leave", url="", owner=None, verified_at=None, answers=1),
    ),
    stale_count=3,
    cases=CaseCounts(new=6, approved=1_004, waiting=2, hidden=1),
    recall=Recall(cases=1_240, begin=0.86, end=0.891),
)

TEXT = """\
The week to 2026-11-30
In the last 7 days, beside the 7 before
Asked: 64 ↑ 12
Answered: 56 (88%) ↑ 1 point
Abstained: 8 (12%) ↓ 1 point
Failed: 0 (0%) =
Flagged 👎: 3 (5%) ↑ 5 points
Helpful 👍: 0 (0%) =
Cost: $4.22 ↑ $0.72
Stage at fault: search 3
Unanswered or flagged
5 × do we get shares? · 4 not answered, 1 flagged 👎
and 8 questions more
Stale pages most cited
4 answers · <https://wiki.example/vpn|VPN> · last verified 2025-01-02 · IT
1 answer · Leave · a later edition exists · no owner
and 1 page more
Cases
6 new, 1,004 approved, 2 waiting for a review
1 flagged answer for fewer people than read here: `footnote cases review`
Nightly recall@5: 0.86 → 0.89 (1,240 cases)"""


def test_a_week_is_told_beside_the_one_before() -> None:
    message = digest.build_message(WEEK)
    assert message.text == TEXT
    titles = [block["text"]["text"].splitlines()[0] for block in message.blocks]
    assert titles == [
        "*The week to 2026-11-30*",
        "*In the last 7 days, beside the 7 before*",
        "*Unanswered or flagged*",
        "*Stale pages most cited*",
        "*Cases*",
    ]


def test_a_week_in_which_nothing_happened_is_told() -> None:
    nothing = Digest(
        until=date(2026, 11, 30),
        stats=Stats(scope=Scope(days=7), counts=Counts(), before=Counts(), freshness_days=365),
        stale=(),
        stale_count=0,
        cases=CaseCounts(new=0, approved=0, waiting=0),
        recall=None,
    )
    assert digest.build_message(nothing).text.splitlines()[1:] == [
        "Nobody has asked anything in the last 7 days.",
        "Cases",
        "0 new, 0 approved, 0 waiting for a review",
    ]


@pytest.mark.parametrize(
    "words",
    [
        *("&" * 400, "<!channel> " * 40, "<https://evil.example|click> " * 20, "`*_~" * 100),
        *("a\n> b\n```c", "\u202eevil\u202c", "*bold* _it_ ~no~ `code`", "@here #general a@b.cd"),
    ],
)
@pytest.mark.parametrize(
    "url", [f"https://wiki.example/?{'&' * 1_400}", "https://wiki.example/?a&b", "javascript:x"]
)
def test_whatever_was_asked_and_is_called_fits_slack_and_calls_nobody(words: str, url: str) -> None:
    gap = Gap(count=10**6, abstained=10**5, flagged=10**5, name=words, question=words)
    page = replace(WEEK.stale[0], title=words, url=url, owner=words, answers=10**6)
    stats = replace(WEEK.stats, gaps=Gaps(groups=10**6, questions=10**6, top=(gap,) * MOST_GAPS))
    worst = replace(WEEK, stats=stats, stale=(page,) * digest.MOST_STALE, stale_count=10**6)
    message = digest.build_message(worst)
    shown = [block["text"]["text"] for block in message.blocks]
    assert max(map(len, shown)) <= BLOCK_TEXT and sum(map(len, shown)) <= MESSAGE_TEXT
    assert len(shown) <= MESSAGE_BLOCKS and 0 < len(message.text) <= FALLBACK_TEXT
    for each in (*shown, message.text):
        unlinked = re.sub(r"<https://wiki\.example/\?a&amp;b\|[^<>|]*>", "", each)
        assert not set("<>\u202e") & set(unlinked)
        assert all(line.count("`") % 2 == 0 for line in unlinked.splitlines())


def cite(
    database: Database,
    *pages: tuple[str, str | None],
    days_ago: float = 1,
    verified: date | None = None,
    **more: Any,
) -> UUID:
    """An answer that cites pages of the wiki, each with what it said against it, of one date."""
    trace_id = ask(database, days_ago=days_ago, **more)
    known = dict(
        find_rows(database, "SELECT path, document_id FROM documents WHERE source = 'wiki'")
    )
    citations = [
        {
            "document_id": known.get(path),
            "caveat": caveat,
            "verified_at": verified and verified.isoformat(),
        }
        for path, caveat in pages
    ]
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE traces SET citations = CAST(:cited AS jsonb) WHERE trace_id = :trace_id"),
            {"cited": json.dumps(citations), "trace_id": trace_id},
        )
    return trace_id


def add_pages(database: Database, pages: Sequence[tuple[str, int | None]]) -> None:
    """Pages by when they were verified."""
    for path, days_ago in pages:
        add_page(database, "wiki", path, verified_days_ago=days_ago)
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE documents SET url = 'https://wiki.example/' || path, owner = 'IT'")
        )


def load(database: Database) -> Digest:
    return digest.load(database, Settings())


def test_pages_are_stale_that_are_old_or_were_told_to_be(database: Database) -> None:
    add_pages(database, [("old.md", 400), ("fresh.md", 3), ("edition.md", None), ("renewed.md", 0)])
    cite(database, ("old.md", "last verified 2025-01-01, 1 year ago"), ("old.md", None))
    cite(database, ("old.md", None), ("fresh.md", None), ("edition.md", "older than [1]"))
    cite(database, ("renewed.md", "last verified 2025-01-01, 1 year ago"), days_ago=2)
    cite(database, ("gone.md", "last verified 2025-01-01, 1 year ago"))
    cite(database, ("old.md", None), days_ago=8)  # before the week
    found = load(database)
    assert [(page.title, page.answers) for page in found.stale] == [
        ("old.md", 2),
        ("edition.md", 1),
    ]
    assert found.stale_count == 2
    old, edition = found.stale
    assert old.url == "https://wiki.example/old.md" and old.owner == "IT"
    assert old.verified_at is not None and edition.verified_at is None


def test_a_page_verified_since_it_was_cited_is_stale_no_more(database: Database) -> None:
    # Days before the question, but it was indexed only after that.
    add_pages(database, [("renewed.md", 3), ("edition.md", 3), ("old edition.md", 20)])
    long_ago = "last verified 2025-01-01, 1 year ago"
    cite(database, ("renewed.md", long_ago), verified=date(2025, 1, 1))
    cite(database, ("edition.md", f"{long_ago}, older than [2]"), verified=date(2025, 1, 1))
    then = datetime.now(UTC).date() - timedelta(days=20)
    cite(database, ("old edition.md", f"verified {then}, older than [2]"), verified=then)
    (page,) = load(database).stale
    assert (page.title, page.verified_at) == ("old edition.md", None)


def test_a_page_counts_as_stale_by_the_days_that_count_now(database: Database) -> None:
    add_pages(database, [("old.md", 400)])
    then = datetime.now(UTC).date() - timedelta(days=400)
    cite(database, ("old.md", f"last verified {then}, 1 year ago"), verified=then)
    assert load(database).stale_count == 1
    assert digest.load(database, Settings(freshness_days=730)).stale_count == 0


def test_what_was_no_question_cites_nothing(database: Database) -> None:
    add_pages(database, [("old.md", 400)])
    cite(database, ("old.md", None), settings={"small_talk": "thanks"})
    assert load(database).stale == ()


def test_of_two_pages_with_one_path_that_is_stale_which_was_cited(database: Database) -> None:
    for source, days_ago in (("wiki", 400), ("other", 500)):
        add_page(database, source, "old.md", verified_days_ago=days_ago)
    cite(database, ("old.md", None))
    (page,) = load(database).stale
    assert page.verified_at == datetime.now(UTC).date() - timedelta(days=400)


def test_of_many_stale_pages_the_most_cited_are_named(database: Database) -> None:
    paths = [f"{number}.md" for number in range(digest.MOST_STALE + 2)]
    add_pages(database, [(path, 400) for path in paths])
    cite(database, *((path, None) for path in paths))
    cite(database, (paths[-1], None))
    found = load(database)
    assert found.stale[0].title == paths[-1]
    assert (len(found.stale), found.stale_count) == (digest.MOST_STALE, len(paths))


def test_the_cases_of_a_week_are_counted_by_what_became_of_them(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(
            text("""
                INSERT INTO eval_cases (case_id, tenant_id, state, type, question, created_at,
                                        reviewed_at)
                SELECT state || days, :tenant_id, state, 'flagged', 'q',
                       now() - days * interval '1 day',
                       CASE WHEN state <> 'proposed' THEN now() - days * interval '1 day' / 2 END
                FROM unnest(ARRAY['proposed', 'approved', 'dismissed']) AS state,
                     unnest(ARRAY[1, 10, 20]) AS days
            """),
            {"tenant_id": database.tenant_id},
        )
    # Of each state one is a day old; approved were those of a day and of ten days.
    assert load(database).cases == CaseCounts(new=3, approved=2, waiting=3)


def add_run(
    database: Database,
    days_ago: float,
    *,
    name: str = "cases",
    digest: str = "d",
    is_reported: bool = True,
    **recalls: float | None,
) -> None:
    """A run of cases by what each got, None where nothing answers it."""
    found = [recall for recall in recalls.values() if recall is not None]
    results = [
        {"id": case_id, "content_digest": digest} | ({} if recall is None else {"recall@5": recall})
        for case_id, recall in recalls.items()
    ]
    know_cases(database, recalls)
    with database.transaction() as connection:
        connection.execute(
            text("""
                INSERT INTO eval_runs (tenant_id, cases_name, started_at, is_reported, settings,
                                       means, results)
                VALUES (:tenant_id, :name, now() - :days_ago * interval '1 day', :is_reported, '{}',
                        CAST(:means AS jsonb), CAST(:results AS jsonb))
            """),
            {
                "tenant_id": database.tenant_id,
                "name": name,
                "days_ago": days_ago,
                "is_reported": is_reported,
                "means": json.dumps({"all": {"recall@5": sum(found) / len(found)}}),
                "results": json.dumps(results),
            },
        )


def test_recall_is_that_before_the_week_and_at_its_end(database: Database) -> None:
    assert load(database).recall is None
    add_run(database, 9, one=0.5)
    assert load(database).recall is None  # none in this week
    for recall, days_ago in ((0.6, 8), (0.7, 6), (0.8, 1)):
        add_run(database, days_ago, one=recall)
    add_run(database, 0, name="handbook/dev", one=0.1)
    add_run(database, 0, is_reported=False, one=0.2)  # by hand
    assert load(database).recall == Recall(cases=1, begin=0.6, end=0.8)


def test_the_first_week_begins_with_its_first_run(database: Database) -> None:
    for recall, days_ago in ((0.7, 6), (0.75, 3), (0.8, 1)):
        add_run(database, days_ago, one=recall)
    assert load(database).recall == Recall(cases=1, begin=0.7, end=0.8)


def test_recall_is_of_the_cases_that_both_runs_have(database: Database) -> None:
    add_run(database, 8, one=1.0, two=0.0, gone=1.0, unanswerable=None)
    # The set has grown by what is not found yet, and nothing was lost.
    add_run(database, 1, one=1.0, two=1.0, new=0.0, more=0.0, unanswerable=None)
    assert load(database).recall == Recall(cases=2, begin=0.5, end=1)
    restrict_case(database, "two")
    assert load(database).recall == Recall(cases=1, begin=1, end=1)
    add_run(database, 0.5, digest="changed", one=0.0, two=0.0)
    assert load(database).recall is None


def test_the_report_channel_gets_it(slack: SlackStandIn, database: Database) -> None:
    ask(database, "abstained", question="do we get <!channel> shares?", user_id="U2")
    feedback.vote(database, ask(database, question="how long?", days_ago=2), "U2", -1)
    ask(database, days_ago=9)
    client = posting.build_client(slack.bot_token, slack.api_url)
    digest.post(client, database, Settings(report_channel="C1"))
    (call,) = slack.calls("chat.postMessage")
    assert call.params["channel"] == "C1"
    assert "1 × do we get &lt;!channel&gt; shares? · not answered" in call.params["text"]
    assert "Asked: 2 ↑ 1\n" in call.params["text"]
    assert "<" not in call.params["text"]
    digest.post(client, database, Settings())
    assert len(slack.calls("chat.postMessage")) == 1


def test_what_few_asked_directly_is_counted_and_not_worded(database: Database) -> None:
    def tell() -> str:
        _, gaps = digest.build_message(load(database)).text.split("Unanswered or flagged\n")
        return gaps.split("\nCases\n")[0]

    for user_id in ("U2", "U3"):
        ask(database, "abstained", question="is Ann ill?", channel_id="D1", user_id=user_id)
    assert tell() == "2 questions"
    ask(database, "abstained", question="how do I park?", user_id="U4")
    assert tell() == "1 × how do I park? · not answered\nand 2 questions more"
    ask(database, "abstained", question="is Ann ill?", channel_id="D9", user_id="U4")
    assert tell().startswith("3 × is Ann ill? · not answered\n1 × how do I park?")


MONDAY = datetime(2026, 11, 30, 0, 0, 1, tzinfo=UTC)
REFUSED = {"ok": False, "error": "not_in_channel"}


def post_weekly(slack: SlackStandIn, database: Database, now: datetime) -> bool:
    client = posting.build_client(slack.bot_token, slack.api_url)
    return digest.post_weekly(client, database, Settings(report_channel="C1"), now=now)


def test_it_is_posted_once_a_week(slack: SlackStandIn, database: Database) -> None:
    sunday, week = MONDAY + timedelta(days=6, hours=23), timedelta(days=7)
    for now, is_posted in (
        (MONDAY, True),
        (MONDAY, False),
        (sunday, False),
        (MONDAY + week, True),  # a Monday
        (sunday + week, False),
        (MONDAY - timedelta(seconds=2), True),  # the Sunday before
    ):
        assert post_weekly(slack, database, now) == is_posted
    assert len(slack.calls("chat.postMessage")) == 3


def test_of_two_processes_one_posts_it(slack: SlackStandIn, database: Database) -> None:
    with ThreadPoolExecutor(4) as pool:
        posted = list(pool.map(lambda _: post_weekly(slack, database, MONDAY), range(4)))
    assert posted.count(True) == 1
    assert len(slack.calls("chat.postMessage")) == 1


def test_what_slack_refuses_is_tried_again_and_what_may_stand_there_is_not(
    slack: SlackStandIn, database: Database
) -> None:
    slack.fail_next("chat.postMessage", body=REFUSED)
    with pytest.raises(SlackApiError, match="not_in_channel"):
        post_weekly(slack, database, MONDAY)
    slack.fail_next("chat.postMessage", drop_connection=True, after_storing=True, times=9)
    with pytest.raises(posting.PostLost):
        post_weekly(slack, database, MONDAY)
    assert not post_weekly(slack, database, MONDAY)


def test_without_a_channel_none_is_posted_nor_counted(
    slack: SlackStandIn, database: Database
) -> None:
    client = posting.build_client(slack.bot_token, slack.api_url)
    assert not digest.post_weekly(client, database, Settings(), now=MONDAY)
    assert post_weekly(slack, database, MONDAY)


def test_the_week_of_another_tenant_is_its_own(database: Database, database_url: str) -> None:
    add_pages(database, [("old.md", 400)])
    cite(database, ("old.md", None))
    add_run(database, 1, one=0.7)
    other = Database(database_url, tenant_id="other")
    found = load(other)
    other.close()
    assert (found.stale, found.recall, found.stats.counts) == ((), None, Counts())
