"""Generations: what one chunker and one embedder made of a tenant's documents."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sqlalchemy import Connection, Row, text

from retrieval import chunking, db, identifiers, lexical
from retrieval.embedding import Embedder, Vectors
from retrieval.errors import ConfigError, OtherBuild
from retrieval.tuning import Tuning

# Another build or processor rounds otherwise; another model is far below.
SAME_MODEL = 0.999

# Of a document, that a generation has it not as it is stored.
LACKING = """
    NOT EXISTS (
        SELECT FROM sections
        WHERE sections.document_id = documents.document_id
        AND sections.generation_id = :generation_id
        AND sections.content_hash = documents.content_hash)
"""

# There is at most one that is being built and one that is active. Those that are ready are
# complete and were never searched; those that are kept were, until another took their place.
State = Literal["building", "ready", "active", "kept"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One row of generations."""

    generation_id: int
    state: State
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


def round_probe(probe: Vectors) -> tuple[float, ...]:
    """A probe as it is kept in JSON, far more exact than SAME_MODEL needs."""
    return tuple(round(float(each), 4) for each in probe)


def compare_probes(one: Sequence[float], other: Sequence[float]) -> float:
    """The similarity of two probes; 0 where they have not one dimension."""
    return float(np.dot(one, other)) if len(one) == len(other) else 0.0


def chunker_name(tuning: Tuning) -> str:
    """The chunker, with the words and identifiers it stores, and the sizes that decide on them."""
    sizes = f"{tuning.section_tokens}/{tuning.chunk_tokens}/{tuning.token_dimension}"
    return f"{chunking.VERSION}.{lexical.VERSION}.{identifiers.VERSION}/{sizes}"


def load(connection: Connection, state: Literal["building", "active"]) -> Generation | None:
    """The tenant's generation in a state, of which there is at most one."""
    return next(iter(_load(connection, "state = :state", {"state": state})), None)


def load_by_id(connection: Connection, generation_id: int) -> Generation:
    """One generation; raises ConfigError when there is none with this id."""
    found = _load(connection, "generation_id = :generation_id", {"generation_id": generation_id})
    if not found:
        raise ConfigError(
            f"There is no generation {generation_id}. `footnote index list` shows them all."
        )
    return found[0]


def find_searched(connection: Connection) -> Iterator[Generation]:
    """Those that questions may be answered from: the active one, then those before it, latest
    first; none when nothing was ever indexed."""
    yield from _load(connection, "state = 'active'", {})
    yield from _load(connection, "state = 'kept'", {})


def load_all(connection: Connection) -> list[Generation]:
    """Every generation, the active one first."""
    return _load(connection, "true", {})


def _load(connection: Connection, which: str, values: Mapping[str, Any]) -> list[Generation]:
    rows = connection.execute(
        text(f"""
            SELECT generation_id, state, chunker, embedder, dimension, probe, projection,
                   chunk_count
            FROM generations WHERE {which}
            ORDER BY state <> 'active', activated_at DESC NULLS LAST, generation_id DESC
        """),
        values,
    )
    return list(map(_read, rows))


def _read(row: Row[Any]) -> Generation:
    fields = dict(row._mapping)
    fields["probe"] = np.asarray(row.probe, dtype=np.float32)
    fields["projection"] = np.frombuffer(row.projection, dtype=np.float32).reshape(
        -1, row.dimension
    )
    return Generation(**fields)


def find_fitting(connection: Connection, embedder: Embedder, tuning: Tuning) -> Generation | None:
    """The generation that the code of today would build; the active one before any other."""
    fitting = (each for each in load_all(connection) if not each.difference(embedder, tuning))
    return next(fitting, None)


def create(
    connection: Connection, embedder: Embedder, projection: Vectors, tuning: Tuning
) -> Generation:
    """A new generation in the state building.

    One that fits comes back instead when somebody else has made it meanwhile: two sources may be
    indexed for the first time at once, and there is one generation for both. One that was being
    built and that this Footnote cannot finish is dropped; raises OtherBuild where it can, by its
    model.
    """
    lock(connection)
    if made := find_fitting(connection, embedder, tuning):
        return made
    if other := load(connection, "building"):
        if other.embedder != embedder.name and other.chunker == chunker_name(tuning):
            raise OtherBuild(
                f"Generation {other.generation_id}, by {other.embedder}, is half built. Run the "
                f"same with EMBEDDING_MODEL={other.embedder} to finish it, or `footnote index drop "
                f"{other.generation_id}`."
            )
        drop(connection, other)
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


def lock(connection: Connection) -> None:
    """Have whoever else creates, completes or switches a generation of this tenant wait for the
    transaction's end."""
    db.lock(connection, "generation")


def hold(connection: Connection, generation: Generation) -> None:
    """Have it stay until the transaction's end; raises ConfigError when somebody dropped it."""
    found = connection.execute(
        text("""
            SELECT generation_id FROM generations WHERE generation_id = :generation_id
            FOR KEY SHARE
        """),
        {"generation_id": generation.generation_id},
    ).scalar()
    if found is None:
        raise ConfigError(
            f"Generation {generation.generation_id} was dropped meanwhile. Run the same command "
            "again, if it should be built."
        )


def activate(connection: Connection, generation: Generation) -> None:
    """Let the generation be searched from now on; the one before is kept beside it.

    Nothing happens when it is active already: two ingests may have filled it at once. Raises
    ConfigError as hold does.
    """
    lock(connection)
    hold(connection, generation)
    generation_id = {"generation_id": generation.generation_id}
    connection.execute(
        text("""
            UPDATE generations SET state = 'kept'
            WHERE state = 'active' AND generation_id <> :generation_id
        """),
        generation_id,
    )
    connection.execute(
        text("""
            UPDATE generations SET state = 'active', activated_at = now()
            WHERE generation_id = :generation_id AND state <> 'active'
        """),
        generation_id,
    )


def set_ready(connection: Connection, generation: Generation) -> None:
    """Note that one that was being built is complete, and waits for somebody to switch to it."""
    connection.execute(
        text("""
            UPDATE generations SET state = 'ready'
            WHERE generation_id = :generation_id AND state = 'building'
        """),
        {"generation_id": generation.generation_id},
    )


def drop(connection: Connection, generation: Generation) -> None:
    """Delete a generation with all that belongs to it, unless it is the one that is active."""
    connection.execute(
        text("DELETE FROM generations WHERE generation_id = :generation_id AND state <> 'active'"),
        {"generation_id": generation.generation_id},
    )


def count_lacking(connection: Connection, generation: Generation) -> int:
    """How many documents it has not as they are stored; those without text have no sections."""
    count: int = connection.execute(
        text(f"SELECT count(*) FROM documents WHERE {LACKING} AND text ~ '\\S'"),
        {"generation_id": generation.generation_id},
    ).scalar_one()
    return count


def count_lost(connection: Connection, generation: Generation) -> int:
    """How many documents would be found no more, or not as they are, if it took over."""
    count: int = connection.execute(
        text(f"""
            SELECT count(*) FROM documents
            WHERE {LACKING} AND text ~ '\\S' AND EXISTS (
                SELECT FROM sections JOIN generations USING (generation_id)
                WHERE state = 'active' AND sections.document_id = documents.document_id)
        """),
        {"generation_id": generation.generation_id},
    ).scalar_one()
    return count


def refresh_all_counts(connection: Connection) -> None:
    """The same as refresh_counts for every generation."""
    for generation in load_all(connection):
        refresh_counts(connection, generation)


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
    connection.execute(
        text("SELECT count_parts(:generation_id)"), {"generation_id": generation.generation_id}
    )
