"""P47: nobody reads of another tenant's pages, or of those that are for others, by any path.

The bulk is planted straight into the tables: 20 tenants with 10 audiences each beside everyone's
and public pages, of which each has a word of its own (see canaries.py). A probe is one read path
run for one random reader of one random tenant; it fails on any word that is not for that reader.
"""

import ast
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path as Folder
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

import app
from app import abstaining, confirming, conversations, feedback, prompts, stats
from app.answering import Answerer, Asked, ask
from app.config import Settings
from app.generate.quoted import Quoter
from app.loop import cases, causes, digest, faults, hand_answers, page_changes, review, stale_pages
from app.records import Arrival, Turn
from app.stats import Scope, Viewer
from retrieval import search
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.metrics import Gold
from retrieval.tuning import DEFAULT
from tests.canaries import DIMENSION, Planted, Tenant, find_canaries, plan
from tests.conftest import Server, copied
from tests.retrieval.pages import build_retriever, for_readers, ingest, page
from tests.stripping import Stripper, find_conditions, strip

TENANTS, NAMES, PAGES = 20, 10, 3  # audiences for each tenant, pages for each audience
PROBES = 10_000
READERS = 3  # of each statement with a condition less
TRIES = 40  # to have it run so
RARE = 50  # times as rare as the others: paths that read everything there is

SETTINGS = Settings()


class Probe:
    """One reader of one tenant, and a page that they look for, theirs or not."""

    def __init__(self, tenant: Tenant, other: Tenant, rng: random.Random) -> None:
        self.tenant = tenant
        self.readers = tenant.draw_readers(rng)
        self.database = tenant.database.reading_as(self.readers)
        # One in eight looks for what is another tenant's.
        wanted_of = other if rng.random() < 0.125 else tenant
        self.canary = rng.choice(wanted_of.pages).canary
        self.document_id = wanted_of.document_ids[self.canary]
        self.section_ids = rng.sample(tenant.section_ids + other.section_ids, 20)
        self.vector = np.asarray([rng.gauss(0, 1) for _ in range(DIMENSION)], dtype=np.float32)

    @property
    def allowed(self) -> set[str]:
        return self.tenant.readable(self.readers)


Path = Callable[[Probe], object]  # gives all that the reader is shown


def _hits(probe: Probe, leg: Callable[..., Any], *asked: object) -> list[int]:
    with probe.database.snapshot() as connection:
        hits = leg(connection, *asked, probe.tenant.generation, DEFAULT)
    return [hit.section_id for hit in hits]


def _read(probe: Probe, load: Callable[..., Any], *asked: object, **more: object) -> Any:
    with probe.database.snapshot() as connection:
        return load(connection, *asked, **more)


def _find_rarity(probe: Probe) -> object:
    """The word, if it is told to be less rare than one that stands nowhere."""
    rarity = _read(probe, search.load_rarity, [probe.canary, "nowhere"], probe.tenant.generation)
    (_, known), (_, unknown) = rarity
    return probe.canary if known != unknown else None


def _find_trace(probe: Probe) -> UUID | None:
    """The id of an answer about the page, as somebody may have it."""
    with probe.database.unrestricted.transaction() as connection:
        found: UUID | None = connection.execute(
            text("SELECT trace_id FROM traces WHERE :id = ANY(document_ids) ORDER BY outcome"),
            {"id": probe.document_id},
        ).scalar()
    return found


def _find_fault(probe: Probe) -> object:
    trace_id = _find_trace(probe)
    return trace_id and _read(probe, faults.find_fault, trace_id, freshness_days=365)


def _build_follow_up(probe: Probe) -> Arrival:
    return Arrival(
        question="and then?",
        surface="slack",
        team_id="T1",
        channel_id="C1",
        thread_ts=str(probe.document_id),
        message_ts=f"{probe.document_id}.9",
        user_id="U1",
    )


def _load_changes(probe: Probe) -> object:
    with probe.database.snapshot() as connection:
        found = page_changes.load(connection, datetime(2020, 1, 1, tzinfo=UTC))
        return found, list(causes._load_namesakes(connection, found))


