"""The pages that replace those that were found, as these say themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from sqlalchemy import text

from app.records import Successor
from retrieval import editions
from retrieval.db import Database
from retrieval.editions import Superseded
from retrieval.records import Retrieval


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPage:
    """A page that another one may mean."""

    document_id: int
    title: str
    path: str
    url: str
    superseded_by: str | None


def load_named(database: Database, retrieval: Retrieval) -> list[NamedPage]:
    """The pages for who reads that what is kept may name in its place, where no page is that which
    was found."""
    found = {each.section.document_id: each.section for each in retrieval.candidates}
    named = {
        page.superseded_by or ""
        for page in (each.section for each in retrieval.kept)
        if editions.find_successor(page, found.values()) in (None, page)
    }
    # A database that folds no case writes some letters otherwise, as ß.
    names = {form for name in named for form in (name.strip().casefold(), name.strip().lower())}
    names -= {""}
    if not names:
        return []
    words = names | {PurePosixPath(name.split("#")[0]).name for name in names}
    with database.transaction() as connection:
        rows = connection.execute(
            text("""
                SELECT document_id, title, path, url, superseded_by FROM documents
                WHERE lower(title) = ANY(:words)
                OR lower(url) = ANY(:words) OR lower(split_part(url, '#', 1)) = ANY(:words)
                OR lower(split_part(path, '/', -1)) = ANY(:words)
                OR regexp_replace(lower(split_part(path, '/', -1)), '[.][^.]*$', '') = ANY(:words)
                ORDER BY source, path
            """),
            {"words": sorted(words)},
        )
        return [NamedPage(**row._mapping) for row in rows]


def find(retrieval: Retrieval, named: Sequence[Superseded] = ()) -> Mapping[int, Successor | None]:
    """What replaces pages that were found, by document_id, where that was found or is among those
    that they name: the last of those that replace one another, or None where they lead back."""
    sections = [each.section for each in retrieval.candidates]
    pages: dict[int, Superseded] = {each.document_id: each for each in (*sections, *named)}
    last = editions.find_all_last(pages)
    return {
        number: None if last[number].document_id == number else _build(last[number])
        for number in dict.fromkeys(each.document_id for each in sections)
        if number in last
    }


def _build(page: Superseded) -> Successor:
    return Successor(document_id=page.document_id, path=page.path, title=page.title, url=page.url)
