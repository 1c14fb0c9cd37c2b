"""How each source was read last."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """A row of sources."""

    source: str
    root: str
    started_at: datetime | None  # of the last sync
    completed_at: datetime | None  # of the last one that read all of it
    error: str | None  # why the last one did not

    @property
    def is_open(self) -> bool:
        """Whether one was begun after the last one that read all of it, and has not failed."""
        if self.started_at is None or self.completed_at is None or self.error:
            return False
        return self.started_at > self.completed_at


def find_root(connection: Connection, source: str) -> str | None:
    """Where a source is; None where it is not known."""
    root: str | None = connection.execute(
        text("SELECT root FROM sources WHERE source = :source"), {"source": source}
    ).scalar()
    return root


def save_root(connection: Connection, source: str, root: str) -> None:
    """Note where a source is."""
    connection.execute(
        text("""
            INSERT INTO sources (tenant_id, source, root)
            VALUES (current_setting('footnote.tenant_id'), :source, :root)
            ON CONFLICT (tenant_id, source) DO UPDATE SET root = excluded.root
        """),
        {"source": source, "root": root},
    )


def begin(connection: Connection, source: str, root: str) -> None:
    """Note that a source is read from now on, and where it is."""
    connection.execute(
        text("""
            INSERT INTO sources (tenant_id, source, root, started_at)
            VALUES (current_setting('footnote.tenant_id'), :source, :root, now())
            ON CONFLICT (tenant_id, source)
            DO UPDATE SET root = excluded.root, started_at = now(), error = NULL
        """),
        {"source": source, "root": root},
    )


def note_revision(connection: Connection, source: str, revision: str) -> None:
    """Note what is read of a repository."""
    connection.execute(
        text("UPDATE sources SET revision = :revision WHERE source = :source"),
        {"source": source, "revision": revision},
    )


def complete(connection: Connection, source: str) -> None:
    """Note that all of a source was read and is in the index."""
    connection.execute(
        text("UPDATE sources SET completed_at = now(), error = NULL WHERE source = :source"),
        {"source": source},
    )


def end(connection: Connection, source: str) -> None:
    """Note that nobody reads a source any more, and nothing of it has changed."""
    connection.execute(
        text("UPDATE sources SET started_at = completed_at WHERE source = :source"),
        {"source": source},
    )


def fail(connection: Connection, source: str, error: str) -> None:
    """Note why a source was not read, or not all of it."""
    connection.execute(
        text("UPDATE sources SET error = :error WHERE source = :source"),
        {"source": source, "error": error},
    )


def remove(connection: Connection, source: str) -> bool:
    """Forget a source; False where it is not known."""
    removed = connection.execute(
        text("DELETE FROM sources WHERE source = :source"), {"source": source}
    )
    return removed.rowcount > 0


def load(connection: Connection) -> Sequence[SourceState]:
    """All sources, by name."""
    rows = connection.execute(
        text("SELECT source, root, started_at, completed_at, error FROM sources ORDER BY source")
    )
    return [SourceState(**row._mapping) for row in rows]
