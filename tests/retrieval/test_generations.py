"""What one chunker and one embedder made, and whether the code of today fits it."""

from dataclasses import replace

import numpy as np
import pytest

from retrieval import generations
from retrieval.db import Database
from retrieval.embedding import Embedder, Vectors
from retrieval.errors import IndexMismatch
from retrieval.generations import Generation, chunker_name
from retrieval.tuning import DEFAULT

PROJECTION = np.arange(6, dtype=np.float32).reshape(2, 3)


class Model:
    """An embedder's name, size and probe, without the model."""

    def __init__(self, name: str = "m", probe: tuple[float, ...] = (1.0, 0.0, 0.0)) -> None:
        self.name = name
        self.probe: Vectors = np.array(probe, dtype=np.float32)
        self.dimension = len(probe)


def embedder(name: str = "m", probe: tuple[float, ...] = (1.0, 0.0, 0.0)) -> Embedder:
    return Model(name, probe)  # type: ignore[return-value]


def create(database: Database, model: Embedder) -> Generation:
    with database.transaction() as connection:
        return generations.create(connection, model, PROJECTION, DEFAULT)


def test_a_generation_comes_back_as_it_was_made(database: Database) -> None:
    made = create(database, embedder())
    assert (made.state, made.embedder, made.dimension, made.chunk_count) == ("building", "m", 3, 0)
    assert made.chunker == chunker_name(DEFAULT) == "1.1.1/900/180/128"
    assert made.projection.tolist() == PROJECTION.tolist()
    assert made.probe.tolist() == [1, 0, 0]
    with database.transaction() as connection:
        assert generations.load(connection, "active") is None
        assert generations.load_active(connection, embedder(), DEFAULT) is None


def test_activating_takes_the_place_of_the_one_before(database: Database) -> None:
    first = create(database, embedder("old"))
    with database.transaction() as connection:
        generations.activate(connection, first)
    second = create(database, embedder("new"))
    with database.transaction() as connection:
        generations.activate(connection, second)
        generations.activate(connection, second)  # twice is once
        active = generations.load(connection, "active")
        assert active is not None and active.generation_id == second.generation_id
        assert generations.load(connection, "building") is None


def test_one_that_was_begun_is_gone_on_with_and_another_is_dropped(database: Database) -> None:
    first = create(database, embedder())
    assert create(database, embedder()).generation_id == first.generation_id
    assert create(database, embedder("other")).generation_id != first.generation_id
    with database.transaction() as connection:
        building = generations.load(connection, "building")
        assert building is not None and building.embedder == "other"


@pytest.mark.parametrize(
    ("model", "difference"),
    [
        (embedder("n"), "embedding model m is now n"),
        (embedder("m", (1.0, 0.0)), "embedding model m is now m"),
        (embedder("m", (0.9, 0.1, 0.0)), "embedding model m changed under the same name"),
        (embedder("m", (0.9999, 0.01, 0.0)), None),  # another processor rounds otherwise
    ],
)
def test_another_model_is_noticed(
    database: Database, model: Embedder, difference: str | None
) -> None:
    made = create(database, embedder())
    with database.transaction() as connection:
        generations.activate(connection, made)
    with database.transaction() as connection:
        if difference is None:
            assert generations.load_active(connection, model, DEFAULT) is not None
        else:
            with pytest.raises(IndexMismatch, match=difference):
                generations.load_active(connection, model, DEFAULT)


@pytest.mark.parametrize("changed", ["section_tokens", "chunk_tokens", "token_dimension"])
def test_sizes_that_change_what_is_stored_make_another_chunker(changed: str) -> None:
    assert chunker_name(replace(DEFAULT, **{changed: 77})) != chunker_name(DEFAULT)


def test_sizes_that_only_search_uses_do_not() -> None:
    assert chunker_name(replace(DEFAULT, depth=7, keep=1, rrf_k=1)) == chunker_name(DEFAULT)