PATHS: dict[str, Path] = {
    "dense": lambda probe: _hits(probe, search.dense, probe.vector),
    "lexical": lambda probe: _hits(probe, search.lexical, f"{probe.canary} common"),
    "identifier": lambda probe: _hits(probe, search.identifier, f"{probe.canary} SHARED-77"),
    "rarity": _find_rarity,
    "terms": lambda probe: _read(
        probe, search.load_terms, probe.section_ids, [probe.canary, "common"]
    ),
    "identifiers": lambda probe: _read(
        probe, search.load_identifiers, probe.section_ids, [probe.canary]
    ),
    "standing": lambda probe: _read(
        probe,
        search.load_standing,
        probe.tenant.generation,
        identifiers=[probe.canary],
        words=[probe.canary],
    ),
    "sections": lambda probe: list(_read(probe, search.load_sections, probe.section_ids).items()),
    "page": lambda probe: _read(
        probe, search.load_page, probe.document_id, probe.tenant.generation
    ),
    "existing": lambda probe: sorted(_read(probe, search.load_existing, probe.section_ids)),
    "searched": lambda probe: abstaining.load_searched(probe.database),
    "picker": lambda probe: feedback.find_pages(probe.database, f"title {probe.canary}"),
    "picked page": lambda probe: feedback.load_page(probe.database, probe.document_id),
    "page to confirm": lambda probe: confirming.load_page(probe.database, probe.document_id),
    "stale page": lambda probe: stale_pages.load(probe.database, [probe.document_id]),
    "home, sources": lambda probe: stats.load_sources(probe.database, 365),
    "home, questions": lambda probe: conversations.find_own(probe.database, "T1", "U1", limit=500),
    "thread before": lambda probe: conversations.find_past_answers(
        probe.database, _build_follow_up(probe)
    ),
    "thread by hand": lambda probe: hand_answers.find_question(
        probe.database, "C1", str(probe.document_id), f"{probe.document_id}.9"
    ),
    "case": lambda probe: cases.load(probe.database, f"flag-{probe.canary}.md"),
    "review": lambda probe: review.load_review(probe.database, f"flag-{probe.canary}.md", 365),
    "review, page": lambda probe: review.load_page(probe.database, probe.document_id),
    "review, named": lambda probe: review.load_named(
        probe.database, [Gold(doc=f"{probe.canary}.md")]
    ),
    "review, linked": lambda probe: (
        probe.canary
        if review.find_linked_page(probe.database, [f"https://wiki.example/{probe.canary}"])
        else None
    ),
    "review, passage": lambda probe: (
        probe.canary
        if review.holds(probe.database, probe.document_id, f"Text of {probe.canary}")
        else None
    ),
    # It holds no words: that there is one tells of the answer.
    "fault": lambda probe: probe.canary if _find_fault(probe) else None,
}
RARE_PATHS: dict[str, Path] = {
    "picker, all": lambda probe: feedback.find_pages(probe.database, "title"),
    "stats": lambda probe: stats.load_stats(
        probe.database, Scope(), viewer=Viewer(is_admin=True), settings=SETTINGS
    ),
    "gaps here": lambda probe: (
        stats.load_stats(
            probe.database,
            Scope(channel_id="C1"),
            viewer=Viewer(user_id="U4"),
            settings=SETTINGS,
        ).gaps
    ),
    "digest": lambda probe: digest.load(probe.database, SETTINGS),
    "prompts": lambda probe: prompts.load(probe.database),
    "cases": lambda probe: cases.list_cases(probe.database),
    "page changes": _load_changes,
}
BY_SECTION = ("dense", "lexical", "identifier", "page", "existing")
BY_HELD = ("terms", "identifiers")


