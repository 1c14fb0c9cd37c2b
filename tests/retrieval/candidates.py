"""Candidates for tests."""

from retrieval.records import Candidate, Hit, StoredSection


def candidate(
    section_id: int = 1,
    *,
    path: str = "a.md",
    title: str = "A",
    text: str = "text",
    relevance: float | None = None,
    rrf_score: float = 0.0,
    hits: tuple[Hit, ...] = (),
) -> Candidate:
    section = StoredSection(
        section_id=section_id,
        document_id=section_id,
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
