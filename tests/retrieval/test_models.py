"""A process goes on answering while another builds the index anew by another model."""

import logging
import signal
import subprocess
import sys
from copy import copy
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from sqlalchemy import event, text

from app import rendering
from retrieval import (
    audiences,
    generations,
    indexing,
    relevance,
    source_states,
    switching,
    sync,
)
from retrieval.batches import Target
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.errors import ConfigError, IndexMismatch, OtherBuild
from retrieval.generations import Generation
from retrieval.models import RETRY_S, Models, load_for
from retrieval.records import Query
from retrieval.rerank import LateInteraction
from retrieval.retrieve import Retriever
from retrieval.tuning import DEFAULT, Tuning
from tests.retrieval.pages import (
    ask,
    before_statement,
    build_retriever,
    find_rows,
    fit,
    ingest,
    page,
)
from tests.retrieval.test_sync import Choking

ROOT = Path(__file__).parents[2]
LEAVE = page("leave.md", "# Leave\n\nYou have 28 days of leave a year.\n")
VPN = page("vpn.md", "# VPN\n\nSet `VPN_MTU` to 1380 when pages load slowly.\n")
DESK = page("desk.md", "# Help desk\n\nThe help desk is open from 8 to 18.\n")
SECRET = "---\naudience: channel:C1\n---\n# VPN\n\nSet it to 1380.\n"
QUESTION = ask("how many days of leave do I have?")


