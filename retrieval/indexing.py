"""Documents to rows of a generation: only what changed, one transaction a document.

Another chunker or embedder builds a new generation beside the active one, from the documents as
they are stored, and takes its place when complete: search never mixes two and never has none. The
active one is kept up to date meanwhile.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, text

from retrieval import (
    batches,
    copies,
    dead_letters,
    generations,
    missing,
    models,
    planning,
    relevance,
    restating,
    rows,
    source_states,
    token_vectors,
)
from retrieval.batches import Progress, Target
from retrieval.db import Database
from retrieval.embedding import Embedder, Vectors
from retrieval.errors import Busy, ConfigError, IndexMismatch
from retrieval.generations import Generation, State
from retrieval.planning import Page, Plan
from retrieval.records import Document
from retrieval.relevance import Basis
from retrieval.rerank import LateInteraction, Reranker
from retrieval.sources.reads import Read, Skipped, Unchanged
from retrieval.tuning import Tuning

# Of as many documents and chunks the projection of token vectors is fitted, spread over the source.
SAMPLE_DOCUMENTS = 60
SAMPLE_CHUNKS = 96  # about 10,000 tokens for 128 directions


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What an ingest did."""

    new: int
    changed: int
    unchanged: int
    rebuilt: int  # unchanged, but indexed again for another chunker or embedder
    moved: tuple[tuple[str, str], ...]  # of those changed: the path before, and now
    removed: tuple[str, ...]
    gone: tuple[str, ...]  # no longer in the source and still in the index
    doubt: str | None  # why none of those gone was counted as such, and what to do
    skipped: tuple[Skipped, ...]  # files that became no document, or none that can be indexed
    notes: tuple[tuple[str, str], ...]  # path, what was cleaned
    generation_id: int  # of what was written to
    state: State  # of it, as it is now
    behind: str | None  # why the generation that is searched lacks some of it


def ingest(
    database: Database,
    embedder: Embedder,
    reads: Iterable[Read | Skipped | Unchanged],
    *,
    source: str,
    tuning: Tuning,
    reranker: Reranker | None = None,
    prune: bool = False,
    progress: Progress = lambda done, total: None,
) -> Summary:
    """Bring one source's documents in the index up to date; reads is all that it has.

    Safe to kill at any point and to run again: each document is in the index as it was or as
    it is. Who may read what is settled first, before anything is embedded. A document that the
    source no longer has is removed when it is missed again later, or at once with prune; a file
    that was skipped is still there, and a document that cannot be indexed stays as it was. A new
    generation takes over when it is complete if a relevance model was fitted for it and the
    reranker, which by default is late interaction. Raises Busy when another ingest of the source
    is running, and ConfigError when prune would remove every document.
    """
    database = database.unrestricted
    reranker = reranker or LateInteraction()
    with only_one(database, source):
        plan = planning.make(database, source, reads)
        if prune and plan.gone and not plan.left_count:
            raise ConfigError(
                f"None of the {plan.known_count} documents of source {source!r} is there any more. "
                "Check the folder; nothing was removed."
            )
        _restate(database, source, plan)
        generation = _open_generation(database, embedder, plan.pending, tuning)
        target = Target(database=database, embedder=embedder, generation=generation, tuning=tuning)
        failed = batches.index(target, plan.pending, rows.write, progress)
        with database.transaction() as connection:
            removed = _settle(connection, source, plan, failed, prune=prune)
        copies.refresh(database)
        behind = _keep_up(database, generation, tuning)
        basis = relevance.build_basis(reranker, embedder, tuning)
        rebuilt = fill(
            database,
            embedder,
            generation,
            tuning,
            finish=lambda connection: _conclude(connection, generation, basis),
            progress=progress,
        )
    failures = {each.path for each in failed}
    lost = [page.document_id is None for page in plan.pending if page.document.path in failures]
    return Summary(
        new=plan.new_count - sum(lost),
        changed=plan.changed_count - (len(lost) - sum(lost)),
        unchanged=plan.unchanged_count,
        rebuilt=rebuilt,
        moved=plan.moved,
        removed=tuple(removed),
        gone=tuple(path for path in plan.gone if path not in removed),
        doubt=_build_doubt(source, plan) if plan.is_doubtful and not prune else None,
        skipped=(*plan.skipped, *failed),
        notes=plan.notes,
        generation_id=generation.generation_id,
        state=_load_state(database, generation),
        behind=behind,
    )


def _restate(database: Database, source: str, plan: Plan) -> None:
    """Save all that changed but what is indexed; who may read what before all else."""
    with database.transaction() as connection:
        restating.assign(connection, plan.audiences)
    with database.transaction() as connection:
        restating.save(connection, plan.restated)
        dead_letters.save(connection, source, plan.skipped)


def _settle(
    connection: Connection, source: str, plan: Plan, failed: Iterable[Skipped], *, prune: bool
) -> list[str]:
    """Note that the source was read, and what of it is gone; the paths of what was removed."""
    dead_letters.keep(connection, source, [each.path for each in (*plan.skipped, *failed)])
    missing.reset(connection, source, plan.gone)
    if plan.is_doubtful and not prune:
        source_states.fail(connection, source, _build_doubt(source, plan))
        return []
    source_states.complete(connection, source)
    if prune:
        return missing.remove(connection, source, plan.gone)
    return missing.count(connection, source, plan.gone)