# Tables that hold what was made of pages: who reads them bare reads what is theirs. Left out are
# columns of which no path shows anything but of pages that the reader may read, too.
TABLES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("documents", "sections", "chunks", "lexical_postings"), ()),
    **dict.fromkeys(("identifier_postings", "generation_parts", "page_changes"), ()),
    **dict.fromkeys(("copies", "signatures"), ()),
    "traces": ("candidates",),
    **dict.fromkeys(("eval_cases", "feedback", "escalations", "case_traces"), ()),
}
# Columns by which a row tells of a page, or of an answer.
TELLING = ("audience_id", "audience_ids", "document_id", "section_id", "trace_id")
NO_AUDIENCE = {
    "audiences": "names of groups and numbers, which tell of no page",
}
NO_TENANT = {
    "alembic_version": "the same for all",
    **dict.fromkeys(
        [f"procrastinate_{name}" for name in ("events", "jobs", "periodic_defers", "workers")],
        "ids alone; a worker takes jobs up before it knows whose they are",
    ),
    "audiences": "everyone and public are every tenant's; its own policy says so",
    **dict.fromkeys(
        ("slack_installations", "slack_bots", "slack_oauth_states"),
        "read before it is known whose a request is, and by nobody who is one tenant",
    ),
}

# What reads or writes as if all there is were for it, with why that shows nobody a page or an
# answer. At a terminal there is who looks after all of it.
_BY_ID = "by the Slack message that the person has before them, and gives ids alone"
_SAVES = "keeps what was said or decided where it belongs; gives back ids, or whether it did"
_WORKS = "whether this process is still to answer it"
_AS_REVIEWERS = "which case to show, and where it stands; it is shown as the reviewers may read it"
READS_ALL = {
    **dict.fromkeys(("commands.open_database", "doctor.examine"), "a terminal"),
    "escalation.find_expert": "a channel or user group that is set, for the question at hand",
    "escalation.load": "a question that somebody passes on from where it was asked: asker's words",
    **dict.fromkeys(
        [
            f"escalation.{name}"
            for name in ("claim", "release", "save_ts", "withdraw", "resolve", "reopen")
        ],
        _SAVES,
    ),
    "feedback.load_complaint": "a person's own words; the page is loaded as that person",
    "feedback.load_place": "where an answer stands that the person has voted on there",
    "feedback.save_complaint": "a person's own words; a page is named if they may read it",
    **dict.fromkeys(("feedback.vote", "feedback.take_back"), _SAVES),
    "jobs._outlast": "claims, and counts of a person's own questions and of a channel's",
    "listeners.replies.hear": "what is said below an answer, for a case that it joins by ids",
    "listeners.replies.save": "whether the case that a person has written was approved before",
    **dict.fromkeys(("loop.cases.find", "loop.cases.list_missed"), _AS_REVIEWERS),
    "loop.cases.count_hidden": "how many there are, to who looks after all of it",
    **dict.fromkeys(
        [f"loop.cases.{name}_review" for name in ("claim", "release", "forget")]
        + ["loop.cases.save_review_ts"],
        _SAVES,
    ),
    **dict.fromkeys(
        [
            f"loop.cases.{name}"
            for name in ("approve", "dismiss", "overrule", "save_gold", "mark_page_wrong")
        ],
        _SAVES,
    ),
    "loop.caseset.follow_pages": "cases name other pages, whose readers are theirs then; what was"
    " moved is told at a terminal alone",
    "loop.hand_answers.find_given": "what an edited reply changes; who edits it is shown nothing",
    "loop.hand_answers.save_answer": _SAVES,
    "loop.nightly.run": "measures; told of it is what everyone may read of cases and pages",
    "loop.proposing.propose_reply": _SAVES,
    **dict.fromkeys(
        [f"loop.review_messages.{name}" for name in ("refresh", "_post", "_hide")], _AS_REVIEWERS
    ),
    "loop.stale_pages.find_places": "owners and where to tell them; pages are loaded as that place",
    **dict.fromkeys(("metrics._find", "metrics.watch"), "kinds and sums, which are counted"),
    **dict.fromkeys(
        [f"queueing.{name}" for name in ("_send_back", "count_ahead", "count_workers")]
        + ["queueing.list_at_work", "worker.__init__"],
        "jobs, which hold ids alone",
    ),
    "retention.run": "deletes, and tells how much",
    **dict.fromkeys(
        [*(f"claims.{name}" for name in ("begin", "claim", "forget_unasked")), "traces._update"],
        _SAVES,
    ),
    **dict.fromkeys(
        ["traces.save_past", "conversations.save_joined"],
        _SAVES,
    ),
    **dict.fromkeys(
        ["traces.find_by_answer", "traces.find_by_message", "conversations.find_standing"], _BY_ID
    ),
    **dict.fromkeys(("traces._holds", "traces.is_told_without"), _WORKS),
}

