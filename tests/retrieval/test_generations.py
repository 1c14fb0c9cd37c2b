"""What one chunker and one embedder made, and whether the code of today fits it."""

from dataclasses import replace

import numpy as np
import pytest

from retrieval import generations
from retrieval.db import Database
from retrieval.embedding import Embedder, Vectors
from retrieval.errors import ConfigError, OtherBuild
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
        assert list(generations.find_searched(connection)) == []
        assert generations.find_fitting(connection, embedder(), DEFAULT) is not None


def test_activating_takes_the_place_of_the_one_before_which_is_kept(database: Database) -> None:
    made = []
    for name in ("oldest", "old", "new"):
        made.append(create(database, embedder(name)).generation_id)
        with database.transaction() as connection:
            generations.activate(connection, generations.load_by_id(connection, made[-1]))
    oldest, old, new = made
    with database.transaction() as connection:
        generations.activate(connection, generations.load_by_id(connection, new))  # twice is once
    with database.transaction() as connection:
        searched = list(generations.find_searched(connection))
        assert [each.generation_id for each in searched] == [new, old, oldest]
        assert [each.state for each in searched] == ["active", "kept", "kept"]
        assert generations.load(connection, "building") is None
        generations.activate(connection, searched[2])
    with database.transaction() as connection:
        back = [each.generation_id for each in generations.find_searched(connection)]
        assert back == [oldest, new, old]


def test_all_but_the_active_one_can_be_dropped(database: Database) -> None:
    first = create(database, embedder("old"))
    with database.transaction() as connection:
        generations.activate(connection, first)
    second = create(database, embedder("new"))
    with database.transaction() as connection:
        generations.drop(connection, first)
        generations.drop(connection, second)
        left = [each.generation_id for each in generations.load_all(connection)]
        assert left == [first.generation_id]
        for write in (generations.activate, generations.hold):
            with pytest.raises(ConfigError, match=r"was dropped meanwhile\. Run"):
                write(connection, second)
        with pytest.raises(ConfigError, match="There is no generation 7000"):
            generations.load_by_id(connection, 7000)
        assert generations.load(connection, "active") is not None


def test_one_that_was_begun_is_gone_on_with_and_what_nobody_can_finish_is_dropped(
    database: Database,
) -> None:
    first = create(database, embedder())
    assert create(database, embedder()).generation_id == first.generation_id
    with pytest.raises(OtherBuild, match=rf"or `footnote index drop {first.generation_id}`"):
        create(database, embedder("other"))
    changed = create(database, embedder(probe=(0.0, 1.0, 0.0)))  # under the same name
    assert changed.generation_id != first.generation_id
    with database.transaction() as connection:
        (building,) = generations.load_all(connection)
        assert building.generation_id == changed.generation_id


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
    assert made.difference(model, DEFAULT) == difference
    with database.transaction() as connection:
        found = generations.find_fitting(connection, model, DEFAULT)
        assert (found is None) == (difference is not None)


@pytest.mark.parametrize("changed", ["section_tokens", "chunk_tokens", "token_dimension"])
def test_sizes_that_change_what_is_stored_make_another_chunker(changed: str) -> None:
    assert chunker_name(replace(DEFAULT, **{changed: 77})) != chunker_name(DEFAULT)


def test_sizes_that_only_search_uses_do_not() -> None:
    assert chunker_name(replace(DEFAULT, depth=7, keep=1, rrf_k=1)) == chunker_name(DEFAULT)