def _build_doubt(source: str, plan: Plan) -> str:
    """What to say, and to do, where so much is gone at once that nothing is counted as gone."""
    found = (
        f"Only {plan.left_count} of the {plan.known_count} documents of source {source!r} are "
        "there; no other counts as gone. Check that nothing of it is away."
    )
    confirm = f" If all is there, `footnote sync {source} --prune` removes the others."
    return found + confirm if plan.left_count else found


@contextmanager
def only_one(database: Database, source: str) -> Iterator[None]:
    """Hold a lock of the server's on the source; it ends with the connection, killed or not."""
    key = {"key": f"footnote ingest {database.tenant_id} {source}"}
    with database.engine.connect() as connection:
        if not connection.execute(
            text("SELECT pg_try_advisory_lock(hashtext(:key))"), key
        ).scalar():
            raise Busy(f"Another ingest of source {source!r} is running; let it finish.")
        connection.commit()
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(hashtext(:key))"), key)


def fill(
    database: Database,
    embedder: Embedder,
    generation: Generation,
    tuning: Tuning,
    *,
    finish: Callable[[Connection], None] = lambda connection: None,
    progress: Progress = lambda done, total: None,
) -> int:
    """Index in a generation all stored documents that it lacks; how many they were.

    Safe to kill and to run again. finish is called in a transaction before which it lacks none,
    whoever else changes documents meanwhile. Raises ConfigError when the generation is dropped.
    """
    database = database.unrestricted
    target = Target(database=database, embedder=embedder, generation=generation, tuning=tuning)
    tried: set[tuple[int | None, str]] = set()  # a document without text is lacking for ever
    while True:
        with database.transaction() as connection:
            generations.lock(connection)
            pending = [
                page
                for page in _load_pages(connection, generation)
                if (page.document_id, page.document.content_hash) not in tried
            ]
            if not pending:
                generations.refresh_counts(connection, generation)
                finish(connection)
                return len(tried)
        batches.index(target, pending, rows.write_stored, progress)
        tried |= {(page.document_id, page.document.content_hash) for page in pending}


def _keep_up(database: Database, generation: Generation, tuning: Tuning) -> str | None:
    """Bring the active generation up to date, where another one is written to; why it cannot be."""
    with database.transaction() as connection:
        active = generations.load(connection, "active")
        if active is None or active.generation_id == generation.generation_id:
            return None
        if not generations.count_lacking(connection, active):
            generations.lock(connection)
            generations.refresh_counts(connection, active)  # pages may have gone
            return None
    try:
        fill(database, models.load_for(active, tuning), active, tuning)
    except IndexMismatch as error:
        return str(error)
    return None


def _conclude(connection: Connection, generation: Generation, basis: Basis) -> None:
    """Have a generation that was built be searched, if a relevance model was fitted for it or
    nothing is searched yet; else it is ready. One that was searched before stays as it is."""
    state = generations.load_by_id(connection, generation.generation_id).state
    if state not in ("building", "ready"):
        return
    if generations.load(connection, "active") is None or relevance.find(connection, basis):
        generations.activate(connection, generation)
    else:
        generations.set_ready(connection, generation)


def _load_state(database: Database, generation: Generation) -> State:
    with database.transaction() as connection:
        return generations.load_by_id(connection, generation.generation_id).state


def _open_generation(
    database: Database,
    embedder: Embedder,
    changed: Sequence[Page],
    tuning: Tuning,
) -> Generation:
    """The generation to write to; where the code of today has none, one to be built."""
    with database.transaction() as connection:
        fitting = generations.find_fitting(connection, embedder, tuning)
        stored = [] if fitting else _load_pages(connection, None)
    if fitting:
        return fitting
    document_ids = {page.document_id for page in changed}
    rest = [page for page in stored if page.document_id not in document_ids]
    projection = _fit_projection([*changed, *rest], embedder, tuning)
    with database.transaction() as connection:
        return generations.create(connection, embedder, projection, tuning)


def _load_pages(connection: Connection, without: Generation | None) -> list[Page]:
    """The stored pages; given a generation, only those it has not as stored.

    The active one has not when another was being built, and given up, while pages changed.
    """
    stored = connection.execute(
        text(f"""
            SELECT source, document_id, path, title, url, text, owner, updated_at,
                   stated_on AS verified_at, language, array_remove(audience, '*') AS audience,
                   freshness_days, is_superseded, superseded_by, anchors, secret_kinds,
                   content_hash
            FROM documents JOIN audiences USING (audience_id)
            WHERE {generations.LACKING} ORDER BY source, path
        """),
        {"generation_id": without.generation_id if without else None},
    )
    fields = [
        {
            **row._mapping,
            "audience": tuple(row.audience),
            "secret_kinds": tuple(row.secret_kinds),
        }
        for row in stored
    ]
    return [
        Page(
            source=row.pop("source"),
            document_id=row.pop("document_id"),
            document=Document(**row),
        )
        for row in fields
    ]


def _fit_projection(pages: Sequence[Page], embedder: Embedder, tuning: Tuning) -> Vectors:
    if not pages:
        raise ConfigError("There is no document to index. Give a folder that holds documents.")
    texts: list[str] = []
    for page in pages[:: -(-len(pages) // SAMPLE_DOCUMENTS)]:
        with suppress(Exception):  # it is told of when it is to be indexed
            texts += batches.split(page, embedder, tuning).texts()
    if not texts:
        raise ConfigError("Nothing of these documents can be indexed.")
    embeddings = embedder.embed_documents(texts[:: -(-len(texts) // SAMPLE_CHUNKS)])
    vectors = np.concatenate([embedding.token_vectors for embedding in embeddings])
    return token_vectors.fit_projection(vectors, tuning.token_dimension)
