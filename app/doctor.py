"""What is missing, stale, conflicting or misconfigured, and what to do about it."""

from collections.abc import Iterator, Sequence
from contextlib import closing

from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from app import (
    database_findings,
    findings,
    hidden,
    index_findings,
    installation_findings,
    job_findings,
    page_findings,
    parts,
    secret_findings,
    serve,
    serve_tenants,
    slack_findings,
    source_findings,
)
from app.config import Settings
from app.counting import count
from app.database import open_database
from app.findings import Finding
from app.loop import cases
from retrieval.db import EVERYONE, Database
from retrieval.errors import ConfigError

# To the database, of one process: of the threads beside those of workers, and to hear of jobs.
CONNECTIONS_BESIDE = 24 + 2
LOCK_TIMEOUT_S = 3  # chosen: who is paged does not wait for whoever holds a table


def examine(settings: Settings) -> list[Finding]:
    """Everything that can be looked at without changing anything, errors as findings."""
    found = [*_examine_settings(settings), *slack_findings.examine(settings)]
    try:
        embedder = parts.load_embedder(settings)
        found.append(findings.ok(f"Embedding model {embedder.name} loads."))
        reranker = parts.load_reranker(settings)
        database = open_database(settings).unrestricted.unhurried
    except ConfigError as error:
        return [*found, findings.error(str(error))]
    found.append(
        findings.ok(
            "The database answers, with pgvector and a schema that this version works with."
        )
    )
    try:
        with closing(database), database.transaction() as connection:
            connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_S}s'"))
            found += _examine_policies(connection)
            found += database_findings.examine(
                connection, needed=settings.answer_workers + CONNECTIONS_BESIDE
            )
            found += installation_findings.examine(database.engine, settings)
            found += job_findings.examine(connection)
            found += index_findings.examine(connection, embedder, reranker)
            found += _examine_documents(connection, database)
            found += page_findings.examine(connection, settings)
            found += source_findings.examine(connection, settings)
            found += secret_findings.examine(connection)
            found += examine_cases(database)
    except OperationalError as error:
        found.append(_explain(error))
    return found


def build_text(findings: Sequence[Finding]) -> str:
    """One line a finding, errors last, where they are seen."""
    order = {"ok": 0, "note": 1, "error": 2}
    return "\n".join(
        f"{finding.level:6}{hidden.remove(finding.text)}"
        for finding in sorted(findings, key=lambda finding: order[finding.level])
    )


def _examine_settings(settings: Settings) -> Iterator[Finding]:
    if settings.anthropic_api_key is None:
        yield findings.note("ANTHROPIC_API_KEY is not set: answers are quoted from the documents.")
    try:
        if settings.slack_client_id is None:
            serve.find_tokens(settings)
        else:
            serve_tenants.find_secrets(settings)
    except ConfigError as error:
        yield findings.note(f"{error} The terminal does without.")
    if settings.eval_schedule is None and (settings.report_channel or settings.tickets):
        yield findings.note(
            "REPORT_CHANNEL or TICKETS is set, and EVAL_SCHEDULE is not: nothing is reported but "
            "by `footnote eval --cases --post`, apart from stale pages."
        )


def _explain(error: OperationalError) -> Finding:
    """Why the database did not let us look at the rest."""
    if isinstance(error.orig, LockNotAvailable):
        return findings.error(
            f"Somebody has locked a table for over {LOCK_TIMEOUT_S} s, as a migration or VACUUM "
            "FULL does, so the rest was not looked at: see in pg_stat_activity who waits for whom."
        )
    return findings.error(
        f"The database broke off ({type(error.orig).__name__}), so the rest was not looked at: "
        "see its log, and run `footnote doctor` again."
    )


def _examine_policies(connection: Connection) -> Iterator[Finding]:
    """That the role we run as is under row-level security, on every table."""
    bypasses = connection.execute(
        text("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
    ).scalar_one()
    # The tables of procrastinate hold ids alone, and one worker takes the jobs of every tenant.
    open_tables = connection.execute(
        text(r"""
            SELECT relname FROM pg_class
            WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
            AND NOT relrowsecurity AND relname <> 'alembic_version'
            AND relname NOT LIKE 'procrastinate\_%' ORDER BY relname
        """)
    ).scalars()
    names = ", ".join(open_tables)
    if bypasses:
        yield findings.error(
            "The role footnote_app bypasses row-level security: ALTER ROLE … NOBYPASSRLS."
        )
    elif names:
        yield findings.error(f"No row-level security on {names}: run `footnote migrate`.")
    else:
        yield findings.ok("Row-level security is on for every table.")


def examine_cases(database: Database) -> Iterator[Finding]:
    """The flagged answers that no channel of colleagues is shown."""
    if waiting := cases.count_hidden(database.reading_as(EVERYONE)):
        yield findings.note(
            f"{count(waiting, 'flagged answer')} for fewer people than REVIEW_CHANNEL's readers: "
            "`footnote cases review`."
        )


def _examine_documents(connection: Connection, database: Database) -> Iterator[Finding]:
    total = connection.execute(text("SELECT count(*) FROM documents")).scalar_one()
    if total:
        yield findings.ok(f"{total:,} documents of tenant {database.tenant_id}.")
