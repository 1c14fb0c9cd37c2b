"""Files that did not become documents, kept until they do or are gone."""

from collections.abc import Iterable

from sqlalchemy import Connection, text

from retrieval.sources.reads import Skipped

RETRY = "1 day"  # chosen
_REMEMBERED = f"(old.file_hash IS NOT NULL AND old.last_at > now() - interval '{RETRY}')"


def save(connection: Connection, source: str, skipped: Iterable[Skipped]) -> None:
    """Note each file with the reason of this time; what was only remembered is no new attempt."""
    rows = [
        {
            "source": source,
            "path": each.path,
            "reason": each.reason,
            "file_hash": each.file_hash or None,
        }
        for each in skipped
    ]
    if rows:
        connection.execute(
            text(f"""
                INSERT INTO dead_letters AS old (tenant_id, source, path, reason, file_hash)
                VALUES (current_setting('footnote.tenant_id'), :source, :path, :reason, :file_hash)
                ON CONFLICT (tenant_id, source, md5(path)) DO UPDATE SET
                    reason = excluded.reason, file_hash = excluded.file_hash, last_at = now(),
                    attempts = old.attempts + 1
                WHERE old.file_hash IS DISTINCT FROM excluded.file_hash OR NOT {_REMEMBERED}
            """),
            rows,
        )


def load(connection: Connection, source: str) -> dict[str, Skipped]:
    """The source's files that need not be tried again while they are the same, by their path.

    After RETRY they are: one that took too long may have done so for others' sake.
    """
    rows = connection.execute(
        text(f"""
            SELECT path, reason, file_hash FROM dead_letters AS old
            WHERE source = :source AND {_REMEMBERED}
        """),
        {"source": source},
    )
    return {row.path: Skipped(**row._mapping) for row in rows}


def keep(connection: Connection, source: str, paths: Iterable[str]) -> None:
    """Forget all of a source's but these: the others were read, or are gone."""
    connection.execute(
        text("DELETE FROM dead_letters WHERE source = :source AND path <> ALL(:paths)"),
        {"source": source, "paths": list(paths)},
    )
