"""The sources of SOURCES: which they are, and bringing them up to date by hand or by schedule."""

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from app.config import Settings
from app.loop.schedule import Schedule, Stopped
from retrieval.db import Database
from retrieval.errors import Busy, ConfigError, FootnoteError
from retrieval.sources import catalog
from retrieval.sources.catalog import Source

if TYPE_CHECKING:  # takes seconds to import
    from retrieval.embedding import Embedder
    from retrieval.rerank import Reranker
    from retrieval.retrieve import Retriever
    from retrieval.sync import Syncer

CHECKOUTS = "checkouts"  # below FOOTNOTE_HOME
NICENESS = 5  # of what is indexed beside people who wait for answers

log = logging.getLogger(__name__)


def find_sources(settings: Settings, names: Sequence[str] = ()) -> tuple[Source, ...]:
    """The sources of these names, or all.

    Raises ConfigError when SOURCES is not set or cannot be read, and for a name that is not there.
    """
    if settings.sources is None:
        raise ConfigError(
            "SOURCES is not set. Set it to the path of a sources.yml; the README says how that "
            "looks. A folder by itself is indexed by `footnote ingest`."
        )
    sources = catalog.load_sources(settings.sources)
    known = [source.name for source in sources]
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{settings.sources} names no source {name!r}. It names: {', '.join(known)}."
            )
    return tuple(source for source in sources if not names or source.name in names)


def refuse_named(settings: Settings, source: Source) -> None:
    """Raise ConfigError for the name or a page of a source of SOURCES, which says who may read it.

    So it does while SOURCES cannot be read.
    """
    for named in find_sources(settings) if settings.sources else ():
        if named.name == source.name:
            raise ConfigError(
                f"{settings.sources} names a source {named.name!r}. Run `footnote sync "
                f"{named.name}`, or give the folder another name with --source."
            )
        if catalog.overlap(named, source):
            raise ConfigError(
                f"{settings.sources} has pages of this folder in its source {named.name!r}, and "
                f"says who may read them. Run `footnote sync {named.name}`."
            )


def build_renamed(name: str, source: Source) -> str:
    """What to say, and to do, where a source has another name now."""
    return (
        f"Source {name} is named {source.name} now, and its pages are there under both names: "
        f"`footnote sync {name} --prune` removes the old ones, which each sync opens to no more "
        "people than the new ones."
    )


def build_syncer(settings: Settings, database: Database) -> "Syncer":
    """What brings sources up to date, with the models that are set, loaded."""
    from app import parts

    embedder, reranker = parts.load_embedder(settings), parts.load_reranker(settings)
    return _assemble_syncer(settings, database, embedder, reranker)


def _assemble_syncer(
    settings: Settings, database: Database, embedder: "Embedder", reranker: "Reranker"
) -> "Syncer":
    from retrieval.sync import Syncer
    from retrieval.tuning import DEFAULT

    return Syncer(
        database=database,
        embedder=embedder,
        reranker=reranker,
        tuning=DEFAULT,
        checkouts=settings.footnote_home / CHECKOUTS,
    )


def build_schedules(
    settings: Settings, database: Database, retriever: "Retriever", stop: threading.Event
) -> Iterable[Schedule]:
    """When each source that has a schedule is brought up to date; none where SOURCES is not set.

    Which they are is read each time that is asked. Raises ConfigError as find_sources does, but not
    later: while the file cannot be read, the schedules stay as they were.
    """
    if settings.sources is None:
        return []
    return _Schedules(settings, database, retriever, stop)


class _Schedules:
    """The schedules of the sources that SOURCES names now."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        retriever: "Retriever",
        stop: threading.Event,
    ) -> None:
        self._settings = settings
        self._database = database
        self._retriever = retriever
        self._stop = stop
        self._sources = find_sources(settings)
        self._made: dict[tuple[str, str], Schedule] = {}

    def __iter__(self) -> Iterator[Schedule]:
        with suppress(ConfigError):  # doctor tells of it, and so does each sync that is due
            self._sources = find_sources(self._settings)
        times = [(each.name, each.schedule) for each in self._sources if each.schedule]
        # One that stays is the same: it knows since when it waits for its first time.
        self._made = {time: self._made.get(time) or self._build(*time) for time in times}
        return iter(self._made.values())

    def _build(self, name: str, cron: str) -> Schedule:
        work = partial(_sync_due, self._settings, self._database, self._retriever, name)
        return Schedule(self._database, cron, work, self._stop, job=f"sync {name}")


def _sync_due(
    settings: Settings,
    database: Database,
    retriever: "Retriever",
    name: str,
    *,
    progress: Callable[[int, int], None],
) -> None:
    """Bring a source up to date whose time has come, after all that people wait for.

    As SOURCES has it now: who may read it may have changed since this process began.
    """
    from retrieval import sync

    _give_way()
    embedder = _find_embedder(settings, retriever)
    syncer = _assemble_syncer(settings, database, embedder, retriever.reranker)
    try:
        with sync.noting_failures(database, name):
            (source,) = find_sources(settings, [name])
            sync.narrow_renamed(database, find_sources(settings))
        summary = sync.sync(syncer, source, progress=progress)
    except Stopped:
        raise
    except Busy:
        log.info("Source %s is being synced already", name)
    except FootnoteError:
        log.error("Source %s was not synced; footnote doctor says why", name)
    else:
        log.info(
            "Source %s was synced: %d new, %d changed, %d removed, %d skipped",
            name,
            summary.new,
            summary.changed,
            len(summary.removed),
            len(summary.skipped),
        )


def _find_embedder(settings: Settings, retriever: "Retriever") -> "Embedder":
    """The model that is set or, if the index was built anew by another since this process began,
    that one: nobody wants the old one back."""
    from app import parts

    searched = retriever.settled().embedder
    if searched is not retriever.embedder or searched.name == settings.embedding_model:
        return searched
    return parts.load_embedder(settings)


def _give_way() -> None:
    """Have this thread, and those that PyTorch begins for it, wait for all others.

    Elsewhere than on Linux this would be the whole process, and so nothing.
    """
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
