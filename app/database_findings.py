"""What `footnote doctor` says of the database server, and of what it keeps beside the rows."""

import time
from collections.abc import Callable, Iterator

from sqlalchemy import Connection, text

from app import clock_findings, findings
from app.counting import count
from app.findings import Finding

# Building an index takes minutes, and who listens for jobs may hear of none for as long; chosen.
SHORT_TIMEOUT_MS = 3_600_000
UNSEEN_ROWS = 1_000  # of a table that was never analysed: with fewer any plan is as good; chosen
# Autovacuum comes at 20% by default, so twice that says that it does not keep up; chosen.
DEAD_ROWS, DEAD_SHARE = 10_000, 0.4
AS_OWNER = "as the database's owner"


def examine(
    connection: Connection, *, needed: int, now: Callable[[], float] = time.time
) -> Iterator[Finding]:
    """The server, its clock, its extensions and the state of tables and indexes.

    needed is how many connections one process may open. now: seconds since 1970 on this machine's
    clock.
    """
    yield _examine_server(connection)
    yield from _examine_connections(connection, needed)
    yield from _examine_timeouts(connection)
    yield _examine_clock(connection, now)
    yield from _examine_extensions(connection)
    yield from _examine_indexes(connection)
    yield from _examine_tables(connection)


def _examine_server(connection: Connection) -> Finding:
    row = connection.execute(
        text("""
            SELECT current_setting('server_version') AS version, pg_is_in_recovery() AS is_standby,
                   current_setting('transaction_read_only')::boolean AS is_read_only,
                   (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS pgvector
        """)
    ).one()
    server = f"PostgreSQL {row.version} with pgvector {row.pgvector}"
    if row.is_standby:
        return findings.error(
            f"{server} is a standby, to which nothing can be written: point DATABASE_URL at the "
            "primary, with target_session_attrs=read-write where it names several hosts."
        )
    if row.is_read_only:
        return findings.error(
            f"{server} takes nothing, as default_transaction_read_only is on: see why, as a full "
            f"disk, and turn it off {AS_OWNER}."
        )
    return findings.ok(f"{server} can be written to.")


def _examine_connections(connection: Connection, needed: int) -> Iterator[Finding]:
    row = connection.execute(
        text("""
            SELECT current_setting('max_connections')::int
                       - current_setting('superuser_reserved_connections')::int AS most,
                   (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
                       AS used,
                   (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = session_user)
                       AS most_of_role
        """)
    ).one()
    most = row.most if row.most_of_role is None else min(row.most, row.most_of_role)
    if most < needed:
        yield findings.error(
            f"The database lets us open {count(most, 'connection')}, and one process of Footnote "
            f"may need {needed}: raise max_connections or the role's CONNECTION LIMIT."
        )
    elif row.most - row.used < needed:
        yield findings.note(
            f"Of {row.most} connections to the database, {row.used} are open, and one more process "
            f"of Footnote may need {needed}: see in pg_stat_activity whose they are, or "
            "raise max_connections."
        )


def _examine_timeouts(connection: Connection) -> Iterator[Finding]:
    """What the server or the role has set; how long a statement may take, we say ourselves."""
    rows = connection.execute(
        text("""
            SELECT name, setting FROM pg_settings
            WHERE name IN ('idle_session_timeout', 'transaction_timeout')
            AND setting::int BETWEEN 1 AND :short_ms - 1 ORDER BY name
        """),
        {"short_ms": SHORT_TIMEOUT_MS},
    )
    for row in rows:
        yield findings.note(
            f"{row.name} is {int(row.setting):,} ms, so that connections of ours are cut off: run "
            f"`ALTER ROLE … SET {row.name} = 0` for the user of DATABASE_URL."
        )


def _examine_clock(connection: Connection, now: Callable[[], float]) -> Finding:
    asked_at = now()
    theirs: float = connection.execute(
        text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS float8)")
    ).scalar_one()
    return clock_findings.examine("the database", (asked_at + now()) / 2 - theirs)


def _examine_extensions(connection: Connection) -> Iterator[Finding]:
    rows = connection.execute(
        text("""
            SELECT name, installed_version, default_version FROM pg_available_extensions
            WHERE installed_version <> default_version ORDER BY name
        """)
    )
    for row in rows:
        yield findings.note(
            f"The server has version {row.default_version} of {row.name}, this database "
            f"{row.installed_version}: run `ALTER EXTENSION {row.name} UPDATE` {AS_OWNER}."
        )


def _examine_indexes(connection: Connection) -> Iterator[Finding]:
    """Those that were left when their building broke off, which are kept up and never used."""
    rows = connection.execute(
        text("""
            SELECT indexes.relname AS name, tables.relname AS of_table FROM pg_index
            JOIN pg_class AS indexes ON indexes.oid = indexrelid
            JOIN pg_class AS tables ON tables.oid = indrelid
            WHERE indexes.relnamespace = 'public'::regnamespace AND NOT (indisvalid AND indisready)
            ORDER BY name
        """)
    ).all()
    for row in rows:
        yield findings.error(
            f"The index {row.name} of {row.of_table} is not valid, so nothing is found by it. "
            f"Unless it is being built just now, run `REINDEX INDEX CONCURRENTLY {row.name}` "
            f"{AS_OWNER}."
        )
    if not rows:
        yield findings.ok("All indexes of the database are valid.")


def _examine_tables(connection: Connection) -> Iterator[Finding]:
    rows = connection.execute(
        text("""
            SELECT stats.relname AS name, n_live_tup AS live, n_dead_tup AS dead,
                   reltuples < 0 AND n_live_tup >= :unseen AS is_unseen
            FROM pg_stat_user_tables AS stats JOIN pg_class ON pg_class.oid = relid
            WHERE schemaname = 'public' AND (
                reltuples < 0 AND n_live_tup >= :unseen
                OR n_dead_tup >= :dead_rows AND n_dead_tup > :dead_share * n_live_tup)
            ORDER BY name
        """),
        {"unseen": UNSEEN_ROWS, "dead_rows": DEAD_ROWS, "dead_share": DEAD_SHARE},
    ).all()
    see = "see that autovacuum is on"
    if unseen := ", ".join(row.name for row in rows if row.is_unseen):
        yield findings.note(
            f"Never analysed, so that searching them is planned blindly: {unseen}. Run `ANALYZE` "
            f"{AS_OWNER}, and {see}."
        )
    if dead := [row for row in rows if not row.is_unseen]:
        listed = ", ".join(f"{row.name} ({row.dead:,} of {row.dead + row.live:,})" for row in dead)
        yield findings.note(
            f"Rows that are gone and still take their place: {listed}. Run `VACUUM (ANALYZE)` "
            f"{AS_OWNER}, {see}, and in pg_stat_activity that no transaction is open for hours."
        )
