"""The words of an answer that is none."""

from app.abstaining import Searched, explain
from retrieval.records import Query

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
        "I have no pages to look in yet, so I can't answer this."
    )
    nameless = Searched(page_count=2, sources=())
    assert explain("NO_CANDIDATES", query, nameless) == "I couldn't find this in the 2 pages."
