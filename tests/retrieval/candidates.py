"""Candidates for tests."""

from collections.abc import Sequence

from retrieval.literal import Literal
from retrieval.records import Candidate, Hit, StoredSection
from retrieval.rerank import Features, Measured


def candidate(
    section_id: int = 1,
    *,
    document_id: int | None = None,
    path: str = "a.md",
    title: str = "A",
    text: str = "text",
    relevance: float | None = None,
    rrf_score: float = 0.0,
    hits: tuple[Hit, ...] = (),
) -> Candidate:
    """A section in the running, of a document of its own where none is given."""
    section = StoredSection(
        section_id=section_id,
        document_id=section_id if document_id is None else document_id,
        path=path,
        title=title,
        heading_path=(title,),
        text=text,
        url=f"https://wiki.example/{path}",
        owner=None,
        updated_at=None,
        verified_at=None,
    )
    return Candidate(section=section, hits=hits, rrf_score=rrf_score, relevance=relevance)


def measured(
    candidates: Sequence[Candidate],
    *features: Features,
    literal: Literal | None = None,
    unknown: tuple[str, ...] = (),
) -> Measured:
    """What was measured of a question of as many readings as there are features."""
    return Measured(
        candidates=tuple(candidates),
        features=features,
        literal=literal or Literal(),
        unknown=unknown,
    )
