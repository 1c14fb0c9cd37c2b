"""Pages that their source no longer has: counted, and removed when they are gone for good."""

from collections.abc import Sequence

from sqlalchemy import Connection, text

# From the first read without a page to the one that removes it: a part of a source that is away
# for an hour is back by then, however often it is read meanwhile.
LEAST_HOURS = 2


def count(connection: Connection, source: str, gone: Sequence[str]) -> list[str]:
    """Note that a complete read lacks the pages that are gone; the paths of those removed.

    Removed are those that were gone the time before, too, unless that is less than LEAST_HOURS ago.
    """
    if not gone:
        return []
    values = {"source": source, "gone": list(gone), "hours": LEAST_HOURS}
    connection.execute(
        text("""
            UPDATE documents
            SET missed_count = missed_count + 1, missed_at = coalesce(missed_at, now())
            WHERE source = :source AND path = ANY(:gone)
        """),
        values,
    )
    removed = connection.execute(
        text("""
            DELETE FROM documents
            WHERE source = :source AND path = ANY(:gone) AND missed_count > 1
            AND missed_at <= now() - make_interval(hours => :hours)
            RETURNING path
        """),
        values,
    )
    return sorted(removed.scalars())


def reset(connection: Connection, source: str, gone: Sequence[str]) -> None:
    """Note that all pages but those gone are there."""
    connection.execute(
        text("""
            UPDATE documents SET missed_count = 0, missed_at = NULL
            WHERE source = :source AND missed_count > 0 AND path <> ALL(:gone)
        """),
        {"source": source, "gone": list(gone)},
    )


def remove(connection: Connection, source: str, gone: Sequence[str]) -> list[str]:
    """Remove pages at once; the paths of those removed."""
    if not gone:
        return []
    removed = connection.execute(
        text("DELETE FROM documents WHERE source = :source AND path = ANY(:gone) RETURNING path"),
        {"source": source, "gone": list(gone)},
    )
    return sorted(removed.scalars())


def remove_all(connection: Connection, source: str) -> int:
    """Remove all pages of a source; how many there were."""
    return connection.execute(
        text("DELETE FROM documents WHERE source = :source"), {"source": source}
    ).rowcount
