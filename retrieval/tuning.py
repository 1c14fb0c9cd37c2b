"""Every number of retrieval that is chosen rather than given, in one place.

A change here is a commit with evaluation figures beside it; every trace and every report carries
the values it ran with.
"""

from dataclasses import dataclass

PACKAGED = "all-MiniLM-L6-v2"  # the embedding model that the `local` extra installs


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Sizes and constants of indexing and retrieval."""

    section_tokens: int = 900  # joined headings; 300 and 500 lose 8 and 3 points of fused recall@5
    chunk_tokens: int = 180  # with its heading path within what MiniLM was trained on, 256
    token_dimension: int = 128  # of a stored token vector; 64 loses three points
    heading_weight: float = 2.0  # a word in title or headings counts as this many in the text
    k1: float = 1.2  # BM25's usual values (Robertson and Zaragoza, 2009)
    b: float = 0.75
    depth: int = 60  # hits asked of each leg
    rrf_k: int = 60  # Cormack, Clarke and Büttcher, SIGIR 2009
    candidates: int = 60  # reranked; late interaction over 30, 60, 100: 0.838, 0.849, 0.854
    keep: int = 5  # most sections that are answered from
    exact_below: int = 50_000  # chunks; below, an exact scan is as fast as HNSW and finds all
    ef_search: int = 100  # HNSW's list of candidates; at least depth


DEFAULT = Tuning()