# Conditions without which a path gives no answer, as it awaits one row, or words that were asked
# for: all others were read without, as READERS readers.
UNANSWERED = {
    ("picked page", "document_id = %(document_id)s"),
    ("page to confirm", "document_id = %(document_id)s"),
    ("terms", "section_id = ANY(%(section_ids)s)"),
    ("case", "case_id = %(case_id)s"),
    ("review", "case_id = %(case_id)s"),
    ("review", "trace_id = %(trace_id)s"),
    ("fault", "traces.trace_id = %(trace_id)s"),
}

# Without the condition by which it finds its answer, a fault is that of another one.
STRIPPED_PATHS = {**PATHS, **RARE_PATHS, "fault": _find_fault}


def find_shown(name: str, probe: Probe, shown: Any) -> set[str]:
    """The words that a path has given away."""
    own = probe.tenant
    if name in BY_SECTION:
        return own.name_sections(shown)
    if name in BY_HELD:
        return own.name_sections(section_id for section_id, words in shown.items() if words)
    return find_canaries(shown)


def run(name: str, path: Path, probe: Probe) -> set[str]:
    """The words that a probe of this path has shown, all of which are for its reader."""
    shown = find_shown(name, probe, path(probe))
    leaked = shown - probe.allowed
    assert not leaked, f"{name}, as {probe.readers}, shows {sorted(leaked)[:3]}"
    return shown


@pytest.fixture(scope="module")
def planted(server: Server, template: str) -> Iterator[list[Tenant]]:
    """The tenants, in one database that no test writes to."""
    with copied(server, template) as url:
        first = Database(url, tenant_id="t0")
        tenants = []
        for number in range(TENANTS):
            database = Database(url, tenant_id=f"t{number}")
            database.engine.dispose()
            database.engine = first.engine  # as all tenants of a process would share it
            tenants.append(Tenant(database, plan(number, NAMES, PAGES)))
        server.execute("ANALYZE", database=url.rpartition("/")[2].partition("?")[0])
        yield tenants
        first.close()


def draw(tenants: Sequence[Tenant], rng: random.Random) -> Probe:
    return Probe(*rng.sample(list(tenants), 2), rng)


def test_ten_thousand_reads_of_every_path_show_nothing_to_the_wrong_reader(
    planted: list[Tenant],
) -> None:
    rng, paths = random.Random(20_31), {**PATHS, **RARE_PATHS}
    names = list(PATHS) * RARE + list(RARE_PATHS)
    rng.shuffle(names)
    run_names = [names[number % len(names)] for number in range(PROBES)]
    shown: Counter[str] = Counter()
    for name in run_names:
        shown[name] += len(run(name, paths[name], draw(planted, rng)))
    counted = Counter(run_names)
    assert sum(len(each.pages) for each in planted) == TENANTS * (NAMES + 2) * PAGES == 720
    assert sum(counted.values()) == PROBES
    assert min(counted[name] for name in PATHS) >= 350
    assert min(counted[name] for name in RARE_PATHS) >= 7
    # None of this is for want of anything to show.
    assert not {name for name in counted if not shown[name]}


def test_the_policies_alone_hold_whichever_condition_is_taken_out(planted: list[Tenant]) -> None:
    stripper, taken, unanswered = Stripper(), 0, set()
    with stripper.listening(planted[0].database.engine):
        for name, path in STRIPPED_PATHS.items():
            rng = random.Random(name)
            stripper.met.clear()
            for _ in range(9):  # some statements are run only where there is something to show
                run(name, path, draw(planted, rng))
            for statement in list(stripper.met):
                for number, (start, end) in enumerate(find_conditions(statement)):
                    taken += 1
                    with stripper.stripping(statement, number):
                        read = partial(read_as_any, planted, rng, name)
                        if not count_answers(stripper, read):
                            unanswered.add((name, " ".join(statement[start:end].split())))
    assert taken >= 320
    assert unanswered == UNANSWERED


