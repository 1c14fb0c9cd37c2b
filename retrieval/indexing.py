"""Documents to rows of a generation: only what changed, one transaction a document.

Another chunker or embedder builds a new generation beside the active one, from the documents as
they are stored, and takes its place when complete: search never mixes two and never has none. The
active one is kept up to date meanwhile.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

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
    source_locks,
    source_states,
    token_vectors,
)
from retrieval.batches import Failure, Progress, Target
from retrieval.db import Database
from retrieval.embedding import Embedder, Embedding, Vectors
from retrieval.errors import ConfigError, IndexMismatch
from retrieval.generations import Generation, State
from retrieval.planning import Pending, Plan
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
    took_over: bool  # it is searched since this run, in place of another
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
    basis = relevance.build_basis(reranker or LateInteraction(), embedder, tuning)
    with source_locks.only_one(database, source) as check:

        def go_on(done: int, total: int) -> None:
            check()
            progress(done, total)

        plan = planning.make(database, source, reads)
        doubt = _find_doubt(source, plan, prune=prune)
        _restate(database, source, plan)
        target = _open_target(database, embedder, tuning, plan.pending)
        failed = batches.index(target, plan.pending, rows.write, go_on)
        check()
        removed = database.insist(
            partial(_settle, source=source, plan=plan, doubt=doubt, prune=prune)
        )
        copies.refresh(database)
        behind, left = _keep_up(target)
        filled = fill(target, finish=partial(_conclude, target.generation, basis), progress=go_on)
        skipped = _gather(source, plan, (*failed, *left, *filled.failed))
        with database.transaction() as connection:
            dead_letters.keep(connection, source, skipped)
            state = generations.load_by_id(connection, target.generation.generation_id).state
            others = [each.state for each in generations.load_all(connection)]
    lost = [each.page.document_id is None for each in failed]
    return Summary(
        new=plan.new_count - sum(lost),
        changed=plan.changed_count - (len(lost) - sum(lost)),
        unchanged=plan.unchanged_count,
        rebuilt=filled.count,
        moved=plan.moved,
        removed=tuple(removed),
        gone=tuple(path for path in plan.gone if path not in removed),
        doubt=doubt,
        skipped=tuple(skipped.values()),
        notes=plan.notes,
        generation_id=target.generation.generation_id,
        state=state,
        took_over=state == "active" != target.generation.state and "kept" in others,
        behind=behind,
    )


def _find_doubt(source: str, plan: Plan, *, prune: bool) -> str | None:
    """What to say, and to do, where so much is gone at once that nothing is to count as gone.

    Raises ConfigError when all of it would be pruned.
    """
    if prune and plan.gone and not plan.may_be_pruned:
        raise ConfigError(
            f"None of the {plan.known_count} documents of source {source!r} is there any more. "
            "Check the folder; nothing was removed. To give the source up, take it out of "
            f"SOURCES, and run `footnote sync {source} --prune`."
        )
    if prune or not plan.is_doubtful:
        return None
    found = (
        f"Only {plan.left_count} of the {plan.known_count} documents of source {source!r} are "
        "there; no other counts as gone. Check that nothing of it is away."
    )
    confirm = " If nothing is, sync or ingest it with --prune, which removes what is gone."
    return found + confirm if plan.may_be_pruned else found


def _restate(database: Database, source: str, plan: Plan) -> None:
    """Save all that changed but what is indexed; who may read what before all else."""
    database.insist(lambda connection: restating.assign(connection, plan.audiences))
    with database.transaction() as connection:
        restating.save(connection, plan.restated)
        dead_letters.save(connection, source, plan.skipped)


def _settle(
    connection: Connection, source: str, plan: Plan, doubt: str | None, *, prune: bool
) -> list[str]:
    """Note that the source was read, and what of it is gone; the paths of what was removed."""
    missing.reset(connection, source, plan.gone)
    if doubt:
        source_states.fail(connection, source, doubt)
        return []
    source_states.complete(connection, source)
    if prune:
        return missing.remove(connection, source, plan.gone)
    return missing.count(connection, source, plan.gone)


def _gather(source: str, plan: Plan, failed: Iterable[Failure]) -> dict[str, Skipped]:
    """Why each page of the source that has a reason is not in the index, by its path."""
    letters = [each.letter for each in failed if each.page.source == source]
    return {each.path: each for each in (*plan.skipped, *letters)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What a generation got."""

    count: int  # documents that it lacked
    failed: tuple[Failure, ...]  # those that it lacks still


