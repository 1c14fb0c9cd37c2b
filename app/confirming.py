"""Pages that somebody says are still true: which page is meant, who may say so, and keeping it."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from sqlalchemy import Connection, text

from retrieval.db import Database
from retrieval.errors import ConfigError

MOST_NAMED = 5  # pages of one name that are listed

# An owner that Slack knows: a person or a user group, by id, or mentioned in Slack. Ids have a
# digit, and SUPPORT has none.
_PERSON = re.compile(r"<?@?([UW](?=[A-Z]*\d)[A-Z0-9]{5,})(?:\|[^>]*)?>?")
_GROUP = re.compile(r"(?:<!subteam\^)?(S(?=[A-Z]*\d)[A-Z0-9]{5,})(?:\|[^>]*)?>?")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPage:
    """A page, and whose it is."""

    document_id: int
    source: str
    path: str
    title: str
    owner: str | None
    verified_at: date | None


def find_pages(database: Database, names: Sequence[str], source: str | None) -> list[OwnedPage]:
    """The page that each name is of: a path, or else a title, whatever its case.

    Raises ConfigError for a name of none, or of several, saying which they are.
    """
    with database.transaction() as connection:
        return [_find_page(connection, name, source) for name in names]


def load_page(database: Database, document_id: int) -> OwnedPage | None:
    """A page, None where it is gone, or is not for who reads."""
    with database.transaction() as connection:
        row = connection.execute(
            text("""
                SELECT document_id, source, path, title, owner, verified_at FROM documents
                WHERE document_id = :document_id
            """),
            {"document_id": document_id},
        ).one_or_none()
    return OwnedPage(**row._mapping) if row else None


def confirm(database: Database, document_ids: Collection[int], by: str) -> int:
    """Have pages count as verified today, in UTC; how many of them are there for who reads."""
    with database.transaction() as connection:
        return connection.execute(
            text("""
                UPDATE documents
                SET confirmed_on = today, confirmed_by = :by,
                    verified_at = greatest(stated_on, today)
                FROM (SELECT CAST(now() AT TIME ZONE 'UTC' AS date) AS today) AS clock
                WHERE document_id = ANY(:document_ids)
            """),
            {"document_ids": list(document_ids), "by": by},
        ).rowcount


def find_owner_id(owner: str | None) -> str | None:
    """The name of the person or user group in Slack that an owner is, as audiences have it."""
    for kind, form in (("user", _PERSON), ("group", _GROUP)):
        if found := form.fullmatch((owner or "").strip()):
            return f"{kind}:{found[1]}"
    return None


def find_expert_id(page: OwnedPage, experts: Mapping[str, str]) -> str | None:
    """The channel or user group that is named for a page's owner, else for its source.

    Not that for anything else: who helps with any question does not know every page.
    """
    topics = (page.owner, page.source)
    return next((experts[topic] for topic in topics if topic and topic in experts), None)


def may_confirm(
    page: OwnedPage,
    user_id: str,
    *,
    admins: Collection[str],
    experts: Mapping[str, str],
    has: Callable[[str, str], bool],
) -> bool:
    """Whether a person may say that a page is still true: its owner, one of those who are named
    for it, or an admin.

    has tells whether a group or channel is a person's.
    """
    if user_id in admins:
        return True
    expert_id = find_expert_id(page, experts)
    names = [find_owner_id(page.owner), expert_id and _name_expert(expert_id)]
    return any(has(name, user_id) for name in names if name)


def _name_expert(expert_id: str) -> str:
    return f"{'group' if expert_id.startswith('S') else 'channel'}:{expert_id}"


def _find_page(connection: Connection, name: str, source: str | None) -> OwnedPage:
    for column in ("path", "title"):
        rows = connection.execute(
            text(f"""
                SELECT document_id, source, path, title, owner, verified_at FROM documents
                WHERE lower({column}) = lower(:name)
                AND (CAST(:source AS text) IS NULL OR source = :source)
                ORDER BY source, path
            """),
            {"name": name, "source": source},
        ).all()
        if len(rows) > 1:
            raise ConfigError(_build_ambiguity(name, [OwnedPage(**row._mapping) for row in rows]))
        if rows:
            return OwnedPage(**rows[0]._mapping)
    raise ConfigError(
        f"No page is called {name!r}. Give its path below the source's folder, or its title."
    )


def _build_ambiguity(name: str, pages: Sequence[OwnedPage]) -> str:
    listed = ", ".join(f"{page.path} of {page.source}" for page in pages[:MOST_NAMED])
    more = f" and {len(pages) - MOST_NAMED:,} more" if len(pages) > MOST_NAMED else ""
    return f"{len(pages):,} pages are called {name!r}: {listed}{more}. Give a path, with --source."
