"""Token vectors, small: what is kept of their dot products."""

import numpy as np
import pytest

from retrieval import token_vectors
from retrieval.embedding import Vectors
from retrieval.token_vectors import fit_projection, max_similarities, project


def unit(rows: int, size: int, *, seed: int = 0) -> Vectors:
    vectors = np.random.default_rng(seed).standard_normal((rows, size)).astype(np.float32)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def low_rank(rows: int, *, rank: int = 16, size: int = 64) -> Vectors:
    """Vectors that lie in a space of fewer dimensions."""
    basis, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((size, rank)))
    return (unit(rows, rank) @ basis.T).astype(np.float32)


def encode(vectors: Vectors, projection: Vectors) -> bytes:
    (encoded,) = token_vectors.encode([vectors], projection)
    return encoded


def test_the_projection_is_orthonormal() -> None:
    projection = fit_projection(unit(500, 64), 16)
    assert projection.shape == (16, 64)
    assert projection @ projection.T == pytest.approx(np.eye(16), abs=1e-5)


def test_dot_products_of_low_rank_vectors_are_kept() -> None:
    vectors = low_rank(200)
    projected = project(vectors, fit_projection(vectors, 16))
    assert projected @ projected.T == pytest.approx(vectors @ vectors.T, abs=1e-5)


def test_fewer_dimensions_than_asked_are_all() -> None:
    assert fit_projection(unit(50, 8), 128).shape == (8, 8)


def test_projected_rows_are_of_unit_length() -> None:
    projected = project(unit(100, 64), fit_projection(unit(100, 64), 16))
    assert np.linalg.norm(projected, axis=1) == pytest.approx(np.ones(100), abs=1e-5)
    assert project(np.zeros((1, 64), np.float32), np.eye(64, dtype=np.float32)).sum() == 0


def test_rounding_to_int8_costs_little() -> None:
    vectors, identity = unit(60, 128), np.eye(128, dtype=np.float32)
    assert np.abs(vectors).max() < 0.5  # beyond, a component is cut off
    (found,) = max_similarities(vectors, [encode(vectors, identity)])
    # At most half a step of 1 / 254 in each of 128 components; the other side is of unit length.
    assert np.abs(found - (vectors @ vectors.T).max(axis=1)).max() <= 128**0.5 / (2 * 254)


def test_each_query_token_takes_its_nearest_of_each_chunk() -> None:
    query = np.array([[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, -0.5, -0.5]], np.float32)
    identity = np.eye(4, dtype=np.float32)
    chunks = [encode(query[:1], identity), encode(query[::-1], identity)]
    assert max_similarities(query, chunks) == pytest.approx(np.array([[1, 0], [1, 1]]), abs=0.01)


def test_a_chunk_without_tokens_is_similar_to_nothing() -> None:
    query, identity = unit(3, 4), np.eye(4, dtype=np.float32)
    empty = encode(np.zeros((0, 4), np.float32), identity)
    assert empty == b""
    found = max_similarities(query, [empty, encode(query, identity), empty])
    assert found.shape == (3, 3)
    assert not found[0].any() and found[1].any() and not found[2].any()
    assert max_similarities(query, [empty]).tolist() == [[0, 0, 0]]
    assert max_similarities(query, []).shape == (0, 3)
    assert max_similarities(query[:0], [encode(query, identity)]).shape == (1, 0)
