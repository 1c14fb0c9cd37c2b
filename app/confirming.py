"""Pages that somebody says are still true: which page is meant, who may say so, and keeping it."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cache

from sqlalchemy import Connection, text

from app.counting import list_names
from app.records import Citation
from app.rights import Rights
from retrieval import editions, verifying
from retrieval.db import Database
from retrieval.errors import ConfigError

MOST_NAMED = 5  # pages of one name that are listed

# An owner that Slack knows: a person or a user group, by id, or mentioned in Slack. Ids have a
# digit and at least nine characters, which neither SECURITY nor UPDATES2 has.
_PERSON = re.compile(r"<?@?([UW](?=[A-Z]*\d)[A-Z0-9]{8,})(?:\|[^>]*)?>?")
_GROUP = re.compile(r"(?:<!subteam\^)?(S(?=[A-Z]*\d)[A-Z0-9]{8,})(?:\|[^>]*)?>?")
_EMAIL = re.compile(r"(?<![\w.+'@-])[\w.+'-]+@[\w.-]*\w(?![\w@-])")


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
    """The page that each name is of: a path, or else a title or an address, whatever its case.

    Raises ConfigError for a name of none, or of several, saying which they are, and for a source
    that has no pages.
    """
    with database.transaction() as connection:
        if source is not None:
            _check_source(connection, source)
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


def load_due(connection: Connection, freshness_days: int) -> list[OwnedPage]:
    """The stale pages that somebody is to look at, those first that were verified longest ago; none
    that no longer holds by its own word, lies in an archive, or has a later edition."""
    rows = connection.execute(
        text(f"""
            SELECT document_id, source, path, title, owner, verified_at,
                   {verifying.IS_STALE} AND NOT is_superseded AS is_due
            FROM documents ORDER BY verified_at, source, path
        """),
        {"freshness_days": freshness_days},
    ).all()
    today = datetime.now(UTC).date()
    older = editions.find_older(rows, today)
    return [
        OwnedPage(
            document_id=row.document_id,
            source=row.source,
            path=row.path,
            title=row.title,
            owner=row.owner,
            verified_at=row.verified_at,
        )
        for row in rows
        if row.is_due and row.document_id not in older and not editions.is_archived(row.path)
    ]


def load_secret(connection: Connection) -> list[OwnedPage]:
    """The pages in which secrets were masked."""
    rows = connection.execute(
        text("""
            SELECT document_id, source, path, title, owner, verified_at FROM documents
            WHERE secret_kinds <> '{}' ORDER BY source, path
        """)
    )
    return [OwnedPage(**row._mapping) for row in rows]


def confirm(database: Database, document_ids: Collection[int], by: str) -> int:
    """Have pages count as verified today, in UTC; of how many of those that are there for who reads
    this is new."""
    verified_at = verifying.build_sql("stated_on", "today")
    with database.transaction() as connection:
        return connection.execute(
            text(f"""
                UPDATE documents
                SET confirmed_on = today, confirmed_by = :by, verified_at = {verified_at}
                FROM (SELECT {verifying.TODAY} AS today) AS clock
                WHERE document_id = ANY(:document_ids)
                AND (confirmed_on, confirmed_by, verified_at)
                    IS DISTINCT FROM (today, :by, {verified_at})
            """),
            {"document_ids": list(document_ids), "by": by},
        ).rowcount


def split_owners(owner: str | None) -> list[str]:
    """The owners of a page that names several, with commas or semicolons between them."""
    return [name for each in re.split("[,;]", owner or "") if (name := each.strip())]


def find_owner_names(owner: str | None) -> list[str]:
    """The people and user groups in Slack that owners are, as audiences have it, or email:ADDRESS.

    An address is in lower case, and found whatever stands around it.
    """
    names: list[str] = []
    for each in split_owners(owner):
        if found := _PERSON.fullmatch(each):
            names.append(f"user:{found[1]}")
        elif found := _GROUP.fullmatch(each):
            names.append(f"group:{found[1]}")
        else:
            names += (f"email:{address.lower()}" for address in _EMAIL.findall(each))
    return list(dict.fromkeys(names))


def name_owners(owner: str, rights: Rights) -> str:
    """The owners of a page as people call them; as they stand there where Slack does not say."""
    return list_names([_name_owner(each, rights) for each in split_owners(owner)] or [owner])


def name_all_owners(citations: Sequence[Citation], rights: Rights) -> tuple[Citation, ...]:
    """Citations with the same of their pages."""
    name = build_namer(rights)
    return tuple(replace(each, owner=name(each.owner)) for each in citations)


def build_namer(rights: Rights) -> Callable[[str | None], str | None]:
    """What names the owners of pages; of each Slack is asked once, whatever it says."""

    @cache
    def name(owner: str | None) -> str | None:
        return owner and name_owners(owner, rights)

    return name


def _name_owner(owner: str, rights: Rights) -> str:
    ids = [name for name in find_owner_names(owner) if not name.startswith("email:")]
    return next(filter(None, map(rights.find_name, ids)), owner)


def find_expert_ids(page: OwnedPage, experts: Mapping[str, str]) -> list[str]:
    """The channels and user groups that are named for a page's owners, else that for its source.

    Not that for anything else: who helps with any question does not know every page.
    """
    owners = dict.fromkeys([page.owner or "", *split_owners(page.owner)])
    named = [experts[owner] for owner in owners if owner in experts]
    return named or [experts[each] for each in (page.source,) if each in experts]


def find_places(
    page: OwnedPage, experts: Mapping[str, str], report_channel: str | None
) -> Collection[str]:
    """Where it is told that a page is stale, by id: to its owners who are people in Slack, else in
    the channels that are named for it, else in the report's, if there is one.

    A user group has no place of its own.
    """
    names = [name.partition(":") for name in find_owner_names(page.owner)]
    people = {owner_id for kind, _, owner_id in names if kind == "user"}
    channels = {each for each in find_expert_ids(page, experts) if not each.startswith("S")}
    return people or channels or ({report_channel} if report_channel else ())


def may_confirm(
    page: OwnedPage,
    user_id: str,
    *,
    admins: Collection[str],
    experts: Mapping[str, str],
    rights: Rights,
) -> bool:
    """Whether a person may say that a page is still true: an owner of it, one of those who are
    named for it, or an admin."""
    if user_id in admins:
        return True
    names = [*find_owner_names(page.owner), *map(_name_expert, find_expert_ids(page, experts))]
    return any(
        address == rights.find_email(user_id) if kind == "email" else rights.has(name, user_id)
        for name in names
        for kind, _, address in (name.partition(":"),)
    )


def _name_expert(expert_id: str) -> str:
    return f"{'group' if expert_id.startswith('S') else 'channel'}:{expert_id}"


def _check_source(connection: Connection, source: str) -> None:
    known = connection.execute(text("SELECT DISTINCT source FROM documents ORDER BY 1")).scalars()
    names = known.all()
    if source not in names:
        there = f"There are pages of {', '.join(names)}." if names else "There are no pages yet."
        raise ConfigError(f"No page is of a source called {source!r}. {there}")


def _find_page(connection: Connection, name: str, source: str | None) -> OwnedPage:
    whole = name.partition("#")[0]  # a page's address, where that of a heading is given
    for column, wanted in (("path", name), ("title", name), ("url", name), ("url", whole)):
        rows = connection.execute(
            text(f"""
                SELECT document_id, source, path, title, owner, verified_at FROM documents
                WHERE lower({column}) = lower(:wanted) AND :wanted <> ''
                AND (CAST(:source AS text) IS NULL OR source = :source)
                ORDER BY source, path
            """),
            {"wanted": wanted, "source": source},
        ).all()
        if len(rows) > 1:
            raise ConfigError(_build_ambiguity(name, [OwnedPage(**row._mapping) for row in rows]))
        if rows:
            return OwnedPage(**rows[0]._mapping)
    raise ConfigError(
        f"No page is called {name!r}. Give its path below the source's folder, its title or its "
        "address."
    )


def _build_ambiguity(name: str, pages: Sequence[OwnedPage]) -> str:
    listed = ", ".join(f"{page.path} of {page.source}" for page in pages[:MOST_NAMED])
    more = f" and {len(pages) - MOST_NAMED:,} more" if len(pages) > MOST_NAMED else ""
    return f"{len(pages):,} pages are called {name!r}: {listed}{more}. Give a path, with --source."
