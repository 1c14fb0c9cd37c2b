"""Token vectors, small enough to be stored with each chunk, and late interaction over them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from retrieval.embedding import Vectors

# A unit vector of 128 dimensions has few components beyond 0.5; those are cut off there.
_SCALE = 254.0


def fit_projection(token_vectors: Vectors, dimension: int) -> Vectors:
    """The projection that best keeps dot products, shape (dimension, vector size).

    token_vectors has one row a token; the projection's rows are orthonormal. Fewer come back
    when the vectors have fewer dimensions.
    Principal directions about the origin, not the mean: dot products are what is compared.
    """
    moments = token_vectors.T @ token_vectors
    _, vectors = np.linalg.eigh(moments.astype(np.float64))
    return np.ascontiguousarray(vectors[:, ::-1][:, :dimension].T, dtype=np.float32)


def project(token_vectors: Vectors, projection: Vectors) -> Vectors:
    """Token vectors under the projection, rows of unit length again."""
    projected = token_vectors @ projection.T
    norms = np.linalg.norm(projected, axis=1, keepdims=True)
    unit: Vectors = (projected / np.maximum(norms, 1e-12)).astype(np.float32)
    return unit


def encode(token_vectors: Sequence[Vectors], projection: Vectors) -> list[bytes]:
    """Each text's token vectors projected, as int8, one row after another."""
    # One product for all: a small one each costs more in starting threads than in work.
    scaled = np.rint(project(np.concatenate(token_vectors), projection) * _SCALE)
    rows = np.clip(scaled, -127, 127).astype(np.int8)
    ends = np.cumsum([len(vectors) for vectors in token_vectors])[:-1]
    return [part.tobytes() for part in np.split(rows, ends)]


def max_similarities(query: Vectors, chunks: Sequence[bytes]) -> NDArray[np.float32]:
    """The best similarity of each query token in each chunk, shape (chunks, query tokens).

    query holds projected rows; similarities are cosines up to the rounding of int8. A chunk
    without tokens is similar to nothing: 0.

    Source: Khattab and Zaharia, ColBERT, SIGIR 2020 (MaxSim).
    """
    dimension = query.shape[1]
    lengths = [len(chunk) // dimension for chunk in chunks]
    best = np.zeros((len(chunks), len(query)), dtype=np.float32)
    if not any(lengths):
        return best
    stored = np.frombuffer(b"".join(chunks), dtype=np.int8).reshape(-1, dimension)
    similarities = (stored.astype(np.float32) / _SCALE) @ query.T
    filled = [index for index, length in enumerate(lengths) if length]
    starts = np.cumsum([0, *lengths[:-1]])[filled]
    best[filled] = np.maximum.reduceat(similarities, starts, axis=0)
    return best
