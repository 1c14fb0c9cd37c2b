"""What is missing, stale, conflicting or misconfigured, and what to do about it."""

from collections.abc import Iterator, Sequence
from contextlib import closing

from sqlalchemy import Connection, text

from app import findings, parts, serve
from app.config import Settings
from app.database import open_database
from app.findings import Finding
from retrieval import generations, relevance
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.errors import ConfigError
from retrieval.rerank import Reranker
from retrieval.tuning import DEFAULT


def examine(settings: Settings) -> list[Finding]:
    """Everything that can be looked at without changing anything, errors as findings."""
    found = list(_examine_settings(settings))
    try:
        embedder = parts.load_embedder(settings)
        found.append(findings.ok(f"Embedding model {embedder.name} loads."))
        reranker = parts.load_reranker(settings)
        database = open_database(settings)
    except ConfigError as error:
        return [*found, findings.error(str(error))]
    found.append(findings.ok("The database answers, with pgvector and the schema of this version."))
    with closing(database), database.transaction() as connection:
        found += _examine_policies(connection)
        found += _examine_index(connection, embedder)
        found += _examine_relevance(connection, reranker, embedder)
        found += _examine_documents(connection, database, settings.freshness_days)
    return found


def build_text(findings: Sequence[Finding]) -> str:
    """One line a finding, errors last, where they are seen."""
    order = {"ok": 0, "note": 1, "error": 2}
    return "\n".join(
        f"{finding.level:6}{finding.text}"
        for finding in sorted(findings, key=lambda finding: order[finding.level])
    )


def _examine_settings(settings: Settings) -> Iterator[Finding]:
    if settings.anthropic_api_key is None:
        yield findings.note("ANTHROPIC_API_KEY is not set: answers are quoted from the documents.")
    try:
        serve.find_tokens(settings)
    except ConfigError as error:
        yield findings.note(f"{error} The terminal does without.")
    if settings.eval_schedule is None and (settings.report_channel or settings.tickets):
        yield findings.note(
            "REPORT_CHANNEL or TICKETS is set, and EVAL_SCHEDULE is not: nothing is reported but "
            "by `footnote eval --cases --post`."
        )


def _examine_policies(connection: Connection) -> Iterator[Finding]:
    """That the role we run as is under row-level security, on every table."""
    bypasses = connection.execute(
        text("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
    ).scalar_one()
    open_tables = connection.execute(
        text("""
            SELECT relname FROM pg_class
            WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
            AND NOT relrowsecurity AND relname <> 'alembic_version' ORDER BY relname
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


def _examine_index(connection: Connection, embedder: Embedder) -> Iterator[Finding]:
    active = generations.load(connection, "active")
    if active is None:
        yield findings.error("Nothing is indexed. Run `footnote ingest` on a folder of documents.")
        return
    difference = active.difference(embedder, DEFAULT)
    if difference:
        yield findings.error(f"The index does not fit: {difference}. Run `footnote ingest`.")
    else:
        yield findings.ok(f"The index is complete: {active.chunk_count:,} chunks.")
    if generations.load(connection, "building"):
        yield findings.note("A new index is half built. Run `footnote ingest` again to finish it.")


def _examine_relevance(
    connection: Connection, reranker: Reranker, embedder: Embedder
) -> Iterator[Finding]:
    try:
        model = relevance.load(connection, relevance.build_basis(reranker, embedder, DEFAULT))
    except ConfigError as error:
        yield findings.error(str(error))
        return
    yield findings.ok(
        f"Reranker {reranker.name}: relevance fitted on {model.fitted_on} on "
        f"{', '.join(model.cases)}; floor {model.floor:.4f}."
    )


def _examine_documents(
    connection: Connection, database: Database, freshness_days: int
) -> Iterator[Finding]:
    row = connection.execute(
        text("""
            SELECT count(*) AS total, count(verified_at) AS dated,
                   count(*) FILTER (WHERE verified_at < current_date - :days) AS stale
            FROM documents
        """),
        {"days": freshness_days},
    ).one()
    if row.total:
        yield findings.ok(f"{row.total:,} documents of tenant {database.tenant_id}.")
    if row.total and not row.dated:
        yield findings.note(
            "No document says when it was last verified: their age cannot be judged."
        )
    if row.stale:
        yield findings.note(
            f"{row.stale:,} documents were last verified more than {freshness_days} days ago: "
            "ask their owners."
        )
    titles = connection.execute(
        text("""
            SELECT title, count(*) AS pages FROM documents GROUP BY title HAVING count(*) > 1
            ORDER BY pages DESC, title LIMIT 5
        """)
    ).all()
    if titles:
        listed = ", ".join(f"“{each.title}” ({each.pages})" for each in titles)
        yield findings.note(f"Several pages have one title: {listed}. Which one holds?")