def read_as_any(planted: list[Tenant], rng: random.Random, name: str) -> None:
    run(name, STRIPPED_PATHS[name], draw(planted, rng))


def count_answers(stripper: Stripper, read: Callable[[], object]) -> int:
    """How many of READERS read as stripped, in at most TRIES, were shown something or nothing."""
    before, count = stripper.stripped, 0
    for _ in range(TRIES):
        if stripper.stripped >= before + READERS:
            break
        ran = stripper.stripped
        try:
            read()
        except (SQLAlchemyError, LookupError):  # it gave more rows, or others, than are awaited
            continue
        count += stripper.stripped > ran
    return count


@pytest.mark.parametrize("table", TABLES)
def test_whoever_reads_a_table_bare_reads_what_is_for_them(
    planted: list[Tenant], table: str
) -> None:
    rng, shown = random.Random(table), set[str]()
    for _ in range(40):
        probe = draw(planted, rng)
        shown |= run(table, partial(_read_table, table=table), probe)
    assert len(shown) > 50


def _read_table(probe: Probe, table: str) -> list[object]:
    """All that a table holds for a reader, with the words of what it names by id."""
    with probe.database.snapshot() as connection:
        rows = connection.execute(text(f"SELECT * FROM {table}")).mappings().all()
        names = {
            row.audience_id: {*row.audience}
            for row in connection.execute(text("SELECT * FROM audiences"))
        }
    own = probe.tenant
    told: list[object] = []
    for row in rows:
        told += [value for column, value in row.items() if column not in TABLES[table]]
        told += own.name_pages(row[key] for key in ("document_id", "other_id") if key in row)
        told += own.name_sections(row[key] for key in ("section_id",) if key in row)
        if table == "generation_parts":
            told += [
                page.canary
                for page in own.pages
                if {"*", *page.audience} == names[row["audience_id"]]
            ]
    return told


def test_each_table_has_the_policies_that_it_needs(database: Database) -> None:
    with database.transaction() as connection:
        tables = connection.execute(
            text("""
                SELECT relname AS name,
                       ARRAY(SELECT attname::text FROM pg_attribute
                             WHERE attrelid = pg_class.oid AND attnum > 0) AS columns,
                       ARRAY(SELECT pg_get_expr(polqual, polrelid) FROM pg_policy
                             WHERE polrelid = pg_class.oid AND polpermissive) AS permissive,
                       ARRAY(SELECT pg_get_expr(polqual, polrelid) FROM pg_policy
                             WHERE polrelid = pg_class.oid AND NOT polpermissive) AS restrictive
                FROM pg_class
                WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace
            """)
        ).all()
        views = connection.execute(
            text("""
                SELECT relname FROM pg_class
                WHERE relkind IN ('v', 'm') AND relnamespace = 'public'::regnamespace
                AND has_table_privilege(oid, 'SELECT')
            """)
        ).all()
    own = "(tenant_id = current_setting('footnote.tenant_id'::text, true))"
    assert {each.name for each in tables if each.permissive != [own]} == set(NO_TENANT)
    telling = {each.name for each in tables if {*TELLING} & {*each.columns}} - {*NO_AUDIENCE}
    assert telling == set(TABLES)
    for each in tables:
        if each.name in telling:
            (condition,) = each.restrictive
            assert any(
                word in condition
                for word in ("readable_audiences()", "FROM traces", "FROM documents")
            ), each.name
    assert views == []  # they are read as their owner may


def test_what_reads_all_there_is_is_known() -> None:
    found, folder = set(), Folder(app.__path__[0])
    for path in folder.rglob("*.py"):
        module = ".".join(path.relative_to(folder).with_suffix("").parts)
        within: dict[ast.AST, str] = {}
        for each in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(each, ast.FunctionDef):  # after the one in which it stands
                within |= dict.fromkeys(ast.walk(each), f"{module}.{each.name}")
        found |= {name for node, name in within.items() if _names_all_there_is(node)}
    assert found == set(READS_ALL)