def fill(
    target: Target,
    *,
    finish: Callable[[Connection], None] = lambda connection: None,
    progress: Progress = lambda done, total: None,
) -> Filled:
    """Index in the target's generation all stored documents that it lacks.

    Safe to kill and to run again. finish is called in a transaction before which it lacks none but
    those that failed, whoever else changes documents meanwhile. Raises ConfigError when the
    generation is dropped.
    """
    generation = target.generation
    tried: set[tuple[int | None, str]] = set()  # a document without text is lacking for ever
    failed: list[Failure] = []
    while True:
        with target.database.transaction() as connection:
            generations.lock(connection)
            pending = [
                page
                for page in _load_pages(connection, generation)
                if (page.document_id, page.document.content_hash) not in tried
            ]
            if not pending:
                generations.refresh_counts(connection, generation)
                finish(connection)
                return Filled(count=len(tried) - len(failed), failed=tuple(failed))
        failed += batches.index(target, pending, rows.write_stored, progress)
        tried |= {(page.document_id, page.document.content_hash) for page in pending}


def _keep_up(target: Target) -> tuple[str | None, tuple[Failure, ...]]:
    """Bring the active generation up to date, where another one is written to; why it cannot be,
    or which pages cannot."""
    with target.database.transaction() as connection:
        active = generations.load(connection, "active")
        if active is None or active.generation_id == target.generation.generation_id:
            return None, ()
        if not generations.count_lacking(connection, active):
            generations.lock(connection)
            generations.refresh_counts(connection, active)  # pages may have gone
            return None, ()
    try:
        embedder = models.load_for(active, target.tuning)
        return None, fill(replace(target, embedder=embedder, generation=active)).failed
    except IndexMismatch as error:
        return str(error), ()


def _conclude(generation: Generation, basis: Basis, connection: Connection) -> None:
    """Have a generation that was built be searched, if a relevance model was fitted for it or
    nothing is searched yet; else it is ready, and a person measures and switches. One that was
    complete before stays as it is, and so does one that lacks what is found now."""
    state = generations.load_by_id(connection, generation.generation_id).state
    if state != "building" or generations.count_lost(connection, generation):
        return
    if generations.load(connection, "active") is None or relevance.find(connection, basis):
        generations.activate(connection, generation)
    else:
        generations.set_ready(connection, generation)


def _open_target(
    database: Database, embedder: Embedder, tuning: Tuning, changed: Sequence[Pending]
) -> Target:
    """Where to write to; where the code of today has no generation, one to be built."""
    with database.transaction() as connection:
        generation = generations.find_fitting(connection, embedder, tuning)
        stored = [] if generation else _load_pages(connection, None)
    if generation is None:
        document_ids = {page.document_id for page in changed}
        rest = [page for page in stored if page.document_id not in document_ids]
        projection = _fit_projection([*changed, *rest], embedder, tuning)
        with database.transaction() as connection:
            generation = generations.create(connection, embedder, projection, tuning)
    return Target(database=database, embedder=embedder, generation=generation, tuning=tuning)


def _load_pages(connection: Connection, without: Generation | None) -> list[Pending]:
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
        Pending(
            source=row.pop("source"),
            document_id=row.pop("document_id"),
            document=Document(**row),
        )
        for row in fields
    ]


def _fit_projection(pages: Sequence[Pending], embedder: Embedder, tuning: Tuning) -> Vectors:
    if not pages:
        raise ConfigError("There is no document to index. Give a folder that holds documents.")
    texts: list[str] = []
    for page in pages[:: -(-len(pages) // SAMPLE_DOCUMENTS)]:
        with suppress(Exception):  # it is told of when it is to be indexed
            texts += batches.split(page, embedder, tuning).texts()
    step = -(-len(texts) // SAMPLE_CHUNKS)
    embeddings = _embed_sample(embedder, texts[::step]) if texts else []
    if not embeddings:
        raise ConfigError("Nothing of these documents can be indexed.")
    vectors = np.concatenate([embedding.token_vectors for embedding in embeddings])
    return token_vectors.fit_projection(vectors, tuning.token_dimension)


def _embed_sample(embedder: Embedder, texts: Sequence[str]) -> list[Embedding]:
    try:
        return embedder.embed_documents(texts)
    except Exception:  # one of them is at fault, and is told of when it is to be indexed
        embeddings: list[Embedding] = []
        for each in texts:
            with suppress(Exception):
                embeddings += embedder.embed_documents([each])
        return embeddings