class Loader:
    """Gives a model, once it may, or raises."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self.embedder = embedder
        self.may = Event()
        self.may.set()
        self.begun: list[int] = []

    def __call__(self, generation: Generation, tuning: Tuning) -> Embedder:
        self.begun.append(generation.generation_id)
        assert self.may.wait(30)
        if self.embedder is None:
            raise IndexMismatch("it is not there")
        return self.embedder


def build_live(database: Database, embedder: Embedder, load: Loader, **more: Any) -> Retriever:
    return replace(build_retriever(database, embedder), models=Models(load, **more))


def open_waiting(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> tuple[Retriever, Loader]:
    """The search over two pages, and what loads the next model once it may."""
    ingest(database, embedder, LEAVE, VPN)
    load = Loader(mirrored)
    load.may.clear()
    return build_live(database, embedder, load), load


def find_states(database: Database) -> list[tuple[int, str]]:
    with database.transaction() as connection:
        return [(each.generation_id, each.state) for each in generations.load_all(connection)]


def find_searched(retriever: Retriever, question: Query = QUESTION) -> object:
    """The generation that a question is answered from; it must be answered."""
    found = retriever.retrieve(question)
    assert found.kept[0].section.path == "leave.md"
    return found.settings["generation_id"]


def wait_for_model(retriever: Retriever) -> None:
    """Return once the model of the active generation is loaded, or has failed to."""
    with retriever.database.transaction() as connection:
        active = generations.load(connection, "active")
    assert active is not None and retriever.models is not None
    retriever.models.wait(active, DEFAULT)


def rebuild(database: Database, mirrored: Embedder) -> tuple[int, int]:
    """Have another model take over; the generations before and after."""
    fit(build_retriever(database, mirrored))
    ingest(database, mirrored, source="none")
    (new, _), (old, _) = find_states(database)
    assert find_states(database) == [(new, "active"), (old, "kept")]
    return old, new


def test_the_generation_before_is_searched_until_the_model_is_there(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    retriever, load = open_waiting(database, embedder, mirrored)
    old, new = rebuild(database, mirrored)
    assert [find_searched(retriever) for _ in range(3)] == [old] * 3
    load.may.set()
    wait_for_model(retriever)
    assert find_searched(retriever) == new
    found = retriever.retrieve(QUESTION)
    assert (found.settings["embedder"], load.begun) == (mirrored.name, [new])


def test_a_question_between_its_two_transactions_goes_on_after_a_flip(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    retriever, load = open_waiting(database, embedder, mirrored)
    made: list[tuple[int, int]] = []

    def flip(query: Query) -> Query:
        made.append(rebuild(database, mirrored))
        return replace(query, variants=("annual leave",))

    found = retriever.retrieve(QUESTION, flip)
    load.may.set()
    assert found.settings["generation_id"] == made[0][0]
    assert found.kept[0].section.path == "leave.md"
    assert {hit.wording for hit in found.candidates[0].hits} == {0, 1}


def test_a_question_whose_generation_is_dropped_is_searched_for_in_the_next(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    retriever, load = open_waiting(database, embedder, mirrored)
    made: list[tuple[int, int]] = []

    def flip(query: Query) -> Query:
        made.append(rebuild(database, mirrored))
        switching.drop(database)
        return query

    @event.listens_for(database.engine, "checkin")
    def let_load(*_: Any) -> None:  # nothing is held while the model is waited for
        if load.begun:
            load.may.set()

    found = retriever.retrieve(QUESTION, flip)
    assert found.settings["generation_id"] == made[0][1]
    assert found.kept[0].section.path == "leave.md"
    assert "load" in found.stage_ms


def test_a_drop_in_the_middle_of_a_search_changes_nothing(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN)
    old, _ = rebuild(database, mirrored)
    retriever = build_retriever(database, embedder)
    dropped: list[int] = []

    def drop() -> None:
        dropped.append(switching.drop(database).generation_id)

    before_statement(database, "FROM identifier_postings", call=drop)
    assert find_searched(retriever) == old
    assert dropped == [old]
    with pytest.raises(IndexMismatch, match="does not fit: embedding model"):
        retriever.retrieve(QUESTION)


def test_a_model_that_is_not_there_is_told_and_tried_again_later(
    database: Database,
    embedder: Embedder,
    mirrored: Embedder,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ingest(database, embedder, LEAVE, VPN)
    load, now = Loader(), [0.0]
    retriever = build_live(database, embedder, load, now=lambda: now[0])
    old, new = rebuild(database, mirrored)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert find_searched(retriever) == old
            wait_for_model(retriever)
    assert [record.getMessage() for record in caplog.records] == [
        f"Generation {new} has no model here: it is not there; the one before answers on"
    ]
    load.embedder = mirrored
    load.may.clear()
    now[0] = RETRY_S
    assert find_searched(retriever) == old
    load.may.set()
    wait_for_model(retriever)
    assert (find_searched(retriever), load.begun) == (new, [new, new])


def test_without_any_model_that_fits_it_is_told_what_to_do(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN)
    retriever = build_live(database, embedder, Loader())
    rebuild(database, mirrored)
    switching.drop(database)
    with pytest.raises(IndexMismatch, match="Run `footnote ingest`"):
        retriever.retrieve(QUESTION)


def test_what_is_measured_stays_with_one_model(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN)
    live = build_live(database, embedder, Loader(mirrored))
    before = live.settled()
    old, new = rebuild(database, mirrored)
    assert (before.embedder, find_searched(before)) == (embedder, old)
    switching.drop(database)
    assert find_searched(live) == new
    after = live.settled()
    assert (after.embedder, after.models, find_searched(after)) == (mirrored, None, new)


def test_a_generation_without_a_relevance_model_leaves_the_one_before_to_answer(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN)
    live = build_live(database, embedder, Loader(mirrored))
    old, new = rebuild(database, mirrored)
    wait_for_model(live)
    assert find_searched(live) == new
    with database.transaction() as connection:
        relevance.revert(connection, build_retriever(database, mirrored).basis)
    assert find_searched(live) == old


@pytest.mark.parametrize("case", ["gone", "changed", "chunker"])
def test_a_model_that_does_not_fit_its_generation_is_refused(
    database: Database, embedder: Embedder, mirrored: Embedder, case: str
) -> None:
    ingest(database, mirrored, LEAVE)
    told = {"gone": "cannot be loaded", "changed": "changed under the same name", "chunker": "/77/"}
    values = {
        "gone": "embedder = '/nowhere'",
        "changed": f"embedder = '{embedder.name}'",
        "chunker": "chunker = '1/900/77/128'",
    }
    with database.transaction() as connection:
        connection.execute(text(f"UPDATE generations SET {values[case]}"))
        generation = generations.load(connection, "active")
    assert generation is not None
    with pytest.raises(IndexMismatch, match=rf"Generation \d+ .*{told[case]}.*`footnote ingest`"):
        load_for(generation, DEFAULT)


def find_indexed(database: Database, generation_id: int) -> dict[str, str]:
    with database.unrestricted.transaction() as connection:
        rows = connection.execute(
            text("""
                SELECT path, string_agg(sections.text, '') AS said
                FROM sections JOIN documents USING (document_id)
                WHERE generation_id = :generation_id GROUP BY path ORDER BY path
            """),
            {"generation_id": generation_id},
        )
        return {row.path: row.said for row in rows}


def test_pages_that_change_in_other_sources_during_a_build_are_right_in_both(
    database: Database, database_url: str, embedder: Embedder, mirrored: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN)
    ingest(database, embedder, DESK, page("old.md", "# Old\n\nGone soon.\n"), source="network")
    fit(build_retriever(database, mirrored))
    other = Database(database_url, tenant_id="acme")

    def change() -> None:
        ingest(other, embedder, page("leave.md", "# Leave\n\nNow 30 days.\n"), VPN)
        new = page("new.md", "# New\n\nNew here.\n")
        ingest(other, embedder, DESK, new, source="network", prune=True)

    # In the middle: when the second stored document is written.
    before_statement(database, "FOR NO KEY UPDATE", number=2, call=change)
    changed = page("paint.md", "# Paint\n\nThe paint is in the cellar.\n")
    summary = ingest(database, mirrored, changed, source="paint")
    other.close()
    (new, _), (old, _) = find_states(database)
    assert summary.state == "active" and summary.behind is None
    assert find_indexed(database, new) == find_indexed(database, old)
    assert list(find_indexed(database, new)) == [
        *("desk.md", "leave.md", "new.md", "paint.md", "vpn.md"),
    ]
    assert "30 days" in find_indexed(database, new)["leave.md"]
    assert set(generations_lacking(database)) == {0}


def generations_lacking(database: Database) -> list[int]:
    with database.unrestricted.transaction() as connection:
        return [
            generations.count_lacking(connection, each) for each in generations.load_all(connection)
        ]


def test_who_may_read_a_page_holds_at_once_in_every_generation(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN)
    rebuild(database, mirrored)
    with database.unrestricted.transaction() as connection:
        document_id = connection.execute(
            text("SELECT document_id FROM documents WHERE path = 'leave.md'")
        ).scalar_one()
        audiences.assign(connection, ("channel:C1",), [document_id])
    for each in (embedder, mirrored):
        retriever = build_retriever(database, each)
        assert {hit.section.path for hit in retriever.search(QUESTION)} == {"vpn.md"}
        own = retriever.reading_as(["everyone", "channel:C1"])
        assert find_searched(own)


def test_a_process_of_the_model_before_keeps_both_up_to_date_and_builds_nothing(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN)
    old, new = rebuild(database, mirrored)
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE generations SET embedder = '/nowhere' WHERE state = 'active'")
        )
    summary = ingest(database, embedder, LEAVE, VPN, DESK)
    assert summary.behind is not None and "/nowhere, which cannot be loaded" in summary.behind
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE generations SET embedder = :name WHERE state = 'active'"),
            {"name": mirrored.name},
        )
    summary = ingest(database, embedder, LEAVE, VPN, DESK)
    assert (summary.state, summary.generation_id, summary.behind) == ("kept", old, None)
    assert find_states(database) == [(new, "active"), (old, "kept")]
    assert find_indexed(database, new) == find_indexed(database, old)
    assert "desk.md" in find_indexed(database, new)


def test_a_generation_that_lacks_pages_takes_over_only_when_it_has_them(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN)
    ((old, _),) = find_states(database)
    fit(build_retriever(database, mirrored))
    choking: Any = Choking(mirrored, "1380")
    for attempts in (1, 2):  # and it is one letter, not a new one each time
        summary = ingest(database, choking, LEAVE, VPN)
        assert (summary.state, [each.path for each in summary.skipped]) == ("building", ["vpn.md"])
        assert find_rows(database, "SELECT path, attempts FROM dead_letters") == [
            ("vpn.md", attempts)
        ]
    assert "`footnote doctor` lists them" in rendering.build_summary(summary)
    _, (new, state) = find_states(database)
    assert state == "building"
    assert find_searched(build_retriever(database, embedder)) == old
    summary = ingest(database, mirrored, LEAVE, VPN)
    assert (summary.state, summary.rebuilt, summary.skipped) == ("active", 1, ())
    assert find_rows(database, "SELECT path FROM dead_letters") == []
    ingest(database, mirrored, LEAVE, VPN, DESK)  # which the one before lacks

    @event.listens_for(database.engine, "before_cursor_execute")
    def refuse(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if "INSERT INTO chunks" in statement:
            raise RuntimeError("no page can be written")

    with pytest.raises(ConfigError, match=rf"Generation {old} lacks 1 of the documents"):
        switching.switch(database, LateInteraction(), DEFAULT)
    assert find_states(database) == [(new, "active"), (old, "kept")]


def test_pages_that_change_while_another_source_is_built_anew_are_as_they_are_now(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    ingest(database, embedder, LEAVE)
    ingest(database, embedder, VPN, DESK, source="git")
    fit(build_retriever(database, mirrored))
    now = page("vpn.md", "# VPN\n\nSet it to 1400.\n"), page("desk.md", SECRET)
    changes = iter([now])

    def change(done: int, total: int) -> None:
        for pages in changes:
            ingest(database, embedder, *pages, source="git")

    assert ingest(database, mirrored, LEAVE, progress=change).state == "active"
    assert next(changes, None) is None
    search = build_retriever(database, mirrored)
    for audience, paths in (("everyone", {"leave.md", "vpn.md"}), ("channel:C1", {"desk.md"})):
        found = search.reading_as([audience]).search(ask("leave VPN 1380 1400"))
        assert {each.section.path for each in found} == paths
        assert all(("1380" in each.section.text) == (audience != "everyone") for each in found)


def test_an_older_text_in_another_generation_is_not_opened_with_its_page(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    """The one that is searched is behind while another is built: it has the old text still."""
    ingest(database, embedder, LEAVE, page("vpn.md", SECRET))
    fit(build_retriever(database, mirrored))
    with database.transaction() as connection:  # so that it cannot be kept up to date
        connection.execute(text("UPDATE generations SET embedder = '/nowhere'"))
    seen: list[set[str]] = []

    def look(done: int, total: int) -> None:
        with database.transaction() as connection:
            rows = connection.execute(text("SELECT text FROM sections"))
            seen.append({"old" for row in rows if "1380" in row.text})

    ingest(database, mirrored, LEAVE, page("vpn.md", "# VPN\n\nIt is 1400.\n"), progress=look)
    assert seen and not any(seen)
    with database.unrestricted.transaction() as connection:
        left = connection.execute(text("SELECT count(*) FROM sections WHERE text LIKE '%1380%'"))
        assert left.scalar_one() == 0


def test_an_older_text_in_another_generation_is_not_opened_later(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    ingest(database, embedder, LEAVE, page("vpn.md", SECRET))
    rebuild(database, mirrored)
    ingest(database, mirrored, LEAVE, page("vpn.md", SECRET.replace("1380", "1400")))
    ingest(database, mirrored, LEAVE, page("vpn.md", "# VPN\n\nSet it to 1400.\n"))
    assert find_rows(database, "SELECT text FROM sections WHERE text LIKE '%1380%'") == []
    assert len(find_rows(database, "SELECT text FROM sections WHERE text LIKE '%1400%'")) == 1


def test_switching_back_brings_the_kept_one_up_to_date(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN)
    old, new = rebuild(database, mirrored)
    ingest(database, mirrored, LEAVE, DESK, prune=True)
    assert list(find_indexed(database, old)) == ["leave.md"]  # what is gone is gone here, too
    switched = switching.switch(database, LateInteraction(), DEFAULT)
    assert switched.generation_id == old
    assert find_states(database) == [(old, "active"), (new, "kept")]
    assert list(find_indexed(database, old)) == ["desk.md", "leave.md"]
    assert find_searched(build_retriever(database, embedder)) == old


def test_a_switch_is_refused_with_what_to_do(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    def switch(generation_id: int | None = None) -> None:
        switching.switch(database, LateInteraction(), DEFAULT, generation_id=generation_id)

    ingest(database, embedder, LEAVE, VPN)
    with pytest.raises(ConfigError, match="no other complete generation"):
        switch()
    ((old, _),) = find_states(database)
    with pytest.raises(ConfigError, match=rf"Generation {old} is the one that is searched\."):
        switch(old)
    assert ingest(database, mirrored, LEAVE, VPN).state == "ready"
    _, (new, _) = find_states(database)
    with pytest.raises(ConfigError, match=rf"calibrate CASES --apply --generation {new}"):
        switch()
    with database.transaction() as connection:
        connection.execute(text("UPDATE generations SET state = 'building' WHERE state = 'ready'"))
    with pytest.raises(ConfigError, match=r"is half built. Run `footnote ingest`"):
        switch(new)
    with pytest.raises(ConfigError, match=rf"calibrate CASES --apply --generation {new}`"):
        replace(build_retriever(database, mirrored), generation_id=new).check()
    with pytest.raises(ConfigError, match="There is no generation 7000"):
        switch(7000)
    with pytest.raises(ConfigError, match="Run `footnote index switch` to another one first"):
        switching.drop(database, generation_id=old)
    assert switching.drop(database).generation_id == new
    with pytest.raises(ConfigError, match="no generation beside"):
        switching.drop(database)
    assert find_states(database) == [(old, "active")]


def test_a_build_by_another_model_does_not_end_the_one_before(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN)
    ingest(database, mirrored, LEAVE, VPN)
    with database.transaction() as connection:
        connection.execute(text("UPDATE generations SET state = 'building' WHERE state = 'ready'"))
        source_states.begin(connection, "wiki", "/wiki")
    states = find_states(database)
    (_, (half, _)) = states
    third: Any = copy(embedder)
    third.name = "third"
    failing = pytest.raises(OtherBuild, match=rf"EMBEDDING_MODEL=.* or `footnote index drop {half}")
    with failing, sync.noting_failures(database, "wiki"):
        ingest(database, third, LEAVE, VPN)
    assert find_states(database) == states
    assert find_rows(database, "SELECT error, started_at FROM sources") == [(None, None)]
    assert ingest(database, embedder, LEAVE, VPN).state == "active"  # back without hassle
    assert ingest(database, mirrored, LEAVE, VPN).state == "ready"
    with database.transaction() as connection:  # one that this Footnote cannot finish
        connection.execute(
            text("UPDATE generations SET state = 'building', chunker = '' WHERE state = 'ready'")
        )
    assert ingest(database, third, LEAVE, VPN).generation_id > half
    assert len(find_states(database)) == 2


def test_one_that_is_dropped_while_it_is_built_ends_the_build_with_a_sentence(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN, DESK)
    before_statement(database, "FOR KEY SHARE", number=2, call=lambda: switching.drop(database))
    with pytest.raises(ConfigError, match="was dropped meanwhile"):
        ingest(database, mirrored, LEAVE, VPN, DESK)
    assert [state for _, state in find_states(database)] == ["active"]


KILLED = """
import sys
from retrieval import indexing
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.tuning import DEFAULT
from tests.killing import kill_before_chunks

