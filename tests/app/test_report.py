"""The page of a run, read as a browser would."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from app.eval_runs import Run, compare
from app.report import build_page
from retrieval.evaluation import Fault
from retrieval.metrics import Gold
from retrieval.records import Turn
from tests.app.eval_runs import FOUND, GOLD, INDEX, OTHER, case, result, run, stored, trail
from tests.retrieval.candidates import candidate

LOST: dict[Fault, str] = {
    "missing": "It stands in no document of the index.",
    "search": "Found by no leg.",
    "fuse": "Ranked 72nd by the legs, but not among the 60 that are reranked.",
    "rerank": "Ranked 3rd before reranking, 12th after, with relevance 0.050; the last that was"
    " kept has 0.300.",
    "unknown": "Ranked 3rd before reranking, 1st after, but refused, since no document mentions"
    " ERR_9.",
    "floor": "Ranked 3rd before reranking, 1st after, but its relevance 0.050 is below the floor.",
    "keep": "Ranked 3rd before reranking, 2nd after, with relevance 0.050, but left out of what"
    " is kept.",
}


class Page(HTMLParser):
    """Every tag with its attributes, and all text that is shown."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "body":
            self.texts.clear()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def values(self, name: str) -> list[str]:
        """An attribute's values, wherever it stands."""
        return [attrs[name] or "" for _, attrs in self.tags if name in attrs]


def read(*runs: Run) -> Page:
    return Page(build_page(runs))


def test_the_page_has_the_figures_of_the_run() -> None:
    unanswerable = case("c3", kind="unanswerable")
    page = read(run(result(case("c1")), result(case("c2"), [OTHER], trails=(LOST_IN_SEARCH,))))
    assert "Evaluation of handbook/dev 2026-11-30 04:12 UTC · commit 0123456789abcdef" in page.text
    assert "Run 7: 2 questions, 2 of them with an answer in the documents." in page.text
    assert "recall@5 0.500 of 2" in page.text
    assert "refused" not in page.text.partition("Where answers were lost")[0]
    page = read(run(result(case("c1")), result(unanswerable, kept=0)))
    assert "refused 1.000 of 1" in page.text


LOST_IN_SEARCH = trail("search", fused_rank=None, rank=None, relevance=None)


def test_a_bar_is_all_answers_of_a_type_by_the_stage_that_lost_them() -> None:
    both = replace(case("c2"), gold_any=(), gold_all=(GOLD, Gold(doc="gone.md")))
    results = [
        result(case("c1")),
        result(both, trails=(trail(), trail("rerank", fused_rank=40, rank=9))),
        result(case("c3", kind="fragment"), [OTHER], trails=(LOST_IN_SEARCH,)),
    ]
    page = read(run(*results))
    widths = [
        (attrs["class"], attrs["width"])
        for tag, attrs in page.tags
        if tag == "rect" and attrs["class"] != "empty"
    ]
    # All: one and a half of three kept, half lost in reranking, one in the search.
    assert widths[:3] == [("kept", "50.000%"), ("rerank", "16.667%"), ("search", "33.333%")]
    assert widths[3:6] == [  # the weakest type first
        *(("search", "100.000%"), ("kept", "75.000%"), ("rerank", "25.000%")),
    ]
    # Any leg, reranked, among the best 30, kept.
    assert "all 3 0.667 0.667 0.500 0.500" in page.text
    assert "table 2 1.000 1.000 0.750 0.750" in page.text


@pytest.mark.parametrize("fault", LOST)
def test_each_case_that_failed_tells_where_its_answer_was_lost(fault: Fault) -> None:
    ranks: dict[Fault, Any] = {
        "missing": {"fused_rank": None, "rank": None, "relevance": None},
        "search": {"fused_rank": None, "rank": None, "relevance": None},
        "fuse": {"fused_rank": 72, "rank": None, "relevance": None},
        "rerank": {"fused_rank": 3, "rank": 12, "relevance": 0.05},
        "keep": {"fused_rank": 3, "rank": 2, "relevance": 0.05},
    }
    how = ranks.get(fault, {"fused_rank": 3, "rank": 1, "relevance": 0.05})
    lost = result(
        case("c1", "how much leave do I get?"),
        [OTHER],
        kept=0 if fault in ("unknown", "floor") else 1,
        trails=(trail(fault, **how),),
    )
    if fault == "unknown":
        lost = replace(lost, retrieval=replace(lost.retrieval, unknown=("ERR_9",)))
    page = read(run(lost))
    failed = page.text.partition("Cases that failed")[2]
    assert f"how much leave do I get? table · c1 Expected leave.md 28 days {LOST[fault]}" in failed
    assert ("Refused; the nearest were" in failed) == (fault in ("unknown", "floor"))
    assert "VPN 0.300 vpn.md Use it." in failed  # what was found instead, without its heading


