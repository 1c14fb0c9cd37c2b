"""Files that did not become documents, kept until they do or are gone."""

from collections.abc import Iterable

from sqlalchemy import Connection, text

from retrieval.sources.reads import Skipped


def save(connection: Connection, source: str, skipped: Iterable[Skipped]) -> None:
    """Note each file once more, with the reason of this time."""
    rows = [{"source": source, "path": each.path, "reason": each.reason} for each in skipped]
    if rows:
        connection.execute(
            text("""
                INSERT INTO dead_letters AS old (tenant_id, source, path, reason)
                VALUES (current_setting('footnote.tenant_id'), :source, :path, :reason)
                ON CONFLICT (tenant_id, source, md5(path)) DO UPDATE SET
                    reason = excluded.reason, last_at = now(), attempts = old.attempts + 1
            """),
            rows,
        )


def keep(connection: Connection, source: str, paths: Iterable[str]) -> None:
    """Forget all of a source's but these: the others were read, or are gone."""
    connection.execute(
        text("DELETE FROM dead_letters WHERE source = :source AND path <> ALL(:paths)"),
        {"source": source, "paths": list(paths)},
    )
