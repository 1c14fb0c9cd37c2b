"""What is noted of the index."""

from datetime import UTC, datetime

from sqlalchemy import text

from app.loop import index
from retrieval.retrieve import Retriever
from tests.app import eval_runs


def test_what_is_noted_is_read_again() -> None:
    assert index.parse(eval_runs.INDEX.to_json()) == eval_runs.INDEX


def test_what_an_older_version_noted_tells_nothing() -> None:
    older = {name: value for name, value in eval_runs.INDEX.to_json().items() if name != "model"}
    assert index.parse(older) is None
    assert index.parse({}) is None


def test_what_the_index_is_made_of_is_noted(retriever: Retriever) -> None:
    found = index.load(retriever)
    assert found.created_at and found.created_at < datetime.now(UTC)
    with retriever.database.transaction() as connection:
        texts = connection.execute(text("SELECT text FROM documents")).scalars().all()
    assert (found.documents, found.characters) == (35, sum(map(len, texts)))
    assert found.documents <= found.sections <= found.chunks


def test_of_another_model_both_probes_are_noted(retriever: Retriever) -> None:
    found = index.load(retriever)
    assert found.model == found.embedder == retriever.embedder.name
    similarity = sum(a * b for a, b in zip(found.probe, found.model_probe, strict=True))
    assert abs(similarity - 1) < 0.001
