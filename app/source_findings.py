"""Sources that are not read as they should be, and files that are not in the index."""

from collections.abc import Container, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from cronsim import CronSim
from sqlalchemy import Connection, text

from app import findings, syncing
from app.config import Settings
from app.counting import count
from app.findings import Finding
from app.mrkdwn import flatten
from retrieval import source_locks, source_states
from retrieval.errors import ConfigError
from retrieval.source_states import SourceState
from retrieval.sources import catalog
from retrieval.sources.catalog import Source

GRACE = timedelta(hours=3)  # as long as one process waits for another that syncs; schedule.CLAIM_S
REASONS_TOLD, PATHS_TOLD = 20, 3  # of more, how many there are
TEXT_LENGTH = 200


def examine(connection: Connection, settings: Settings) -> Iterator[Finding]:
    """How each source was read last, which files could not be, and which pages are on their way
    out."""
    sources: tuple[Source, ...] = ()
    if settings.sources is not None:
        try:
            sources = syncing.find_sources(settings)
        except ConfigError as error:
            yield findings.error(str(error))
    states = {state.source: state for state in source_states.load(connection)}
    cut_off = {
        name
        for name, state in states.items()
        if state.is_open and not source_locks.is_held(connection, name)
    }
    yield from _examine_sources(sources, states, cut_off, datetime.now(UTC))
    yield from _examine_dead_letters(connection)
    yield from _examine_missing(connection)
    yield from _examine_addresses(connection)


def _examine_sources(
    sources: tuple[Source, ...],
    states: Mapping[str, SourceState],
    cut_off: Container[str],
    now: datetime,
) -> Iterator[Finding]:
    named = {source.name: source for source in sources}
    for name in dict.fromkeys([*named, *states]):
        source, state = named.get(name), states.get(name)
        if state and name in cut_off:
            yield _build_cut_off(state, source)
        else:
            yield _examine_source(name, source, state, now)
    renamed = catalog.find_renamed({name: state.root for name, state in states.items()}, sources)
    for name, source in renamed.items():
        yield findings.error(syncing.build_renamed(name, source))
    if sources and (unnamed := [name for name in states if name not in {**named, **renamed}]):
        yield findings.note(
            f"SOURCES does not name {', '.join(unnamed)}: read only by `footnote ingest`, if at "
            "all, and answered from still. `footnote sync NAME --prune` removes such a source."
        )


def _build_cut_off(state: SourceState, source: Source | None) -> Finding:
    """Of a sync that was killed, which could note nothing."""
    return findings.error(
        f"Source {state.source} was begun at {state.started_at:%Y-%m-%d %H:%M} UTC, and whoever "
        f"read it was killed. It was read last at {state.completed_at:%Y-%m-%d %H:%M}: see that "
        f"there is memory enough, and run {_build_command(state.source, source)}."
    )


def _build_command(name: str, source: Source | None) -> str:
    return f"`footnote sync {name}`" if source else "`footnote ingest`"


def _examine_source(
    name: str, source: Source | None, state: SourceState | None, now: datetime
) -> Finding:
    again = _build_command(name, source)
    if state is None or (state.completed_at is None and state.error is None):
        return findings.note(f"Source {name} was never read completely: run {again}.")
    if state.error:
        since = f"not read completely since {state.completed_at:%Y-%m-%d %H:%M}"
        error = flatten(state.error, TEXT_LENGTH)
        was = since if state.completed_at else "never read completely"
        return findings.error(f"Source {name} was {was}: {error}")
    assert state.completed_at is not None
    if source and (due_at := _find_overdue(source, state.completed_at, now)):
        return findings.error(
            f"Source {name} was due at {due_at:%Y-%m-%d %H:%M} UTC and was read last at "
            f"{state.completed_at:%Y-%m-%d %H:%M}: see that `footnote serve` runs, or run {again}."
        )
    return findings.ok(f"Source {name} was read at {state.completed_at:%Y-%m-%d %H:%M} UTC.")


def _find_overdue(source: Source, completed_at: datetime, now: datetime) -> datetime | None:
    """The last time by which the source should have been read since, if it has not been."""
    if source.schedule is None:
        return None
    due_at = next(CronSim(source.schedule, now - GRACE, reverse=True))
    return due_at if completed_at < due_at else None


def _examine_dead_letters(connection: Connection) -> Iterator[Finding]:
    """Files that are not in the index, by source and reason, those first of which there are most.

    Numbers in a reason tell no two apart.
    """
    rows = connection.execute(
        text(rf"""
            SELECT source, min(reason) AS reason, count(*) AS files, min(first_at) AS first_at,
                   (array_agg(path ORDER BY path))[1:{PATHS_TOLD}] AS paths
            FROM dead_letters
            GROUP BY source, regexp_replace(reason, '[0-9.,]+', '0', 'g')
            ORDER BY files DESC, source, reason
        """)
    ).all()
    for row in rows[:REASONS_TOLD]:
        paths = ", ".join(flatten(path, TEXT_LENGTH) for path in row.paths)
        more = f" and {row.files - len(row.paths)} more" if row.files > len(row.paths) else ""
        yield findings.note(
            f"{count(row.files, 'file')} of source {row.source} {_be(row.files)} not in the index "
            f"as {'it is' if row.files == 1 else 'they are'} now: {paths}{more}, since "
            f"{row.first_at:%Y-%m-%d}. Why: {flatten(row.reason, TEXT_LENGTH).rstrip('.')}."
        )
    if len(rows) > REASONS_TOLD:
        yield findings.note(f"Files are left out for {len(rows) - REASONS_TOLD} more reasons.")


def _be(files: int) -> str:
    return "is" if files == 1 else "are"


def _examine_missing(connection: Connection) -> Iterator[Finding]:
    rows = connection.execute(
        text(f"""
            SELECT source, count(*) AS pages,
                   (array_agg(path ORDER BY path))[1:{PATHS_TOLD}] AS paths
            FROM documents WHERE missed_count > 0 GROUP BY source ORDER BY source
        """)
    ).all()
    for row in rows:
        paths = ", ".join(flatten(path, TEXT_LENGTH) for path in row.paths)
        more = f" and {row.pages - len(row.paths)} more" if row.pages > len(row.paths) else ""
        yield findings.note(
            f"{count(row.pages, 'page')} of source {row.source} {_be(row.pages)} missing there "
            f"and answered from still, until missed again: {paths}{more}."
        )


def _examine_addresses(connection: Connection) -> Iterator[Finding]:
    """Sources whose pages have no address but the file's own."""
    sources = connection.execute(
        text(r"SELECT DISTINCT source FROM documents WHERE url LIKE 'file:%' ORDER BY source")
    )
    if names := ", ".join(sources.scalars()):
        yield findings.note(
            f"Footnotes of {names} link to files on this machine, which nobody else can open: give "
            "base_url in SOURCES, or --base-url to `footnote ingest`."
        )
