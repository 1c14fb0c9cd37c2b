"""What is said of cited pages that may no longer hold, and of those that differ from older ones."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from app import blocks, confirming, freshness
from app.answering import Answerer, Stage, Writing
from app.config import Settings
from app.freshness import Replaced
from app.generate.anthropic import Claude
from app.generate.generator import Generator
from app.generate.quoted import OPENING, Quoter
from app.records import Answer, Arrival, Citation, Turn
from app.rendering import build_answer
from app.traces import claim
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.precedence import Validity
from retrieval.records import Query, Retrieval
from retrieval.retrieve import Retriever
from tests.conftest import Server, copied
from tests.retrieval.candidates import candidate
from tests.retrieval.pages import build_retriever, find_rows, ingest, page
from tests.stand_ins.claude import ClaudeStandIn, Text

TODAY = date(2026, 3, 1)


def cite(title: str, verified_at: date | None = None, *, path: str = "hr/a.md") -> Citation:
    return Citation(
        marker=1,
        section_id=1,
        path=path,
        title=title,
        heading_path=(),
        url="",
        cited_text="80.",
        owner=None,
        updated_at=None,
        verified_at=verified_at,
    )


def caveats(*citations: Citation, days: int = 365) -> list[str | None]:
    numbered = [replace(each, marker=number) for number, each in enumerate(citations, 1)]
    marked = freshness.mark(numbered, Validity(today=TODAY, freshness_days=days))
    return [each.caveat for each in marked]


@pytest.mark.parametrize(
    ("verified_at", "days", "caveat"),
    [
        (date(2023, 2, 1), 365, "last verified 2023-02-01, 3 years ago"),
        (date(2025, 2, 28), 365, "last verified 2025-02-28, 1 year ago"),
        (date(2025, 3, 1), 365, None),  # to the day
        (date(2025, 12, 20), 30, "last verified 2025-12-20, 2 months ago"),
        (date(2026, 2, 27), 1, "last verified 2026-02-27, 2 days ago"),
        (date(2026, 9, 1), 365, None),
        (None, 365, None),
    ],
)
def test_a_page_is_stale_once_it_was_verified_too_long_ago(
    verified_at: date | None, days: int, caveat: str | None
) -> None:
    assert caveats(cite("Leave", verified_at), days=days) == [caveat]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Travel policy 2023", "Travel policy 2025"),
        ("2023 Travel Policy", "Travel policy (2024)"),
        ("Salary bands 2023/24", "Salary bands 2024–25."),
        ("Bonus plan FY2024", "Bonus plan FY25"),
        ("Travel policy v1.9", "Travel policy, version 1.10"),
        ("Budget 2025 v1", "Budget 2025 v2"),
        ("SOP-12 rev. 3", "SOP-12, revision 4"),
        ("Travel policy rev 9", "Travel policy rev 10"),
        ("Travel policy (old)", "Travel policy"),
        ("[Archived] Travel policy", "Travel policy"),
        ("Onboarding – archive", "Onboarding"),
        ("Copy of Onboarding", "Onboarding"),
    ],
)
def test_of_two_editions_the_older_is_marked_however_late_it_was_verified(
    older: str, newer: str
) -> None:
    assert caveats(cite(older), cite(newer)) == ["older than [2]", None]
    assert caveats(cite(newer), cite(older)) == [None, "older than [1]"]
    late, early = cite(older, date(2026, 2, 1)), cite(newer, date(2025, 9, 1))
    assert caveats(late, early) == ["verified 2026-02-01, older than [2]", None]


def test_an_older_edition_that_is_stale_is_told_as_both() -> None:
    old = cite("Travel policy (old)", date(2023, 2, 1))
    assert caveats(old, cite("Travel policy")) == [
        "last verified 2023-02-01, 3 years ago, older than [2]",
        None,
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Travel policy", "Travel policy"),  # each shows when it was verified
        ("FAQ", "FAQ"),
        ("Travel policy", "Travel policy 2025"),
        ("Travel policy 2023", "Leave policy 2025"),
        ("Leave policy v2", "Leave policy v2.0"),
        ("Travel policy 2026", "Travel policy 2027"),  # not in force yet
        ("Travel policy", "Travel policy (draft)"),
        ("Holidays 2025", "Holidays 2026"),
        ("Annual report 2024", "Annual report 2025"),
        ("Class of 2024", "Class of 2025"),
        ("Marketing plan 2025", "Marketing plan 2026"),
        ("Tax rates 2024", "Tax rates 2025"),
        ("Controller board rev 1", "Controller board rev 2"),  # both are in use
        ("Windows Server 2019 hardening guide", "Windows Server 2022 hardening guide"),
        ("Office 2019", "Office 2021"),
        ("Billing API v1", "Billing API v2"),
        ("API guide v1", "API guide v2"),
        ("TLS 1.2", "TLS 1.3"),
        ("RFC 2041", "RFC 2050"),
        ("Room 2041", "Room 2050"),
        ("Archived projects", "Projects"),
        ("Old town office", "Town office"),
        ("Directions (old office)", "Directions"),
        ("Draft beer policy", "Beer policy"),
        ("Onboarding (1)", "Onboarding"),
        ("Incident on 2020-02-12", "Incident on 2020-04-08"),
        ("2019-10-22", "2019-10-29"),
        ("Error-2023", "Error-2025"),
        ("2023", "2025"),
        ("12. Security groups", "31. Security groups"),
    ],
)
def test_other_pages_are_not_marked(one: str, other: str) -> None:
    for first, last in ((one, other), (other, one)):
        assert caveats(cite(first), cite(last)) == [None, None]
        dated = cite(first, date(2025, 9, 1)), cite(last, date(2026, 1, 1))
        assert caveats(*dated) == [None, None]


@pytest.mark.parametrize(
    ("older", "newer", "caveat"),
    [
        ("hr/2023/travel.md", "hr/2025/travel.md", "older than [2]"),
        ("hr/archive/travel.md", "hr/travel.md", "older than [2]"),
        ("germany/travel.md", "spain/travel.md", None),
        ("hr/travel.md", "hr/germany/travel.md", None),
    ],
)
def test_editions_lie_in_one_folder_but_for_what_it_says_of_their_age(
    older: str, newer: str, caveat: str | None
) -> None:
    old, new = cite("Travel policy 2023", path=older), cite("Travel policy 2025", path=newer)
    assert caveats(old, new) == [caveat, None]


def test_two_sections_of_one_page_are_no_editions() -> None:
    page = cite("Travel policy 2023", date(2026, 1, 1))
    assert caveats(page, page) == [None, None]


def test_a_page_may_say_how_long_it_counts_as_verified() -> None:
    assert caveats(replace(cite("Leave", date(2023, 2, 1)), freshness_days=3_650)) == [None]
    assert caveats(replace(cite("Leave", date(2026, 2, 1)), freshness_days=7)) == [
        "last verified 2026-02-01, 28 days ago"
    ]


def test_a_page_that_no_longer_holds_says_what_replaces_it() -> None:
    over = replace(cite("Leave"), is_superseded=True, superseded_by="*Time* <!channel>")
    assert caveats(over) == ["says that it no longer holds"]
    (marked,) = freshness.mark([over], Validity(today=TODAY, freshness_days=365))
    assert blocks.build_source_line(marked) == (
        "[1] Leave · ⚠️ says that it no longer holds · `replaced by *Time* &lt;!channel&gt;`"
    )


def differing(*pages: Replaced) -> tuple[str, ...]:
    """What a page is told to differ from."""
    cited = replace(cite("Leave", date(2026, 1, 1)), document_id=1)
    (marked,) = freshness.mark([cited], Validity(today=TODAY, freshness_days=365), pages)
    assert marked.age == "verified 2026-01-01"  # that it differs is nothing against it
    return marked.relations


def test_older_pages_that_say_something_else_are_named_with_their_dates() -> None:
    old = Replaced(
        title="Leave (old)",
        path="hr/a.md",
        source="git",
        verified_at=date(2023, 2, 1),
        document_id=1,
        words=frozenset(),
    )
    assert differing(old, old, replace(old, document_id=2)) == (
        "differs from Leave (old) (2023-02-01)",
    )
    many = [replace(old, title=f"Leave {year}", verified_at=None) for year in (2023, 2022, 2021)]
    assert differing(*many) == ("differs from Leave 2023", "differs from Leave 2022")
    assert differing(replace(old, title="x\n" * 200)) == (
        f"differs from {'x ' * 19}x… (2023-02-01)",
    )
    # Of one title, where they are tells them apart.
    assert differing(replace(old, title="Leave", path="hr/old/a.md")) == (
        "differs from hr/old/a.md (2023-02-01)",
    )
    assert differing(replace(old, title="Leave")) == ("differs from its copy in git (2023-02-01)",)


def test_a_page_that_names_itself_or_one_that_names_it_is_not_told_to_be_replaced() -> None:
    def circular(*pages: tuple[str, str, str | None]) -> frozenset[int]:
        found = [
            replace(each, section=replace(each.section, superseded_by=name))
            for number, (path, title, name) in enumerate(pages, 1)
            for each in (candidate(number, path=path, title=title),)
        ]
        query = Query(text="", question="")
        return freshness.find_circular(
            Retrieval(query=query, candidates=tuple(found), kept=(), passed_over=())
        )

    assert circular(("a.md", "Forklift", "forklift")) == {1}
    assert circular(("a.md", "Forklift", "forklift"), ("b.md", "Forklift", None)) == frozenset()
    assert circular(("a.md", "A", "B"), ("b.md", "B", "C"), ("c.md", "C", "a")) == {1, 2, 3}
    assert circular(("a.md", "A", "B"), ("b.md", "B", "c.md"), ("c.md", "C", "B")) == {2, 3}
    assert circular(("a.md", "A", "B"), ("b.md", "B", "gone")) == frozenset()
    assert circular(("old/travel.md", "Old", "../travel.md")) == frozenset()


def opening(
    owner: str | None, verified_at: date | None = date(2022, 2, 28), **stated: Any
) -> str | None:
    """What an answer opens with that rests on such a page."""
    cited = replace(cite("Leave", verified_at), owner=owner, document_id=1, **stated)
    validity = Validity(today=TODAY, freshness_days=365)
    answer = Answer(text="30 days [1].", citations=freshness.mark([cited], validity))
    opened = freshness.open_with_warning(answer, validity).text
    return opened.removesuffix("30 days [1].").removesuffix("\n\n") or None


def test_an_answer_from_a_stale_page_opens_with_its_age_and_owner() -> None:
    said = "The best page that I found was last verified 4 years ago (2022-02-28)."
    assert opening("People team") == (
        f"{said} Its owner is People team: ask before you rely on it."
    )
    assert opening(None) == f"{said} It names no owner: check before you rely on it."
    assert opening("IT", date(2026, 1, 1)) is None
    assert opening("IT", None) is None


def test_an_answer_from_a_page_that_no_longer_holds_opens_with_that_and_what_holds() -> None:
    asks = "Its owner is IT: ask before you rely on it."
    over = "The best page that I found says that it no longer holds."
    assert opening("IT", TODAY, is_superseded=True) == f"{over} {asks}"
    assert opening("IT", None, is_superseded=True, superseded_by="Leave 2026") == (
        f"{over} In its place it names Leave 2026. {asks}"
    )
    assert opening("IT", is_superseded=True, superseded_by="<!channel> *x*") == (
        "The best page that I found was last verified 4 years ago (2022-02-28) and says that it no "
        f"longer holds. In its place it names `<!channel> *x*`. {asks}"
    )


@pytest.mark.parametrize(
    "owner", ["<!channel>", "<@U012345>", "[1] *Ana*", "`*x*`", "https://evil.example", "a\n# b"]
)
def test_whatever_an_owner_is_called_nobody_is_called_and_nothing_is_marked(owner: str) -> None:
    shown = (opening(owner) or "").partition("Its owner is ")[2]
    assert shown.startswith("`") and shown.count("`") == 2 and "\n" not in shown


def test_a_second_page_that_is_stale_opens_nothing() -> None:
    validity = Validity(today=TODAY, freshness_days=365)
    cited = [cite("A", TODAY), replace(cite("B", date(2022, 2, 28)), marker=2)]
    answer = Answer(text="x [1] y [2].", citations=freshness.mark(cited, validity))
    assert freshness.open_with_warning(answer, validity) == answer


TOPICS = {
    "dated": ("Travel", "daily meal cap"),
    "years in titles": ("Parking", "monthly parking fee"),
    "years in folders": ("Sports", "allowance for the gym"),
    "superseded": ("Phone", "price limit for a new telephone"),
}
OLD, NEW = {"dated": 61, "years in titles": 62, "years in folders": 63, "superseded": 64}, 80


def policy(topic: str, year: int | str, thing: str, euros: int) -> str:
    return (
        f"# {topic} policy {year}\n\nAsk the office where in doubt.\n\n"
        f"## Amounts\n\nThe {thing} is {euros} euros. Keep every receipt.\n"
    )


def front(**fields: object) -> str:
    return "---\n" + "".join(f"{name}: {value}\n" for name, value in fields.items()) + "---\n"


def ago(days: int) -> date:
    return datetime.now(UTC).date() - timedelta(days=days)


def build_conflict(kind: str) -> dict[str, str]:
    """Two policies on one thing, by path: the old one and that in force."""
    topic, thing = TOPICS[kind]
    old, new = policy(topic, 2023, thing, OLD[kind]), policy(topic, 2025, thing, NEW)
    if kind == "dated":
        old, new = front(last_verified=ago(1_100)) + old, front(last_verified=ago(30)) + new
    if kind == "years in folders":
        old, new = old.replace("policy 2023", "policy"), new.replace("policy 2025", "policy")
        return {f"{topic}/2023/rules.md": old, f"{topic}/2025/rules.md": new}
    if kind == "superseded":
        stated = front(status="superseded", superseded_by="in-force.md")
        return {
            f"{topic}/a.md": stated + old.replace("policy 2023", "rules"),
            f"{topic}/in-force.md": new.replace("policy 2025", "policy"),
        }
    return {f"{topic}/a.md": old, f"{topic}/b.md": new}


WORDS = " ".join(f"Rule {number} holds for every trip." for number in range(20))
COPY = "# Trips\n\nThe most for a taxi is {euros} euros. " + WORDS + "\n"
PAGES = {
    **{path: words for kind in TOPICS for path, words in build_conflict(kind).items()},
    "hr/library.md": front(last_verified=ago(1_500), owner="People team")
    + policy("Library", "", "fine for a late book", 7),
    "hr/coffee.md": front(last_verified=ago(1_500)) + policy("Coffee", "", "price of a coffee", 1),
    "it/permit.md": front(last_verified="2999-01-01") + "# Permits\n\nAsk at the front desk.\n",
    "it/gate.md": front(last_verified=ago(10)) + "# Gate\n\nThe gate closes at nine.\n",
    "x/old/trips.md": front(last_verified=ago(200)) + COPY.format(euros=65),
    "y/trips.md": front(last_verified=ago(20)) + COPY.format(euros=85),
    **{
        f"{here}.md": front(title=f"Badges {here}", superseded_by=f"Badges {there}")
        + f"# Badges {here}\n\nVisitor badges are collected at the {gate} gate.\n"
        for here, there, gate in (("north", "south", "first"), ("south", "north", "second"))
    },
}


@pytest.fixture(scope="module")
def retriever(server: Server, template: str, embedder: Embedder) -> Iterator[Retriever]:
    """The search over all of these pages; no test changes a page that another asks about."""
    with copied(server, template) as url:
        database = Database(url, tenant_id="acme")
        ingest(database, embedder, *(page(path, words) for path, words in PAGES.items()))
        yield build_retriever(database, embedder)
        database.close()


def answer(
    retriever: Retriever, generator: Generator, question: str, stages: list[Stage] | None = None
) -> Answer:
    answerer = Answerer(retriever=retriever, generator=generator)
    trace_id = claim(retriever.database, Arrival(question=question))
    assert trace_id is not None
    tell = (lambda stage: None) if stages is None else stages.append
    turns = [Turn(speaker="user", text=question)]
    return answerer.answer(turns, trace_id, lambda: None, tell)


@pytest.mark.parametrize("kind", list(TOPICS))
def test_of_two_policies_the_one_in_force_is_quoted_and_the_other_named(
    kind: str, retriever: Retriever, embedder: Embedder
) -> None:
    topic, thing = TOPICS[kind]
    given = answer(retriever, Quoter(embedder), f"what is the {thing}?")
    shown = build_answer(given)
    assert f"The {thing} is {NEW} euros." in given.text and str(OLD[kind]) not in given.text
    assert given.text.startswith(OPENING)
    old = {"superseded": "Phone rules", "years in folders": "Sports/2023/rules.md"}
    assert f"differs from {old.get(kind, f'{topic} policy 2023')}" in shown
    if kind == "dated":
        assert f"verified {ago(30)} · differs from Travel policy 2023 ({ago(1_100)})" in shown


@pytest.mark.parametrize("kind", list(TOPICS))
def test_of_two_policies_claude_reads_the_one_in_force(
    kind: str, retriever: Retriever, stand_in: ClaudeStandIn
) -> None:
    stand_in.reply([Text("It is 80 euros.", cites=[(0, 0, 4)])])
    with build_claude(stand_in) as claude:
        given = answer(retriever, claude, f"what is the {TOPICS[kind][1]}?")
    (request,) = stand_in.requests()
    read = str(request.body["messages"])
    assert f"{NEW} euros" in read and f"{OLD[kind]} euros" not in read
    assert (f"(verified {ago(30)})" in read) == (kind == "dated")
    (citation,) = given.citations
    assert citation.differs_from


def build_claude(stand_in: ClaudeStandIn) -> Claude:
    return Claude(
        Settings(
            anthropic_api_key=stand_in.api_key,
            anthropic_base_url=stand_in.base_url,
            answer_model="claude-test",
        )
    )


def test_the_policy_of_a_year_is_still_told_to_who_asks_for_it(
    retriever: Retriever, embedder: Embedder
) -> None:
    question = "what was the monthly parking fee in the parking policy 2023?"
    given = answer(retriever, Quoter(embedder), question)
    assert "The monthly parking fee is 62 euros." in given.text


def test_a_stale_page_alone_answers_and_opens_with_its_age_until_it_is_confirmed(
    retriever: Retriever, embedder: Embedder
) -> None:
    question = "what is the fine for a late book of the library?"
    given = answer(retriever, Quoter(embedder), question)
    assert given.text.startswith(
        f"The best page that I found was last verified 4 years ago ({ago(1_500)}). "
        f"Its owner is People team: ask before you rely on it.\n\n{OPENING}"
    )
    assert [citation.is_stale for citation in given.citations] == [True]
    document_id = given.citations[0].document_id
    assert document_id is not None
    assert confirming.confirm(retriever.database, [document_id], "U1") == 1
    again = answer(retriever, Quoter(embedder), question)
    assert again.text.startswith(OPENING)
    assert [citation.age for citation in again.citations] == [f"verified {ago(0)}"]


def test_what_is_seen_of_an_answer_while_it_is_written_opens_with_the_age_too(
    retriever: Retriever, stand_in: ClaudeStandIn
) -> None:
    stand_in.reply([Text("It is 1 euro. ", cites=[(0, 0, 4)]), Text("Keep receipts.")])
    stages: list[Stage] = []
    with build_claude(stand_in) as claude:
        given = answer(retriever, claude, "what is the price of a coffee?", stages)
    drafts = [stage.answer.text for stage in stages if isinstance(stage, Writing)]
    assert drafts and all(given.text.startswith(draft[:60]) for draft in drafts)
    assert given.text.startswith("The best page that I found was last verified 4 years ago")


def test_two_verified_copies_are_told_by_the_newer(
    retriever: Retriever, embedder: Embedder
) -> None:
    given = answer(retriever, Quoter(embedder), "what is the most for a taxi?")
    assert "85 euros" in given.text and "65" not in given.text
    assert given.citations[0].differs_from == (f"x/old/trips.md ({ago(200)})",)


def test_a_day_to_come_is_no_date(retriever: Retriever) -> None:
    statement = "SELECT stated_on::text, verified_at FROM documents WHERE path = 'it/permit.md'"
    assert find_rows(retriever.database, statement) == [("2999-01-01", None)]


def test_of_pages_that_replace_each_other_neither_is_told_to_be_replaced(
    retriever: Retriever, embedder: Embedder
) -> None:
    given = answer(retriever, Quoter(embedder), "where are visitor badges collected?")
    assert given.text.startswith(
        "The best page that I found says that it no longer holds. It names no owner"
    )
    ages = {citation.age for citation in given.citations}
    assert ages == {"⚠️ says that it no longer holds"}
    assert "replaced by" not in build_answer(given)