def test_a_false_answer_and_an_answer_that_lacks_it_are_failures_too() -> None:
    page = read(
        run(
            result(case("c1", "and shares?", kind="unanswerable")),
            result(case("c2", "how much leave?"), answer="Ask <b>HR</b>."),
            result(case("c3", "all is well"), answer="28 days"),
        )
    )
    failed = page.text.partition("Cases that failed")[2].partition("All figures")[0]
    assert "Answered, though nothing answers it 1 and shares?" in failed
    assert "Kept, but not in the answer 1 how much leave?" in failed
    assert "Leave 0.800 ✓ holds it" in failed
    assert "Answer Ask <b>HR</b>." in failed
    assert "all is well" not in failed


def test_what_was_said_and_searched_for_stands_by_the_case() -> None:
    turns = (
        Turn(speaker="user", text="how much leave?"),
        Turn(speaker="bot", text="28 days [1]."),
        Turn(speaker="user", text="and in the first year?"),
    )
    followup = replace(case("c1"), turns=turns)
    lost = result(followup, [OTHER], trails=(LOST_IN_SEARCH,))
    query = replace(lost.retrieval.query, text="how much leave in the first year?")
    lost = replace(lost, retrieval=replace(lost.retrieval, query=query))
    assert (
        "Said before how much leave? Footnote: 28 days [1]."
        " Searched for how much leave in the first year? Expected"
    ) in read(run(lost)).text


def test_the_floor_is_shown_over_all_sets() -> None:
    answered = result(case("c1"))
    refused = result(case("o1", kind="unanswerable"), [OTHER], kept=0)
    page = read(run(answered), run(refused, name="offtopic/dev"))
    assert "reaches the floor, 0.1, and it does not" in page.text
    assert "handbook/dev 1 with an answer 1 answered 0 refused" in page.text
    assert "offtopic/dev 1 without 0 answered 1 refused" in page.text


COMPARED = [
    result(case("won", "how do I win?")),
    result(case("lost", "how do I lose?"), [OTHER], trails=(LOST_IN_SEARCH,)),
]
BEFORE = stored({"won": {"recall@5": 0.0}, "lost": {"recall@5": 1.0}, "gone": {"recall@5": 1.0}})


def test_the_comparison_names_what_was_won_and_lost_and_leads_to_what_failed() -> None:
    compared = compare(BEFORE, COMPARED, {"floor": 0.1})
    page = read(run(*COMPARED, comparison=compared))
    assert (
        "Over the 2 cases that both have as they are now; 0 of this run and 1 of the one before"
        " are not compared."
    ) in page.text
    assert "recall@5 0.500 → 0.500, +0.000 [-1.000, +1.000] 1 , 1" in page.text
    assert (
        "recall@5: 1 lost , 1 won Lost how do I lose? 1.00 → 0.00, lost kept before: old.md"
        " Won how do I win? 0.00 → 1.00, won"
    ) in page.text
    assert "floor not set → 0.1" in page.text
    (link,) = page.values("href")
    assert link.removeprefix("#") in page.values("id")


@pytest.mark.parametrize("evil", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'])
def test_texts_of_others_are_shown_and_never_run(evil: str) -> None:
    section = candidate(1, path=evil, title=evil, text=evil, relevance=0.5)
    lost = result(
        replace(case(evil, evil, kind=evil), gold_any=(Gold(doc=evil, span=evil),)),
        [section],
        answer=evil,
        trails=(trail("search", gold=Gold(doc=evil, span=evil)),),
    )
    before = stored({evil: {"recall@5": 0.0, "doc@5": 0.0, "quoted": 0.0}}, settings={"x": evil})
    compared = compare(before, [lost], {evil: evil})
    page = read(run(lost, name=evil, settings={evil: evil, "floor": 0.1}, comparison=compared))
    assert page.text.count(evil) > 10
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "img", "iframe", "link", "object"})
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]


def test_the_page_loads_nothing() -> None:
    compared = compare(BEFORE, COMPARED, {})
    page = build_page([run(*COMPARED, comparison=compared)])
    assert {tag for tag, _ in Page(page).tags}.isdisjoint({"script", "img", "link"})
    assert all(link.startswith("#") for link in Page(page).values("href"))
    assert not re.search(r"url\(|@import|https?:", page)
    assert "default-src 'none'" in page


def test_pages_of_the_odd_kinds_can_be_made() -> None:
    nothing_indexed = result(case("c1"), [], trails=(trail("missing", fused_rank=None, rank=None),))
    assert "recall@5 0.000" in read(run(nothing_indexed, settings={"rewriting": {}})).text
    only_refused = result(case("c1", kind="unanswerable"), kept=0)
    page = read(run(only_refused))
    assert "Where answers were lost" not in page.text
    assert "Cases that failed None." in page.text
    long = replace(FOUND, section=replace(FOUND.section, text="# Leave\n" + "word " * 500))
    page = read(run(result(case("c1"), [long], trails=(trail("rerank", rank=9),))))
    assert "word …" in page.text and "word " * 70 not in page.text


def test_an_index_that_could_not_be_searched_is_told() -> None:
    failed = replace(run(result(case("c1"), [])), index=replace(INDEX, failure="It <b> not fit."))
    page = Page(build_page([failed]))
    assert any("so nothing was found: It <b> not fit." in text for text in page.texts)