def _names_all_there_is(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "unrestricted"
    return isinstance(node, ast.Name) and node.id == "EVERYTHING"


@pytest.mark.parametrize(
    ("statement", "stripped"),
    [
        ("SELECT 1 FROM a WHERE x = 1", ["SELECT 1 FROM a WHERE true "]),
        (
            "SELECT 1 FROM a WHERE x = ')' AND y IN (SELECT 1 WHERE z) LIMIT 1",
            [
                "SELECT 1 FROM a WHERE true AND y IN (SELECT 1 WHERE z) LIMIT 1",
                "SELECT 1 FROM a WHERE x = ')' AND true LIMIT 1",
                "SELECT 1 FROM a WHERE x = ')' AND y IN (SELECT 1 WHERE true ) LIMIT 1",
            ],
        ),
        (
            "SELECT CASE WHEN a AND b THEN 1 END FROM t WHERE a BETWEEN 1 AND 2 OR c",
            ["SELECT CASE WHEN a AND b THEN 1 END FROM t WHERE true "],
        ),
    ],
)
def test_each_condition_of_a_statement_can_be_taken_out(
    statement: str, stripped: list[str]
) -> None:
    count = len(find_conditions(statement))
    assert [strip(statement, number) for number in range(count)] == stripped


def test_scores_and_counts_are_those_of_an_index_of_the_readable_pages_alone(
    planted: list[Tenant], server: Server, template: str
) -> None:
    rng = random.Random(20_33)
    for _ in range(10):
        tenant = rng.choice(planted)
        readers = tenant.draw_readers(rng)
        allowed = tenant.readable(readers)
        with copied(server, template) as url:
            alone = Database(url, tenant_id="alone")
            pages = [replace(each, audience=("public",)) for each in tenant.pages]
            mirror = Tenant(alone, [each for each in pages if each.canary in allowed], asked=False)
            asked = [rng.choice(tenant.pages).canary for _ in range(5)]
            for canary in asked:
                question = f"{canary} common SHARED-77"
                assert _measure(tenant, readers, question) == _measure(mirror, readers, question)
            alone.close()


def _measure(tenant: Tenant, readers: Sequence[str], question: str) -> dict[str, object]:
    """All numbers that a search for a question goes by, but those of vectors."""
    database, generation = tenant.database.reading_as(readers), tenant.generation
    with database.snapshot() as connection:
        legs = {
            leg.__name__: {
                (next(iter(tenant.name_sections([hit.section_id]))), round(hit.score, 9))
                for hit in leg(connection, question, generation, DEFAULT)
            }
            for leg in (search.lexical, search.identifier)
        }
        words = question.lower().split()[:2]
        return {
            **legs,
            "rarity": search.load_rarity(connection, words, generation),
            "searched": abstaining.load_searched(database),
        }


SERVICE = "# {0} service\n\nThe {0} service runs on port 80.\n"


def test_whole_answers_show_nothing_to_the_wrong_reader(
    database: Database, embedder: Embedder
) -> None:
    """120 questions through the whole path, about 24 pages of six audiences."""
    names = ("public", "everyone", "group:S1", "group:S2", "channel:C3", "user:U4")
    pages = [
        Planted(canary=f"canary7x{number}", audience=(names[number % len(names)],))
        for number in range(24)
    ]
    reads = [
        for_readers(page(each.path, SERVICE.format(each.canary)), *each.audience) for each in pages
    ]
    ingest(database, embedder, *reads)
    retriever = build_retriever(database, embedder)
    answerer = Answerer(retriever=retriever, generator=Quoter(embedder))
    rng, answered = random.Random(20_34), 0
    for _ in range(120):
        readers = ("public", *rng.sample(names[1:], rng.choice([0, 1, 2, 3])))
        wanted = rng.choice(pages)
        question = f"which port does the {wanted.canary} service run on?"
        asked = ask_as(answerer.reading_as(readers), question)
        allowed = {each.canary for each in pages if set(each.audience) & set(readers)}
        shown = find_canaries((asked.retrieval.candidates, asked.answer.citations))
        told = find_canaries((asked.answer.text, asked.answer.nearest)) - {wanted.canary}
        assert shown | told <= allowed
        answered += wanted.canary in shown and asked.answer.abstained_because is None
    assert answered >= 20


def ask_as(answerer: Answerer, question: str) -> Asked:
    return ask(answerer, [Turn(speaker="user", text=question)])
