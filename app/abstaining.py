"""The words with which Footnote says that it has no answer."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text

from app.records import Abstention
from retrieval.db import Database
from retrieval.records import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What was searched."""

    page_count: int  # that the asker may read
    sources: tuple[str, ...]  # their names


def load_searched(database: Database) -> Searched:
    """What a search of this tenant's documents looks through."""
    with database.transaction() as connection:
        rows = connection.execute(
            text("SELECT source, count(*) AS pages FROM documents GROUP BY source ORDER BY source")
        ).all()
    return Searched(
        page_count=sum(row.pages for row in rows), sources=tuple(row.source for row in rows)
    )


def explain(reason: Abstention, query: Query, searched: Searched) -> str:
    """Why there is no answer, as a colleague would say it, and where we looked."""
    if not searched.page_count:
        return "I have no pages to look in yet, so I can't answer this."
    pages = _pages(searched)
    if reason == "UNSUPPORTED":
        return f"I found related pages, but they don't answer this. I looked in {pages}."
    asked = " ".join(query.text.split())
    looked_for = f" I searched for “{asked}”." if asked != " ".join(query.question.split()) else ""
    return f"I couldn't find this in {pages}.{looked_for}"


def _pages(searched: Searched) -> str:
    count = searched.page_count
    number = "the one page" if count == 1 else f"the {count:,} pages"
    return f"{number} of {_list(searched.sources)}" if searched.sources else number


def _list(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
