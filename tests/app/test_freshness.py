"""What is said of cited pages that may no longer hold, and of those that differ from older ones."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app import blocks, confirming, freshness, successors
from app.answering import Answerer, Kept, Stage, Writing
from app.claims import claim
from app.config import Settings
from app.freshness import Replaced
from app.generate.anthropic import Claude
from app.generate.generator import Generator
from app.generate.quoted import OPENING, Quoter
from app.records import Answer, Arrival, Citation, Successor, Turn
from app.rendering import build_answer
from retrieval import audiences
from retrieval.embedding import Embedder
from retrieval.precedence import Validity
from retrieval.records import Query, Retrieval
from retrieval.retrieve import Retriever
from tests.app.questions import build_citation
from tests.conftest import Server
from tests.retrieval.candidates import candidate
from tests.retrieval.pages import find_rows, searching
from tests.stand_ins.claude import ClaudeStandIn, Text

TODAY = date(2026, 3, 1)


def cite(title: str, verified_at: date | None = None, *, path: str = "hr/a.md") -> Citation:
    return build_citation(path=path, title=title, url="", verified_at=verified_at)


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
        ("hr/archive/travel.md", "hr/travel.md", "is filed as archived, older than [2]"),
        ("hr/_archive/travel.md", "hr/travel.md", "is filed as archived, older than [2]"),
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
        "rather than Leave (old) (verified 2023-02-01), which differs",
    )
    many = [replace(old, title=f"Leave {year}", verified_at=None) for year in (2023, 2022, 2021)]
    assert differing(*many) == (
        "rather than Leave 2023, which differs",
        "rather than Leave 2022, which differs",
    )
    assert differing(replace(old, title="x\n" * 200)) == (
        f"rather than {'x ' * 19}x… (verified 2023-02-01), which differs",
    )
    # Of one title, where they are tells them apart.
    assert differing(replace(old, title="Leave", path="hr/old/a.md")) == (
        "rather than hr/old/a.md (verified 2023-02-01), which differs",
    )
    assert differing(replace(old, title="Leave")) == (
        "rather than its copy in git (verified 2023-02-01), which differs",
    )


def find(*pages: tuple[str, str, str | None]) -> Mapping[int, Successor | None]:
    """What is told to replace pages, each with its path, title and what it names."""
    found = [
        replace(each, section=replace(each.section, superseded_by=name))
        for number, (path, title, name) in enumerate(pages, 1)
        for each in (candidate(number, path=path, title=title),)
    ]
    query = Query(text="", question="")
    return successors.find(Retrieval(query=query, candidates=tuple(found), kept=(), passed_over=()))


def name(*pages: tuple[str, str, str | None]) -> dict[int, str | None]:
    return {number: page and page.title for number, page in find(*pages).items()}


def test_a_page_that_names_itself_or_one_that_names_it_is_not_told_to_be_replaced() -> None:
    assert name(("a.md", "Forklift", "forklift")) == {1: None}
    assert name(("a.md", "Forklift", "forklift"), ("b.md", "Forklift", None)) == {1: "Forklift"}
    circle = ("b.md", "B", "C"), ("c.md", "C", "a")
    assert name(("a.md", "A", "B"), *circle) == {1: None, 2: None, 3: None}
    circle = ("b.md", "B", "c.md"), ("c.md", "C", "B")
    assert name(("a.md", "A", "B"), *circle) == {2: None, 3: None}
    assert name(("a.md", "A", "B"), ("b.md", "B", "gone")) == {1: "B"}
    assert name(("old/travel.md", "Old", "../travel.md")) == {}


def test_a_page_is_told_to_be_replaced_by_the_last_of_those_that_replace_one_another() -> None:
    chain = ("a.md", "A", "B"), ("b.md", "B", "C"), ("c.md", "C", None)
    assert name(*chain) == {1: "C", 2: "C"}
    over = replace(cite("A"), document_id=1, is_superseded=True, superseded_by="B")
    validity = Validity(today=TODAY, freshness_days=365)
    (marked,) = freshness.mark([over], validity, successors=find(*chain))
    assert marked.relations == ("replaced by C",)


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
    said = "The best page that I found was last verified 2022-02-28, 4 years ago."
    assert opening("People team") == (f"{said} Ask its owner (People team) before you rely on it.")
    assert opening(None) == f"{said} It names no owner: check before you rely on it."
    assert opening("IT", date(2026, 1, 1)) is None
    assert opening("IT", None) is None


def test_an_answer_from_a_page_that_no_longer_holds_opens_with_that_and_what_holds() -> None:
    asks = "Ask its owner (IT) before you rely on it."
    over = "The best page that I found says that it no longer holds."
    assert opening("IT", TODAY, is_superseded=True) == f"{over} {asks}"
    archived = "The best page that I found is filed as archived."
    assert opening("IT", TODAY, path="hr/_archive/leave.md") == f"{archived} {asks}"
    assert opening("IT", None, is_superseded=True, superseded_by="Leave 2026") == (
        f"{over} In its place it names Leave 2026. {asks}"
    )
    assert opening("IT", is_superseded=True, superseded_by="<!channel> *x*") == (
        "The best page that I found was last verified 2022-02-28, 4 years ago and says that it no "
        f"longer holds. In its place it names `<!channel> *x*`. {asks}"
    )


@pytest.mark.parametrize(
    "owner",
    [
        *("<!channel>", "<@U012345>", "[1] *Ana*", "`*x*`", "https://evil.example", "a\n# b"),
        *("o@x.com", "Bob. All else is wrong", "Bob."),
        *("U012345678", "<@U012345678|ana>", "Ops, S012345678"),  # names are found when it is shown
    ],
)
def test_whatever_an_owner_is_called_nobody_is_called_and_nothing_is_marked(owner: str) -> None:
    shown = opening(owner) or ""
    assert shown.endswith(". Ask its owner (named below) before you rely on it.")
    assert owner not in shown


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
    # Of a policy of three years the last is still to come.
    **{
        f"hr/desk-{year}.md": policy("Desk", year, "deposit for a desk", euros)
        for year, euros in ((2023, 66), (2025, NEW), (2099, 99))
    },
    "hr/library.md": front(last_verified=ago(1_500), owner="People team")
    + policy("Library", "", "fine for a late book", 7),
    "ops/feed.md": front(superseded_by="manifest-feed.md", last_verified=ago(1_500), owner="U02BEN")
    + policy("Customs", "", "fee for a missing stamp", 9),
    "ops/new/manifest-feed.md": "# Customs manifest feed\n\nBarcodes are read at the dock.\n",
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
    with searching(server, template, embedder, PAGES) as retriever:
        yield retriever


def answer(
    retriever: Retriever, generator: Generator, question: str, stages: list[Stage] | None = None
) -> Answer:
    answerer = Answerer(retriever=retriever, generator=generator)
    trace_id = claim(retriever.database, Arrival(question=question))
    assert trace_id is not None
    tell = (lambda stage: None) if stages is None else stages.append
    turns = [Turn(speaker="user", text=question)]
    kept = Kept(database=retriever.database, trace_id=trace_id)
    return answerer.answer(turns, kept, tell)


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
    assert f"rather than {old.get(kind, f'{topic} policy 2023')}" in shown
    if kind == "dated":
        assert f"verified {ago(30)} · rather than Travel policy 2023 (verified " in shown


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
        f"The best page that I found was last verified {ago(1_500)}, 4 years ago. "
        f"Ask its owner (People team) before you rely on it.\n\n{OPENING}"
    )
    assert [citation.is_stale for citation in given.citations] == [True]
    document_id = given.citations[0].document_id
    assert document_id is not None
    assert confirming.confirm(retriever.database, [document_id], "U1") == 1
    again = answer(retriever, Quoter(embedder), question)
    assert again.text.startswith(OPENING)
    assert [citation.age for citation in again.citations] == [f"verified {ago(0)}"]


def test_the_edition_in_force_is_quoted_though_others_are_said_to_be_still_true(
    retriever: Retriever, embedder: Embedder
) -> None:
    statement = "SELECT document_id FROM documents WHERE path IN ('{}', '{}')".format(
        "hr/desk-2023.md", "hr/desk-2099.md"
    )
    ids = [number for (number,) in find_rows(retriever.database, statement)]
    assert confirming.confirm(retriever.database, ids, "U1") == 2
    given = answer(retriever, Quoter(embedder), "what is the deposit for a desk?")
    assert "80 euros" in given.text and "66" not in given.text and "99" not in given.text
    others = sorted(given.citations[0].differs_from)
    assert [each[:16] for each in others] == ["Desk policy 2023", "Desk policy 2099"]


def test_what_is_seen_of_an_answer_while_it_is_written_opens_with_the_age_too(
    retriever: Retriever, stand_in: ClaudeStandIn
) -> None:
    stand_in.reply([Text("It is 1 euro. ", cites=[(0, 0, 4)]), Text("Keep receipts.")])
    stages: list[Stage] = []
    with build_claude(stand_in) as claude:
        given = answer(retriever, claude, "what is the price of a coffee?", stages)
    drafts = [stage.answer.text for stage in stages if isinstance(stage, Writing)]
    assert drafts and all(given.text.startswith(draft[:60]) for draft in drafts)
    assert given.text.startswith(f"The best page that I found was last verified {ago(1_500)}, 4")


def test_two_verified_copies_are_told_by_the_newer(
    retriever: Retriever, embedder: Embedder
) -> None:
    given = answer(retriever, Quoter(embedder), "what is the most for a taxi?")
    assert "85 euros" in given.text and "65" not in given.text
    assert given.citations[0].differs_from == (f"x/old/trips.md (verified {ago(200)})",)


def test_what_replaces_a_page_is_linked_for_who_may_read_it(
    retriever: Retriever, embedder: Embedder
) -> None:
    question = "what is the fee for a missing stamp at customs?"
    given = answer(retriever, Quoter(embedder), question)
    assert "In its place it names Customs manifest feed." in given.text
    line = blocks.build_source_line(given.citations[0])
    assert (
        "· replaced by <https://wiki.example/ops/new/manifest-feed.md|Customs manifest feed>"
        in line
    )
    assert [each.is_due for each in given.citations] == [False]  # stale as it is
    database = retriever.database
    (made_of,) = find_rows(
        database, "SELECT document_ids FROM traces ORDER BY asked_at DESC LIMIT 1"
    )
    with database.unrestricted.transaction() as connection:
        narrowed_id = connection.execute(
            text("""
                UPDATE documents SET audience_id = :audience_id
                WHERE path = 'ops/new/manifest-feed.md' RETURNING document_id
            """),
            {"audience_id": audiences.load_id(connection, ("group:S1",))},
        ).scalar_one()
    assert narrowed_id in made_of[0]  # the answer names it, so it is for fewer people now, too
    given = answer(retriever, Quoter(embedder), question)
    assert "In its place it names `manifest-feed.md`." in given.text
    assert "· replaced by manifest-feed.md" in blocks.build_source_line(given.citations[0])


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
