"""Pages that hold secrets, as their owners are to be told."""

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from sqlalchemy import Connection, text

from app import findings
from app.counting import count
from app.findings import Finding
from app.mrkdwn import flatten

OWNERS_TOLD, PAGES_TOLD = 20, 10  # of more, how many there are
NAME_LENGTH = 120


class _Page(NamedTuple):
    owner: str | None
    source: str
    path: str
    kinds: list[str]


def examine(connection: Connection) -> Iterator[Finding]:
    """The pages in which secrets were masked, an owner a finding, who has most of them first."""
    owners = [list(pages) for _, pages in groupby(_load(connection), key=lambda page: page.owner)]
    for pages in owners[:OWNERS_TOLD]:
        whose = flatten(pages[0].owner, NAME_LENGTH) if pages[0].owner else "nobody known"
        listed = [f"{_show(page)}" for page in pages[:PAGES_TOLD]]
        more = len(pages) - len(listed)
        listed += [f"and {more} more"] if more else []
        yield findings.note(
            f"{count(len(pages), 'page')} of {whose} hold{'s' * (len(pages) == 1)} secrets: "
            f"{', '.join(listed)}. They are masked here, not at the source: take them out there, "
            "and replace them."
        )
    if len(owners) > OWNERS_TOLD:
        yield findings.note(f"Pages of {len(owners) - OWNERS_TOLD} more owners hold secrets.")
    if not owners:
        yield findings.ok("No secret was found in the documents.")


def _show(page: _Page) -> str:
    place = flatten(f"{page.source}/{page.path}", NAME_LENGTH)
    return f"{place} ({', '.join(page.kinds)})"


def _load(connection: Connection) -> list[_Page]:
    """By owner, who has most of them first, and of each those with most kinds first."""
    rows = connection.execute(
        text("""
            SELECT owner, source, path, secret_kinds AS kinds FROM documents
            WHERE secret_kinds <> '{}'
            ORDER BY count(*) OVER (PARTITION BY owner) DESC, owner,
                     cardinality(secret_kinds) DESC, source, path
        """)
    )
    return [_Page(*row) for row in rows]
