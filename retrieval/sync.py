"""A source brought up to date: looked up or checked out, read, and indexed."""

import logging
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from retrieval import (
    audiences,
    dead_letters,
    generations,
    indexing,
    missing,
    restating,
    source_locks,
    source_states,
    stored,
)
from retrieval.batches import Progress
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.errors import Busy, ConfigError, FootnoteError, OtherBuild
from retrieval.indexing import Summary
from retrieval.rerank import Reranker
from retrieval.sources import catalog, checkout, folder, rules
from retrieval.sources.addresses import hide_credentials
from retrieval.sources.catalog import Source
from retrieval.sources.reads import Read, Skipped, Unchanged
from retrieval.stored import Known
from retrieval.tuning import Tuning

SUBMODULE = "a submodule, of which nothing is fetched; name its repository as a source of its own"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Syncer:
    """Where documents go, and what is needed to get them there."""

    database: Database
    embedder: Embedder
    reranker: Reranker
    tuning: Tuning
    checkouts: Path  # the folder of all checkouts


def sync(
    syncer: Syncer,
    source: Source,
    *,
    prune: bool = False,
    progress: Progress = lambda done, total: None,
) -> Summary:
    """Bring the documents of a source in the index up to date, as indexing.ingest does.

    Why it was not done is noted, too. Raises ConfigError when the source cannot be read.
    """
    summary = _bring(syncer, source, _read_all(syncer, source), prune=prune, progress=progress)
    # Told, and not noted for doctor: a theme, say, is not wanted, and nothing is to be done.
    return replace(summary, skipped=(*summary.skipped, *_find_submodules(syncer, source)))


def ingest(
    syncer: Syncer,
    source: Source,
    *,
    prune: bool = False,
    progress: Progress = lambda done, total: None,
) -> Summary:
    """The same for a folder of which nothing is known but its files.

    Raises ConfigError, too, where more people could read a page then: who may, it is not for a
    folder to say.
    """
    reads = _read_for_no_more(syncer, source)
    return _bring(syncer, source, reads, prune=prune, progress=progress)


def _bring(
    syncer: Syncer,
    source: Source,
    reads: Iterable[Read | Skipped | Unchanged],
    *,
    prune: bool,
    progress: Progress,
) -> Summary:
    with noting_failures(syncer.database, source.name):
        return indexing.ingest(
            syncer.database,
            syncer.embedder,
            reads,
            source=source.name,
            tuning=syncer.tuning,
            reranker=syncer.reranker,
            prune=prune,
            progress=progress,
        )


@contextmanager
def noting_failures(database: Database, name: str) -> Iterator[None]:
    """Have it be noted why a source was not brought up to date, for doctor to tell."""
    try:
        yield
    except Busy:  # what is noted is the other's
        raise
    except OtherBuild:  # of which doctor tells anyway, and it is not the source's fault
        with database.transaction() as connection:
            source_states.end(connection, name)
        raise
    except FootnoteError as error:
        _note(database, name, str(error))
        raise
    except Exception as error:
        kind, place = type(error).__name__, traceback.extract_tb(error.__traceback__)[-1]
        log.error("Source %s: %s in %s, line %s", name, kind, place.filename, place.lineno)
        _note(database, name, f"It failed with {kind}.")
        raise


def remove(database: Database, checkouts: Path, name: str) -> int | None:
    """Take a source out of the index with all its documents, and how many those were; None where
    there is none of the name. Its checkout goes, too.

    Raises Busy as indexing.ingest does.
    """
    with source_locks.only_one(database, name):
        with database.unrestricted.transaction() as connection:
            if not source_states.remove(connection, name):
                return None
            dead_letters.keep(connection, name, [])
            count = missing.remove_all(connection, name)
            generations.refresh_all_counts(connection)
        checkout.remove(checkout.find_folder(checkouts, database.tenant_id, name))
        return count


def narrow_renamed(database: Database, sources: Sequence[Source]) -> dict[str, Source]:
    """Have pages of sources that were renamed be for those alone for whom they are by now; what
    each of these is named now, by its former name.

    sources are all that are named.
    """

    def narrow(connection: Connection) -> dict[str, Source]:
        roots = {state.source: state.root for state in source_states.load(connection)}
        renamed = catalog.find_renamed(roots, sources)
        for name, source in renamed.items():
            _narrow(connection, replace(source, name=name))
        return renamed

    return database.unrestricted.insist(narrow)


