"""The passages of a page that may answer a question, for a reviewer to see before one is gold."""

from dataclasses import dataclass

from app.generate.quoted import Quoter
from app.rewrite import rewrite
from retrieval.records import Turn
from retrieval.retrieve import Retriever

# The first overlaps what a person chose on 22 of the sample's 43 gold pages, one of so many on 38.
MOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What of a page may answer, word for word."""

    document_id: int
    doc: str  # its path
    title: str
    url: str
    text: str


def propose_span(retriever: Retriever, question: str, document_id: int) -> Span | None:
    """What of a page answers best: a sentence, a step, a row, or a few that are read together.

    None where the page is gone, or has nothing but headings. Raises as Retriever.measure does.
    """
    return next(iter(list_spans(retriever, question, document_id)), None)


def list_spans(retriever: Retriever, question: str, document_id: int) -> list[Span]:
    """The best MOST passages of a page, as propose_span has the first."""
    turns = [Turn(speaker="user", text=question)]
    query = rewrite(turns)
    sections = retriever.read_page(query, document_id)
    found = Quoter(retriever.embedder).passages(turns, query, sections)
    return [
        Span(
            document_id=document_id,
            doc=each.path,
            title=each.title,
            url=each.url,
            text=each.cited_text,
        )
        for each in found[:MOST]
    ]
