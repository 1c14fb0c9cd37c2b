"""What of a page is proposed as the answer to a question."""

from collections.abc import Iterator
from itertools import islice

import pytest
from sqlalchemy import text

from app.loop.spans import MOST, Span, list_spans, propose_span
from retrieval.evaluation import load_cases
from retrieval.metrics import Gold, Result, hits
from retrieval.records import Query
from retrieval.retrieve import Retriever
from tests.conftest import SAMPLE

GOLD_PAGES = 43  # of the 40 cases, each page that answers one


def find_page(retriever: Retriever, path: str) -> tuple[int, str]:
    with retriever.database.transaction() as connection:
        row = connection.execute(
            text("SELECT document_id, text FROM documents WHERE path = :path"), {"path": path}
        ).one()
    return row.document_id, row.text


def gold_pages() -> Iterator[tuple[str, str, list[str]]]:
    """Each page that answers a case: the question, its path, and what answers."""
    for case in load_cases(SAMPLE / "cases.jsonl"):
        gold = [*case.gold_any, *case.gold_all]
        for doc in dict.fromkeys(each.doc for each in gold):
            yield case.question, doc, [str(each.span) for each in gold if each.doc == doc]


def overlaps(span: Span, answers: list[str]) -> bool:
    """Whether one of them holds the other, as the metrics judge it."""
    return any(
        hits(Result(doc="", text=held), Gold(doc="", span=wanted))
        for answer in answers
        for held, wanted in ((span.text, answer), (answer, span.text))
    )


def test_what_is_proposed_is_often_what_a_person_chose_and_always_stands_in_the_page(
    retriever: Retriever,
) -> None:
    first = among = pages = 0
    for question, path, answers in gold_pages():
        document_id, body = find_page(retriever, path)
        spans = list_spans(retriever, question, document_id)
        assert 0 < len(spans) <= MOST and len(set(spans)) == len(spans)
        assert all(span.text in body and span.doc == path for span in spans)
        assert all(len(span.text.split()) <= 100 for span in spans)  # no whole section
        # As the nightly run will look for it.
        sections = retriever.read_page(_query(question), document_id)
        gold = Gold(doc=path, span=spans[0].text)
        assert any(hits(Result(doc=path, text=each.section.text), gold) for each in sections)
        first += overlaps(spans[0], answers)
        among += any(overlaps(span, answers) for span in spans)
        pages += 1
    assert pages == GOLD_PAGES
    assert first >= 20 and among >= 36  # 22 and 38 when this was written


@pytest.mark.parametrize(
    ("question", "path", "expected"),
    [
        (
            "what does err 2041 mean?",
            "reference/error-codes.md",
            "| `ERR_2041` | – | Label template needs a font that the printer lacks"
            " | Pin the previous template on the spooler |",
        ),
        (
            "what's the most I can spend on a room in Hamburg",
            "policies/travel-and-expenses-2026.md",
            "- Category B (Amsterdam, Brussels, Hamburg, Munich, Vienna, Milan): **€170**",
        ),
        (
            "I missed the mail and my production permissions ran out, can somebody extend them?",
            "onboarding/request-access.md",
            "You get a mail 14 days before a role ends. Click the button. If you let it lapse, the"
            " request starts from zero, approvals included.",
        ),
    ],
)
def test_a_row_or_a_step_is_proposed_alone_and_a_sentence_with_those_beside_it(
    retriever: Retriever, question: str, path: str, expected: str
) -> None:
    document_id, _ = find_page(retriever, path)
    span = propose_span(retriever, question, document_id)
    assert span and span.text == expected
    assert span.url == f"https://wiki.halvermeer.example/{path}"


def test_a_page_that_is_gone_has_none(retriever: Retriever) -> None:
    assert propose_span(retriever, "how long?", 0) is None


def test_the_sections_of_a_page_come_by_what_they_say_of_the_question(retriever: Retriever) -> None:
    sizes = []
    for question, path, answers in islice(gold_pages(), 12):
        document_id, _ = find_page(retriever, path)
        sections = [each.section for each in retriever.read_page(_query(question), document_id)]
        assert {section.path for section in sections} == {path}
        golds = [Gold(doc=path, span=answer) for answer in answers]
        if len(sections) > 1:
            best = Result(doc=path, text=sections[0].text)
            sizes.append(any(hits(best, gold) for gold in golds))
    assert len(sizes) > 3 and sum(sizes) >= len(sizes) - 1


def _query(question: str) -> Query:
    return Query(text=question, question=question)
