"""Every number of retrieval that is chosen rather than given, in one place.

A change here is a commit with evaluation figures beside it; every trace and every report carries
the values it ran with.
"""

from dataclasses import dataclass, replace

PACKAGED = "all-MiniLM-L6-v2"  # the embedding model that the `local` extra installs


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Sizes and constants of indexing and retrieval."""

    section_tokens: int = 900  # joined headings; 300 and 500 lose 8 and 3 points of fused recall@5
    chunk_tokens: int = 180  # with its heading path within what MiniLM was trained on, 256
    token_dimension: int = 128  # of a stored token vector; 64 loses three points
    heading_weight: float = 2.0  # a word in title or headings counts as this many in the text
    # BM25's, usually 1.2 and 0.75 (Robertson and Zaragoza, 2009): with those the lexical leg alone
    # has recall@5 0.739 and 0.705 on handbook dev and claude-docs, with these 0.736 and 0.725.
    k1: float = 1.5
    b: float = 0.85
    depth: int = 100  # hits asked of each leg
    rrf_k: int = 60  # Cormack, Clarke and Büttcher, SIGIR 2009
    # Of the identifier leg in fusion, the others having 1: what looks like a name is often a word
    # of every page. With 1, fusion's recall@5 is 3 points lower on handbook dev, 2 on claude-docs.
    identifier_weight: float = 0.5
    interacted: int = 100  # of the first fusion's, whose token vectors are compared
    late_weight: float = 2.0  # of late interaction in the second fusion: recall@30 0.937 to 0.953
    candidates: int = 60  # reranked; they hold 0.975 of handbook dev's answers, 100 hold 0.984
    keep: int = 5  # most sections that are answered from
    floor: float | None = None  # None: the relevance model's own, as it was fitted
    # Least relevance beside the best one's. On handbook dev, 0.05, 0.01 and 0.002 keep 3.5, 4.1 and
    # 4.5 sections at the same recall@5; on claude-docs, whose questions need two pages,
    # recall@3 is 0.680, 0.733 and 0.753.
    keep_ratio: float = 0.005
    same_document: float = 0.6  # of the relevance of a section, for each other kept of its document
    # Least relevance of a page beside that of the one that it replaces; below, the old one is asked
    # for something that the new one does not tell. Chosen: copies are about as relevant. Of 77
    # questions on pages with a stale near-copy in which a number differs, all are answered without.
    replaced_share: float = 0.1
    # Of the relevance of a page that was verified too long ago, or says that it no longer holds,
    # beside one that holds; and least relevance then, beside the best of those. On handbook dev as
    # it is no case is lost. With a random half of its pages verified in 2022 and the others lately,
    # recall@5 of the questions that only a stale page answers, and the share of those that a fresh
    # one answers of which a fresh one comes first (means of 3 draws):
    #   no rule 0.901, 0.90; stale ones out beside any fresh one above the floor 0.55, 0.98;
    #   … beside one of half the relevance 0.70, 0.93; of 0.9 of it 0.77, 0.91;
    #   0.7 and 0.1: 0.894, 0.92; 0.5 and 0.1: 0.888, 0.93; 0.5 and 0.2: 0.860, 0.93;
    #   0.3 and 0.1: 0.879, 0.97; 0.3 and 0.2: 0.834, 0.97.
    unverified_share: float = 0.5
    unverified_ratio: float = 0.1
    exact_below: int = 50_000  # chunks; below, an exact scan is as fast as HNSW and finds all
    ef_search: int = 100  # HNSW's list of candidates; at least depth


DEFAULT = Tuning()
# A cross-encoder reads every candidate anew; the best 30 by fusion hold nearly all answers.
CROSS_ENCODED = replace(DEFAULT, candidates=30)
