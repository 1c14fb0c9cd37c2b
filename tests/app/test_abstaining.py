"""The words of an answer that is none."""

from dataclasses import replace
from datetime import date

import pytest

from app import abstaining
from app.abstaining import NEAR_SHARE, Searched, explain
from app.records import Abstention, Nearest
from retrieval.precedence import Validity
from retrieval.records import Candidate, Query, Retrieval
from tests.app.test_answering import SECTION

SAMPLE = Searched(page_count=1_035, sources=("handbook", "wiki", "docs"))


def test_what_was_searched_is_named() -> None:
    query = Query(text="parental leave in France", question="and in France?")
    assert explain("NO_CANDIDATES", query, SAMPLE) == (
        "I couldn't find this in the 1,035 pages of handbook, wiki and docs. "
        "I searched for “parental leave in France”."
    )
    asked = Query(text="parental leave", question="parental  leave")
    one = Searched(page_count=1, sources=("wiki",))
    assert explain("BELOW_FLOOR", asked, one) == "I couldn't find this in the one page of wiki."


def test_related_pages_are_not_an_answer() -> None:
    query = Query(text="q", question="q")
    assert explain("UNSUPPORTED", query, SAMPLE) == (
        "I found related pages, but they don't answer this. "
        "I looked in the 1,035 pages of handbook, wiki and docs."
    )


def test_an_empty_index_is_no_reason_to_blame_the_question() -> None:
    query = Query(text="q", question="q")
    empty = Searched(page_count=0, sources=())
    assert explain("NO_CANDIDATES", query, empty) == (
        "There are no pages that I may use here, so I can't answer this."
    )
    nameless = Searched(page_count=2, sources=())
    assert explain("NO_CANDIDATES", query, nameless) == "I couldn't find this in the 2 pages."


FLOOR = 0.4
NEAREST = Nearest(
    path="failover.md",
    title="Failover",
    heading_path=("Failover",),
    url="https://docs.example.com/failover",
)


def find_nearest(reason: Abstention, retrieval: Retrieval) -> Nearest | None:
    validity = Validity(today=date(2026, 3, 1), freshness_days=365)
    return abstaining.find_nearest(reason, retrieval, validity)


def found(relevance: float, *, kept: bool = False) -> Retrieval:
    candidate = Candidate(section=SECTION, hits=(), rrf_score=0.0, relevance=relevance)
    return Retrieval(
        query=Query(text="q", question="q"),
        candidates=(candidate,),
        kept=(candidate,) if kept else (),
        settings={"floor": FLOOR},
    )


def test_p44_the_nearest_page_is_offered_unless_it_is_far_below_the_floor() -> None:
    assert find_nearest("BELOW_FLOOR", found(FLOOR * NEAR_SHARE + 0.001)) == NEAREST
    assert find_nearest("BELOW_FLOOR", found(FLOOR * NEAR_SHARE - 0.001)) is None
    assert find_nearest("UNSUPPORTED", found(0.9, kept=True)) == NEAREST


def test_the_nearest_page_is_marked_where_it_may_no_longer_hold() -> None:
    near = found(FLOOR)
    section = replace(SECTION, verified_at=date(2023, 2, 1), is_superseded=True)
    stale = replace(near, candidates=(replace(near.candidates[0], section=section),))
    said = "last verified 2023-02-01, 3 years ago, says that it no longer holds"
    assert find_nearest("BELOW_FLOOR", stale) == replace(NEAREST, caveat=said)


def test_a_page_that_names_what_is_asked_is_offered_however_far_it_is() -> None:
    far = found(0.0)
    asked = replace(far, query=Query(text="is the FAILOVER covered?", question="q"))
    assert find_nearest("BELOW_FLOOR", asked) == NEAREST
    beside = replace(far, query=Query(text="is the over covered?", question="q"))
    assert find_nearest("BELOW_FLOOR", beside) is None
    # What more than one page is about tells nothing.
    another = replace(SECTION, document_id=2, title="Failover of the spooler")
    both = (*asked.candidates, replace(asked.candidates[0], section=another))
    assert find_nearest("BELOW_FLOOR", replace(asked, candidates=both)) is None


@pytest.mark.parametrize("reason", ["UNKNOWN_IDENTIFIER", "NO_CANDIDATES"])
def test_no_page_is_near_to_what_none_mentions(reason: Abstention) -> None:
    nothing = Retrieval(query=Query(text="q", question="q"), candidates=(), kept=())
    retrieval = found(0.9) if reason == "UNKNOWN_IDENTIFIER" else nothing
    assert find_nearest(reason, retrieval) is None
