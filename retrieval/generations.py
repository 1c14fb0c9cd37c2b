"""Generations: what one chunker and one embedder made of a tenant's documents."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from sqlalchemy import Connection, text

from retrieval import chunking, identifiers, lexical
from retrieval.embedding import Embedder, Vectors
from retrieval.errors import IndexMismatch
from retrieval.tuning import Tuning

# Another build or processor rounds otherwise; another model is far below.
SAME_MODEL = 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One row of generations."""

    generation_id: int
    state: Literal["building", "active"]
    chunker: str
    embedder: str
    dimension: int
    probe: Vectors  # (dimension,)
    projection: Vectors  # (token_dimension, dimension)
    chunk_count: int

    def difference(self, embedder: Embedder, tuning: Tuning) -> str | None:
        """In what the code of today would index otherwise, in words; None when in nothing."""
        if self.chunker != chunker_name(tuning):
            return f"chunker {self.chunker} is now {chunker_name(tuning)}"
        if (self.embedder, self.dimension) != (embedder.name, embedder.dimension):
            return f"embedding model {self.embedder} is now {embedder.name}"
        if float(self.probe @ embedder.probe) < SAME_MODEL:
            return f"embedding model {self.embedder} changed under the same name"
        return None


def chunker_name(tuning: Tuning) -> str:
    """The chunker, with the words and identifiers it stores, and the sizes that decide on them."""
    sizes = f"{tuning.section_tokens}/{tuning.chunk_tokens}/{tuning.token_dimension}"
    return f"{chunking.VERSION}.{lexical.VERSION}.{identifiers.VERSION}/{sizes}"


def load_active(connection: Connection, embedder: Embedder, tuning: Tuning) -> Generation | None:
    """The generation that is searched; None when nothing was ever indexed.

    Raises IndexMismatch when this embedder or chunker did not build it.
    """
    generation = load(connection, "active")
    if generation and (difference := generation.difference(embedder, tuning)):
        raise IndexMismatch(
            f"The index does not fit: {difference}. Run `footnote ingest` to build it anew, "
            "or set EMBEDDING_MODEL back."
        )
    return generation


def load(connection: Connection, state: str) -> Generation | None:
    """The tenant's generation in a state, of which there is at most one."""
    row = connection.execute(
        text("""
            SELECT generation_id, state, chunker, embedder, dimension, probe, projection,
                   chunk_count
            FROM generations WHERE state = :state
        """),
        {"state": state},
    ).one_or_none()
    if row is None:
        return None
    fields = dict(row._mapping)
    fields["probe"] = np.asarray(row.probe, dtype=np.float32)
    fields["projection"] = np.frombuffer(row.projection, dtype=np.float32).reshape(
        -1, row.dimension
    )
    return Generation(**fields)


def create(
    connection: Connection, embedder: Embedder, projection: Vectors, tuning: Tuning
) -> Generation:
    """A new generation in the state building; another that was being built is dropped.

    One that fits comes back instead when somebody else has made it meanwhile: two sources may be
    indexed for the first time at once, and there is one generation for both.
    """
    connection.execute(
        text("SELECT pg_advisory_xact_lock(hashtext(:key || current_setting(:tenant_id)))"),
        {"key": "footnote generation ", "tenant_id": "footnote.tenant_id"},
    )
    for state in ("active", "building"):
        made = load(connection, state)
        if made and not made.difference(embedder, tuning):
            return made
    drop(connection, "building")
    connection.execute(
        text("""
            INSERT INTO generations (tenant_id, state, chunker, embedder, dimension, probe,
                                     projection, token_dimension)
            VALUES (current_setting('footnote.tenant_id'), 'building', :chunker, :embedder,
                    :dimension, :probe, :projection, :token_dimension)
        """),
        {
            "chunker": chunker_name(tuning),
            "embedder": embedder.name,
            "dimension": embedder.dimension,
            "probe": embedder.probe.tolist(),
            "projection": projection.tobytes(),
            "token_dimension": len(projection),
        },
    )
    generation = load(connection, "building")
    assert generation is not None
    return generation


def activate(connection: Connection, generation: Generation) -> None:
    """Let the generation be searched from now on; the one before is dropped.

    Nothing happens when it is active already: two ingests may have filled it at once.
    """
    generation_id = {"generation_id": generation.generation_id}
    connection.execute(
        text("DELETE FROM generations WHERE state = 'active' AND generation_id <> :generation_id"),
        generation_id,
    )
    connection.execute(
        text("UPDATE generations SET state = 'active' WHERE generation_id = :generation_id"),
        generation_id,
    )


def drop(connection: Connection, state: str) -> None:
    """Delete the generation in a state with all that belongs to it."""
    connection.execute(text("DELETE FROM generations WHERE state = :state"), {"state": state})


def refresh_counts(connection: Connection, generation: Generation) -> None:
    """Count anew what BM25, stemming and the choice between exact scan and index need."""
    connection.execute(
        text("""
            UPDATE generations SET
                (section_count, mean_word_count) = (
                    SELECT count(*), coalesce(greatest(avg(word_count), 1), 1)
                    FROM sections WHERE generation_id = :generation_id),
                chunk_count = (SELECT count(*) FROM chunks WHERE generation_id = :generation_id),
                languages = ARRAY(
                    SELECT language FROM sections WHERE generation_id = :generation_id
                    GROUP BY language ORDER BY count(*) DESC, language)
            WHERE generation_id = :generation_id
        """),
        {"generation_id": generation.generation_id},
    )
