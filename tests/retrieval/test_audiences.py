"""P47: what was made of a page follows it to its readers, wherever the page stands by then."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from retrieval import audiences
from retrieval.db import Database
from retrieval.embedding import Embedder
from tests import beside
from tests.retrieval.pages import for_readers, ingest, page

OPEN, NARROW = ("everyone",), ("group:S1",)
SAID = "The bonus is 4 million."


def put(
    connection: Connection,
    audience: tuple[str, ...],
    *,
    source: str = "wiki",
    path: str = "bonus.md",
    said: str = SAID,
) -> int:
    """A page, at once with what an index has of it."""
    document_id: int = connection.execute(
        text("""
            INSERT INTO documents (tenant_id, audience_id, source, path, title, url, text,
                                   content_hash)
            VALUES ('acme', :audience_id, :source, :path, 'Bonus', 'u', :said, 'h')
            RETURNING document_id
        """),
        {
            "audience_id": audiences.load_id(connection, audience),
            "source": source,
            "path": path,
            "said": said,
        },
    ).scalar_one()
    return document_id


def remove(connection: Connection, source: str = "wiki") -> None:
    connection.execute(text("DELETE FROM documents WHERE source = :source"), {"source": source})


def move(connection: Connection, path: str, said: str = SAID) -> None:
    connection.execute(
        text("UPDATE documents SET path = :path, text = :said WHERE path = 'bonus.md'"),
        {"path": path, "said": said},
    )


def answer_from(connection: Connection, document_id: int) -> None:
    """An answer that rests on a page, and two cases that name the page."""
    found = {"document_id": document_id, "section_id": 1, "doc": "bonus.md"}
    gold = json.dumps([{"doc": "bonus.md", "source": "wiki", "span": SAID}])
    connection.execute(
        text("""
            INSERT INTO traces (tenant_id, surface, question, kept, candidates)
            VALUES ('acme', 'slack', 'how much?', '{1}', CAST(:found AS jsonb))
        """),
        {"found": json.dumps([found])},
    )
    connection.execute(
        text("""
            INSERT INTO eval_cases (case_id, tenant_id, state, origin, type, question, gold_any,
                                    page_wrong_path, page_wrong_source)
            VALUES ('named', 'acme', 'approved', 'import', '', 'how much?', :gold, NULL, NULL),
                   ('wrong', 'acme', 'approved', 'import', '', 'how much?', '[]', 'bonus.md',
                    'wiki')
        """),
        {"gold": gold},
    )


def count_read(database: Database) -> Mapping[str, int]:
    """How much everyone reads of each table."""
    with database.transaction() as connection:
        return {
            table: connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one()
            for table in ("traces", "eval_cases", "page_changes")
        }


def narrow(connection: Connection) -> None:
    ids = connection.execute(text("SELECT document_id FROM documents WHERE title = 'Bonus'"))
    audiences.assign(connection, NARROW, list(ids.scalars()))


WAYS: dict[str, tuple[Any, ...]] = {
    "where it was": (remove, lambda c: put(c, NARROW)),
    "in another source": (remove, lambda c: put(c, NARROW, source="hr", said="Another text.")),
    "with its text": (remove, lambda c: put(c, NARROW, source="hr", path="pay.md")),
    "narrowed later": (remove, lambda c: put(c, OPEN, source="hr", path="pay.md"), narrow),
    "as a copy that was there": (lambda c: put(c, NARROW, source="hr", path="pay.md"), remove),
    "moved": (narrow, lambda c: move(c, "pay.md")),
    "moved, then narrowed": (lambda c: move(c, "pay.md", "It is 5 million."), narrow),
}


@pytest.mark.parametrize("way", WAYS)
def test_p47_what_was_made_of_a_page_is_for_its_readers_wherever_it_stands(
    database: Database, way: str
) -> None:
    with database.unrestricted.transaction() as connection:
        answer_from(connection, put(connection, OPEN))
        # Nothing of these is theirs.
        put(connection, OPEN, source="other", path="lunch.md", said="Lunch is at noon.")
        put(connection, NARROW, source="other", path="empty.md", said="")
    assert count_read(database)["traces"] == 1 and count_read(database)["eval_cases"] == 2
    for step in WAYS[way]:
        with database.unrestricted.transaction() as connection:
            step(connection)
    assert count_read(database)["traces"] == count_read(database)["eval_cases"] == 0


def test_a_page_that_comes_back_for_more_readers_is_theirs(database: Database) -> None:
    with database.unrestricted.transaction() as connection:
        answer_from(connection, put(connection, NARROW))
        assert count_read(database)["eval_cases"] == 0
        remove(connection)
        put(connection, OPEN)
    assert count_read(database)["eval_cases"] == 2
    assert count_read(database)["traces"] == 0  # it rests on what the page was


def open_up(connection: Connection) -> None:
    ids = connection.execute(text("SELECT document_id FROM documents WHERE title = 'Leaving'"))
    audiences.assign(connection, OPEN, list(ids.scalars()))


def rewrite(connection: Connection) -> None:
    connection.execute(text("UPDATE documents SET title = 'Leaving', text = 'Ask.'"))


@pytest.mark.parametrize(
    "way",
    [(rewrite, open_up), (rewrite, remove, lambda c: put(c, OPEN, said="Ask."))],
    ids=["as it stands", "as another page in its place"],
)
def test_p47_a_page_that_is_opened_does_not_take_along_what_it_said_before(
    database: Database, way: tuple[Any, ...]
) -> None:
    with database.unrestricted.transaction() as connection:
        answer_from(connection, put(connection, NARROW))
    for step in way:
        with database.unrestricted.transaction() as connection:
            step(connection)
    with database.transaction() as connection:
        assert connection.execute(text("SELECT text FROM documents")).scalar_one() == "Ask."
        told = connection.execute(text("SELECT title, title_before FROM page_changes")).all()
        # Nothing that the page says is in the other.
        assert connection.execute(text("SELECT case_id FROM eval_cases")).all() == [("wrong",)]
    assert "Leaving" not in {each.title for each in told}
    assert not [each for each in told if each.title_before]
    assert count_read(database)["traces"] == 0


def test_p47_what_is_written_while_its_page_is_narrowed_is_for_its_readers(
    database: Database,
) -> None:
    with database.unrestricted.transaction() as connection:
        document_id = put(connection, OPEN)
    with database.unrestricted.transaction() as connection:
        answer_from(connection, document_id)
        narrowing = beside.begin(database, lambda: run(database, narrow))
    narrowing.result(30)
    assert count_read(database)["traces"] == count_read(database)["eval_cases"] == 0


def test_p47_what_is_made_of_a_page_gives_way_to_its_narrowing(database: Database) -> None:
    with database.unrestricted.transaction() as connection:
        first = put(connection, OPEN)
        answer_from(connection, first)
        other = put(connection, OPEN, source="other", path="lunch.md")

    def add(connection: Connection) -> None:
        connection.execute(
            text("UPDATE traces SET document_ids = document_ids || CAST(:other AS bigint)"),
            {"other": other},
        )

    with database.unrestricted.transaction() as connection:
        audiences.assign(connection, NARROW, [other])
        adding = beside.begin(database, lambda: run(database, add))
        audiences.assign(connection, NARROW, [first])
    with pytest.raises(OperationalError, match="could not obtain lock"):
        adding.result(30)
    assert count_read(database)["traces"] == 0
    with database.unrestricted.transaction() as connection:
        connection.execute(text("UPDATE documents SET owner = 'U1'"))
        run(database, add)  # waits for nobody who has not changed the readers


def test_p47_a_narrowing_that_has_waited_takes_no_other_from_a_trace(database: Database) -> None:
    with database.unrestricted.transaction() as connection:
        first = put(connection, OPEN)
        answer_from(connection, first)
        other = put(connection, ("group:S2",), source="other", path="lunch.md")

    def narrow_first(connection: Connection) -> None:
        audiences.assign(connection, NARROW, [first])

    with database.unrestricted.transaction() as connection:
        connection.execute(
            text("UPDATE traces SET document_ids = document_ids || CAST(:other AS bigint)"),
            {"other": other},
        )
        narrowing = beside.begin(database, lambda: run(database, narrow_first))
    narrowing.result(30)
    assert count_read(database.reading_as((*NARROW, "everyone")))["traces"] == 0
    assert count_read(database.reading_as((*NARROW, "group:S2", "everyone")))["traces"] == 1


def test_p47_a_narrowing_that_others_hinder_is_begun_anew(
    database: Database, embedder: Embedder
) -> None:
    read = page("bonus.md", f"# Bonus\n\n{SAID}\n")
    ingest(database, embedder, read)
    narrowed = for_readers(read, *NARROW)
    with database.transaction() as connection:
        answer_from(
            connection,
            connection.execute(text("SELECT document_id FROM documents")).scalar_one(),
        )
    with database.transaction() as connection:
        connection.execute(text("UPDATE traces SET question = 'how much is it?'"))
        narrowing = beside.begin(database, lambda: ingest(database, embedder, narrowed))
        # Each waits for the other.
        connection.execute(text("UPDATE documents SET owner = 'U1'"))
    narrowing.result(30)
    assert count_read(database)["traces"] == 0


def run(database: Database, step: Callable[[Connection], object]) -> None:
    with database.unrestricted.transaction() as connection:
        step(connection)