database = Database(sys.argv[1], tenant_id="acme")
kill_before_chunks(database, 3, document="FOR NO KEY UPDATE")
indexing.ingest(database, Embedder(sys.argv[2]), [], source="none", tuning=DEFAULT)
"""


def test_p82_a_build_that_is_killed_is_gone_on_with_and_the_old_one_answers(
    database: Database, database_url: str, embedder: Embedder, mirrored: Embedder
) -> None:
    ingest(database, embedder, LEAVE, VPN, DESK)
    ((old, _),) = find_states(database)
    command = [sys.executable, "-c", KILLED, database_url, mirrored.name]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    _, (new, state) = find_states(database)
    assert (state, list(find_indexed(database, new))) == ("building", ["desk.md", "leave.md"])
    assert find_searched(build_retriever(database, embedder)) == old
    fit(build_retriever(database, mirrored))
    assert ingest(database, mirrored, source="none").rebuilt == 1
    assert find_states(database) == [(new, "active"), (old, "kept")]
    assert find_searched(build_retriever(database, mirrored)) == new
    assert find_indexed(database, new) == find_indexed(database, old)


def test_a_page_without_text_is_tried_once(database: Database, embedder: Embedder) -> None:
    ingest(database, embedder, LEAVE)
    with database.transaction() as connection:
        connection.execute(text("UPDATE documents SET text = ' ', content_hash = 'blank'"))
        active = generations.load(connection, "active")
    assert active is not None
    target = Target(
        database=database.unrestricted, embedder=embedder, generation=active, tuning=DEFAULT
    )
    assert indexing.fill(target).count == 1
    assert generations_lacking(database) == [0]
