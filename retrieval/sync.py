"""A source brought up to date: looked up or checked out, read, and indexed."""

import logging
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from retrieval import (
    audiences,
    dead_letters,
    generations,
    indexing,
    restating,
    source_locks,
    source_states,
    stored,
)
from retrieval.batches import Progress
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.errors import Busy, ConfigError, FootnoteError
from retrieval.indexing import Summary
from retrieval.rerank import Reranker
from retrieval.sources import checkout, folder, rules
from retrieval.sources.catalog import Source
from retrieval.sources.reads import Read, Skipped, Unchanged
from retrieval.sources.rules import Rules
from retrieval.tuning import Tuning

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
    return _bring(syncer, source, _read(syncer, source), prune=prune, progress=progress)


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
    reads = _refuse_wider(syncer.database, source.name, _read(syncer, source))
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
    except FootnoteError as error:
        _note(database, name, str(error))
        raise
    except Exception as error:
        kind, place = type(error).__name__, traceback.extract_tb(error.__traceback__)[-1]
        log.error("Source %s: %s in %s, line %s", name, kind, place.filename, place.lineno)
        _note(database, name, f"It failed with {kind}.")
        raise


def remove(database: Database, name: str) -> int | None:
    """Take a source out of the index with all its documents, and how many those were; None where
    there is none of the name.

    Raises Busy as indexing.ingest does.
    """
    with (
        source_locks.only_one(database, name),
        database.unrestricted.transaction() as connection,
    ):
        if not source_states.remove(connection, name):
            return None
        dead_letters.keep(connection, name, [])
        removed = connection.execute(
            text("DELETE FROM documents WHERE source = :source"), {"source": name}
        )
        for generation in generations.load_all(connection):
            generations.refresh_counts(connection, generation)
        return removed.rowcount


def name_source(database: Database, root: Path, name: str | None) -> str:
    """The name of a folder's source: the one given, else the folder's own.

    Raises ConfigError when the folder's own name stands for another folder already: their pages
    would overwrite each other. A name that is given may move from one folder to another.
    """
    root = root.resolve()
    source = name or root.name
    with database.transaction() as connection:
        known = connection.execute(
            text("SELECT root FROM sources WHERE source = :source"), {"source": source}
        ).scalar()
        if name is None and known not in (None, str(root)):
            raise ConfigError(
                f"Source {source!r} is the folder {known} already. Name this one with --source, "
                f"or, if it has moved, say --source {source}."
            )
        connection.execute(
            text("""
                INSERT INTO sources (tenant_id, source, root)
                VALUES (current_setting('footnote.tenant_id'), :source, :root)
                ON CONFLICT (tenant_id, source) DO UPDATE SET root = excluded.root
            """),
            {"source": source, "root": str(root)},
        )
    return source


def _read(syncer: Syncer, source: Source) -> Iterator[Read | Skipped | Unchanged]:
    """All that there is of a source. Begun when the first is asked for: under the source's lock."""
    database = syncer.database.unrestricted
    with database.transaction() as connection:
        source_states.begin(connection, source.name, _find_root(source))
    _narrow(database, source)
    docs = _open(syncer, source)
    files = folder.find_files(docs)
    with database.transaction() as connection:
        hashes = stored.find_file_hashes(stored.load_known(connection, source.name))
        letters = dead_letters.load(connection, source.name)
    yield from folder.read_files(files, folder=docs, source=source, known=hashes, letters=letters)


def _refuse_wider(
    database: Database, name: str, reads: Iterable[Read | Skipped | Unchanged]
) -> Iterator[Read | Skipped | Unchanged]:
    with database.unrestricted.transaction() as connection:
        known = stored.load_known(connection, name)
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


def _narrow(database: Database, source: Source) -> None:
    """Have the source's rules hold for its stored pages, whether they can be read now or not."""
    patterns = tuple((rules.compile_pattern(rule.pattern), rule) for rule in source.pages)
    known_rules = Rules(source=source, patterns=patterns)
    with database.transaction() as connection:
        wanted = {}
        for path, page in stored.load_known(connection, source.name).items():
            allowed = known_rules.find_facts(Path(path), path).audience
            audience = audiences.intersect(page.audience, allowed)
            if audience != page.audience:
                wanted[page.document_id] = audience
        restating.assign(connection, wanted)


def _find_root(source: Source) -> str:
    return checkout.hide_credentials(source.git) if source.git else str(_find_path(source))


def _open(syncer: Syncer, source: Source) -> Path:
    """The folder of a source's documents, as they are now."""
    if source.git is None:
        return _find_path(source)
    database = syncer.database
    root = checkout.find_folder(syncer.checkouts, database.tenant_id, source)
    revision = checkout.refresh(source, root)
    with database.transaction() as connection:
        source_states.note_revision(connection, source.name, revision)
    docs = root / source.folder
    if not docs.resolve().is_relative_to(root.resolve()):
        raise ConfigError(
            f"The folder {source.folder!r} of source {source.name!r} is not in its repository. "
            "Name one that is in `folder`."
        )
    return docs


def _find_path(source: Source) -> Path:
    assert source.path is not None  # it is one or the other
    return source.path


def _note(database: Database, name: str, error: str) -> None:
    # With the database away nothing can be noted; what is raised says more.
    with suppress(SQLAlchemyError), database.transaction() as connection:
        source_states.fail(connection, name, error)