def name_source(database: Database, root: Path, name: str | None) -> str:
    """The name of a folder's source: the one given, else the folder's own.

    Raises ConfigError when the folder's own name stands for another folder already: their pages
    would overwrite each other. A name that is given may move from one folder to another.
    """
    root = root.resolve()
    source = name or root.name
    with database.transaction() as connection:
        known = source_states.find_root(connection, source)
        if name is None and known not in (None, str(root)):
            raise ConfigError(
                f"Source {source!r} is the folder {known} already. Name this one with --source, "
                f"or, if it has moved, say --source {source}."
            )
        source_states.save_root(connection, source, str(root))
    return source


def _read_all(syncer: Syncer, source: Source) -> Iterator[Read | Skipped | Unchanged]:
    """All that there is of a source. Begun when the first is asked for: under the source's lock."""
    yield from _read(syncer, source, _begin(syncer.database, source))


def _read_for_no_more(syncer: Syncer, source: Source) -> Iterator[Read | Skipped | Unchanged]:
    """The same, as long as no page is for more people than before."""
    known = _begin(syncer.database, source)
    yield from _refuse_wider(source.name, known, _read(syncer, source, known))


def _begin(database: Database, source: Source) -> dict[str, Known]:
    """Note that the source is read from now on; its pages, by path, for whom they are by now."""

    def begin(connection: Connection) -> dict[str, Known]:
        source_states.begin(connection, source.name, catalog.find_root(source))
        return _narrow(connection, source)

    return database.unrestricted.insist(begin)


def _read(
    syncer: Syncer, source: Source, known: Mapping[str, Known]
) -> Iterator[Read | Skipped | Unchanged]:
    docs = _open(syncer, source)
    files = folder.find_files(docs)
    hashes = stored.find_file_hashes(known)
    with syncer.database.transaction() as connection:
        letters = dead_letters.load(connection, source.name)
    yield from folder.read_files(files, folder=docs, source=source, known=hashes, letters=letters)


def _find_submodules(syncer: Syncer, source: Source) -> Iterator[Skipped]:
    if source.git is not None:
        root = checkout.find_folder(syncer.checkouts, syncer.database.tenant_id, source.name)
        for path in checkout.find_submodules(root, source.folder):
            yield Skipped(path=path, reason=SUBMODULE)


def _refuse_wider(
    name: str, known: Mapping[str, Known], reads: Iterable[Read | Skipped | Unchanged]
) -> Iterator[Read | Skipped | Unchanged]:
    for read in reads:
        page = known.get(read.document.path) if isinstance(read, Read) else None
        # Of a page that is for nobody, it was not known for whom it is.
        if page and page.audience and isinstance(read, Read):
            wanted = read.document.audience
            if audiences.intersect(page.audience, wanted) != wanted:
                raise ConfigError(
                    f"{read.document.path} of source {name!r} is for {', '.join(page.audience)}, "
                    f"and would be for {', '.join(wanted)}. Name the source in SOURCES with its "
                    f"audience, and run `footnote sync {name}`; or give the folder another name "
                    "with --source."
                )
        yield read


def _narrow(connection: Connection, source: Source) -> dict[str, Known]:
    """Have the source's rules hold for its stored pages, whether they can be read now or not; the
    pages as they are then."""
    known = stored.load_known(connection, source.name)
    known_rules = rules.build(source)
    wanted = {
        page.document_id: audience
        for path, page in known.items()
        if (audience := audiences.intersect(page.audience, known_rules.find_audience(path)))
        != page.audience
    }
    restating.assign(connection, wanted)
    return {
        path: replace(page, audience=wanted[page.document_id], file_hash=None)
        if page.document_id in wanted
        else page
        for path, page in known.items()
    }


def _open(syncer: Syncer, source: Source) -> Path:
    """The folder of a source's documents, as they are now."""
    if source.git is None:
        assert source.path is not None  # it is one or the other
        return source.path
    database = syncer.database
    root = checkout.find_folder(syncer.checkouts, database.tenant_id, source.name)
    revision = checkout.refresh(source, root)
    with database.transaction() as connection:
        source_states.note_revision(connection, source.name, revision)
    docs = root / source.folder
    if not (docs.is_dir() and docs.resolve().is_relative_to(root.resolve())):
        raise ConfigError(
            f"{hide_credentials(source.git)} has no folder {source.folder!r} on "
            f"{source.branch or 'its default branch'}; name one that it has in `folder`."
        )
    return docs


def _note(database: Database, name: str, error: str) -> None:
    # With the database away nothing can be noted; what is raised says more.
    with suppress(SQLAlchemyError), database.transaction() as connection:
        source_states.fail(connection, name, error)
