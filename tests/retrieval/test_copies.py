"""Which pages are found to say nearly the same, when they are indexed."""

import pytest
from sqlalchemy import text

from retrieval import audiences, copies
from retrieval.db import Database

WORDS = [f"word{number}" for number in range(60)]
PAGE = " ".join(WORDS)
CHANGED = PAGE.replace("word20 ", "eighty ").replace("word40 ", "ninety ")  # 6 of 58 shingles


def add(database: Database, title: str, words: str, path: str | None = None) -> int:
    with database.transaction() as connection:
        document_id: int = connection.execute(
            text("""
                INSERT INTO documents (tenant_id, source, path, title, url, text, content_hash)
                VALUES (:tenant_id, 'wiki', coalesce(:path, gen_random_uuid()::text), :title, '',
                        :text, md5(CAST(:text AS text) || :title))
                RETURNING document_id
            """),
            {"tenant_id": database.tenant_id, "path": path, "title": title, "text": words},
        ).scalar_one()
    return document_id


def change(database: Database, document_id: int, words: str) -> None:
    with database.transaction() as connection:
        connection.execute(
            text(
                "UPDATE documents SET text = :text, content_hash = md5(:text)"
                " WHERE document_id = :id"
            ),
            {"id": document_id, "text": words},
        )


def find(database: Database) -> dict[tuple[int, int], float]:
    copies.refresh(database)
    with database.transaction() as connection:
        rows = connection.execute(text("SELECT * FROM copies WHERE has_one_title")).all()
    return {(row.document_id, row.other_id): row.similarity for row in rows}


def test_pages_that_differ_in_a_few_words_are_copies(database: Database) -> None:
    one, other = add(database, "Leave", PAGE), add(database, "Leave", CHANGED)
    add(database, "Leave", " ".join(reversed(WORDS)))
    # Of 58 runs of three words each has 52 with the other, which makes 64 in all.
    assert find(database) == {(one, other): pytest.approx(52 / 64)}


@pytest.mark.parametrize(
    ("title", "is_copy"),
    [
        ("Travel policy 2023", True),
        ("Travel policy (old)", True),
        ("Copy of Travel policy", True),
        ("word1 word2", True),  # says nothing that is not in the page
        ("Policies of the travels", True),
        ("Travel policy Spain", False),
        ("Cargo policy", False),
    ],
)
def test_a_template_filled_for_several_services_is_no_copy(
    database: Database, title: str, is_copy: bool
) -> None:
    one = add(database, "Travel policy", f"Travel policy. {PAGE}")
    other = add(database, title, f"Travel policy. {PAGE}")
    assert len(find(database)) == is_copy
    # That it says the same is noted, and nothing is passed over for it.
    with database.transaction() as connection:
        noted = connection.execute(text("SELECT similarity, has_one_title FROM copies")).all()
        assert [tuple(row) for row in noted] == [(1.0, is_copy)]
        assert len(copies.load(connection, [one, other])) == is_copy


@pytest.mark.parametrize(("changed", "is_noted"), [(1, True), (4, False)])
def test_pages_of_other_titles_are_noted_where_they_differ_in_hardly_a_word(
    database: Database, changed: int, is_noted: bool
) -> None:
    words = [
        f"w{word}" if at % 15 == 7 and at < 15 * changed else word for at, word in enumerate(WORDS)
    ]
    add(database, "Backups", PAGE)
    add(database, "Backups FAQ", " ".join(words))
    assert find(database) == {}
    with database.transaction() as connection:
        assert connection.execute(text("SELECT count(*) FROM copies")).scalar() == is_noted


@pytest.mark.parametrize("words", ["", "See the wiki.", " ".join(WORDS[:19])])
def test_short_pages_are_no_copies(database: Database, words: str) -> None:
    add(database, "Leave", words)
    add(database, "Leave", words)
    assert find(database) == {}


def test_a_changed_page_is_compared_anew_and_no_other(database: Database) -> None:
    one, other = add(database, "Leave", PAGE), add(database, "Leave", CHANGED)
    third = add(database, "Leave", " ".join(f"other{number}" for number in range(60)))
    assert list(find(database)) == [(one, other)]
    change(database, other, "something else")
    assert find(database) == {}
    change(database, third, PAGE)
    assert find(database) == {(one, third): 1.0}
    with database.transaction() as connection:
        connection.execute(text("DELETE FROM documents WHERE document_id = :id"), {"id": one})
    assert find(database) == {}


def test_more_pages_than_are_compared_at_once_are_all_compared(database: Database) -> None:
    ids = [
        add(database, f"Page {number}", PAGE.replace("word", f"w{number}x"))
        for number in range(copies.BATCH)
    ]
    last = add(database, "Page 0", PAGE.replace("word", "w0x"))
    assert find(database) == {(ids[0], last): 1.0}


def test_who_may_not_read_one_of_two_copies_knows_of_neither(database: Database) -> None:
    one, other = add(database, "Leave", PAGE), add(database, "Leave", CHANGED)
    assert find(database)
    with database.unrestricted.transaction() as connection:
        audiences.assign(connection, ("group:S1",), [other])
    assert find(database) == {}
    assert list(find(database.reading_as(["everyone", "group:S1"]))) == [(one, other)]


def test_pairs_are_loaded_among_given_pages(database: Database) -> None:
    one, other = add(database, "Leave", PAGE), add(database, "Leave", CHANGED)
    copies.refresh(database)
    with database.transaction() as connection:
        assert copies.load(connection, [other, one, 99]) == {(one, other)}
        assert copies.load(connection, [one]) == frozenset()
        assert copies.load(connection, []) == frozenset()
