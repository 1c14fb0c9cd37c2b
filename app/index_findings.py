"""What `footnote doctor` says of the index: what is searched, by which models, what stands beside.

Whether a process that answers has the model of the active generation is told by its last answers.
"""

from collections.abc import Iterator
from dataclasses import replace

from sqlalchemy import Connection, text

from app import findings, indexes
from app.findings import Finding
from app.indexes import Listed
from retrieval import generations, relevance
from retrieval.embedding import Embedder
from retrieval.errors import IndexMismatch
from retrieval.generations import Generation
from retrieval.models import load_for
from retrieval.rerank import Reranker
from retrieval.tuning import DEFAULT

LOADED_MINUTES = 10  # in which a process has loaded the model of a new generation; chosen


def examine(connection: Connection, embedder: Embedder, reranker: Reranker) -> Iterator[Finding]:
    """The generations, beside the embedding model that is set."""
    active = generations.load(connection, "active")
    if active is None:
        yield findings.error("Nothing is indexed. Run `footnote ingest` on a folder of documents.")
        problem = None
    else:
        problem = _find_problem(active, embedder)
        fitting = generations.find_fitting(connection, embedder, DEFAULT)
        yield _examine_model(active, embedder, problem, fitting)
        yield _examine_relevance(connection, active, embedder, reranker)
    listed = indexes.load(connection)
    is_measured = any(each.state == "active" and each.measured for each in listed)
    for each in listed:
        # What is beside an index that cannot be searched may be all there is to answer from.
        if problem is None or each.state == "active":
            generation = generations.load_by_id(connection, each.generation_id)
            yield from _examine_beside(each, generation, embedder, is_measured=is_measured)
    yield from _examine_answers(connection)


def _find_problem(generation: Generation, embedder: Embedder) -> str | None:
    """Why the model of a generation cannot be loaded; None where it can."""
    if generation.difference(embedder, DEFAULT) is None:
        return None
    try:
        load_for(generation, DEFAULT)
    except IndexMismatch as error:
        return str(error)
    return None


def _examine_model(
    active: Generation, embedder: Embedder, problem: str | None, fitting: Generation | None
) -> Finding:
    difference = active.difference(embedder, DEFAULT)
    if difference is None:
        return findings.ok(f"The index is complete: {active.chunk_count:,} chunks.")
    if fitting and fitting.state in ("ready", "kept"):
        number = fitting.generation_id
        todo = f"`footnote index switch {number}` has generation {number} searched, which is by it."
    else:
        todo = "`footnote ingest` builds it anew, `footnote index list` shows both."
        if problem:
            todo += f" {problem}"
    if problem:
        return findings.error(f"The index does not fit: {difference}. {todo}")
    return findings.note(
        f"EMBEDDING_MODEL is {embedder.name}, and the index that is searched is by "
        f"{active.embedder}: {todo}"
    )


def _examine_relevance(
    connection: Connection, active: Generation, embedder: Embedder, reranker: Reranker
) -> Finding:
    basis = replace(
        relevance.build_basis(reranker, embedder, DEFAULT),
        embedder=active.embedder,
        chunker=active.chunker,
        probe=generations.round_probe(active.probe),
    )
    model = relevance.find(connection, basis)
    if model is None:
        return findings.error(str(relevance.build_refusal(basis)))
    return findings.ok(
        f"Reranker {reranker.name}: relevance fitted on {model.fitted_on} on "
        f"{', '.join(model.cases)}; floor {model.floor:.4f}."
    )


def _examine_beside(
    listed: Listed, generation: Generation, embedder: Embedder, *, is_measured: bool
) -> Iterator[Finding]:
    """What there is to do about a generation; is_measured: the active one is."""
    number = listed.generation_id
    if listed.state == "active" and listed.lacking_count:
        yield findings.note(
            f"The index lacks {listed.lacking_count:,} documents as they are now. Run `footnote "
            "ingest` again."
        )
    elif listed.state == "building":
        total = listed.document_count + listed.lacking_count
        setting = "" if listed.embedder == embedder.name else f"EMBEDDING_MODEL={listed.embedder} "
        yield findings.note(
            f"A new index is half built: {listed.document_count:,} of {total:,} documents, by "
            f"{listed.embedder}. Run `{setting}footnote ingest` again to finish it, or `footnote "
            f"index drop {number}`."
        )
    elif listed.state == "ready" and (problem := _find_problem(generation, embedder)):
        yield findings.note(
            f"Generation {number} is complete, and cannot be searched. {problem} Or run `footnote "
            f"index drop {number}`."
        )
    elif listed.state == "ready":
        yield findings.note(
            f"Generation {number}, by {listed.embedder}, is complete, and not searched. Run "
            f"`footnote calibrate CASES --apply --generation {number}`, measure it with `footnote "
            f"eval CASES --generation {number}`, then run `footnote index switch {number}`."
        )
    elif listed.state == "kept":
        yield findings.note(
            f"Generation {number}, which was searched before, takes {listed.size}. "
            + (
                "The one after it is measured: if that is well, run `footnote index drop "
                if is_measured
                else "Run `footnote eval` to measure the one after it, then `footnote index drop "
            )
            + f"{number}`."
        )


def _examine_answers(connection: Connection) -> Iterator[Finding]:
    """Answers of the last hour from a generation that has been replaced for longer."""
    count = connection.execute(
        text("""
            SELECT count(*) FROM traces
            CROSS JOIN (SELECT activated_at FROM generations WHERE state = 'active') AS active
            WHERE asked_at > now() - interval '1 hour'
            AND asked_at > activated_at + make_interval(mins => :minutes)
            AND settings ->> 'generation_id' IN (
                SELECT CAST(generation_id AS text) FROM generations WHERE state = 'kept')
        """),
        {"minutes": LOADED_MINUTES},
    ).scalar_one()
    if count:
        yield findings.error(
            f"{count:,} questions of the last hour were answered from the index before: whoever "
            "answers them could not load the model of the one that took its place. Its log says "
            "why."
        )
