"""Whether a question is answered, and from what."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from retrieval import floor
from retrieval.records import Candidate
from retrieval.tuning import DEFAULT, Tuning
from tests.retrieval.candidates import candidate

TUNING = replace(DEFAULT, keep=5, keep_ratio=0.1, same_document=0.4)


def apply(
    candidates: Sequence[Candidate], tuning: Tuning = TUNING, *, query: str = ""
) -> tuple[Candidate, ...]:
    return floor.apply(candidates, query, floor=0.3, tuning=tuning)


def keep(*relevances: float | None, tuning: Tuning = TUNING) -> list[float | None]:
    """The relevances of what is kept of sections that have nothing in common."""
    candidates = [
        candidate(number, text=f"text {number}", relevance=each)
        for number, each in enumerate(relevances)
    ]
    return [each.relevance for each in apply(candidates, tuning)]


def test_the_best_candidate_decides_for_all() -> None:
    assert keep(0.3, 0.2, 0.1) == [0.3, 0.2, 0.1]
    assert keep(0.299, 0.29) == []


def test_how_many_are_kept_follows_relevance() -> None:
    assert keep(0.9, 0.8, 0.7, 0.6, 0.5, 0.4) == [0.9, 0.8, 0.7, 0.6, 0.5]  # no more than keep
    assert keep(0.9, 0.1, 0.091, 0.089) == [0.9, 0.1, 0.091]  # a tenth of 0.9 is 0.09
    assert keep(0.9, 0.1, tuning=replace(TUNING, keep_ratio=0.5)) == [0.9]
    assert keep(0.9, 0.001, tuning=replace(TUNING, keep_ratio=0.0)) == [0.9, 0.001]


def test_the_floor_is_not_compared_with_rrf_scores() -> None:
    at_rank_18 = candidate(18, rrf_score=1 / (60 + 18), relevance=0.8)
    assert at_rank_18.rrf_score == pytest.approx(0.013, abs=0.0005)
    assert apply([at_rank_18]) == (at_rank_18,)
    assert apply([candidate(rrf_score=0.9, relevance=0.1)]) == ()


def test_what_was_not_judged_is_not_kept() -> None:
    assert keep(None) == []
    assert keep(0.5, None, 0.4) == [0.5, 0.4]


def test_nothing_is_kept_of_nothing() -> None:
    assert keep() == []


def test_equally_relevant_ones_keep_their_order() -> None:
    candidates = [candidate(number, text=f"text {number}", relevance=0.5) for number in range(7)]
    assert [each.section.section_id for each in apply(candidates)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("share", "kept"),
    [
        # 0.9; then 0.8, 0.7 and 0.6 count 0.4 of it, 0.32, 0.28 and 0.24, and the other page's
        # 0.25 comes third. Another of the first page counts 0.16 of it, which is 0.112.
        (0.4, ["1a", "1b", "2a"]),
        (0.3, ["1a", "2a", "1b"]),  # 0.24 for 0.8
        (1.0, ["1a", "1b", "1c"]),
        (0.0, ["1a", "2a", "1b"]),  # none other is left
    ],
)
def test_another_page_comes_before_much_of_one(share: float, kept: list[str]) -> None:
    candidates = [
        candidate(number, document_id=int(text[0]), text=text, relevance=relevance)
        for number, (text, relevance) in enumerate(
            [("1a", 0.9), ("1b", 0.8), ("1c", 0.7), ("1d", 0.6), ("2a", 0.25)]
        )
    ]
    found = apply(candidates, replace(TUNING, keep=3, same_document=share))
    assert [each.section.text for each in found] == kept


def test_a_page_of_its_own_is_not_left_out_for_its_many_sections() -> None:
    candidates = [
        candidate(number, document_id=1, text=f"text {number}", relevance=0.5)
        for number in range(4)
    ]
    # What the last counts is less than a tenth of the best; its relevance is what decides.
    assert 0.5 * 0.4**3 < 0.1 * 0.5
    assert apply(candidates) == tuple(candidates)


PASSAGE = " ".join(f"word{number}" for number in range(103))  # 100 runs of four words
OTHER = " ".join(f"other{number}" for number in range(103))


@pytest.mark.parametrize(
    "copy",
    [
        PASSAGE,
        f"# {PASSAGE.upper()}!\n",
        PASSAGE.replace("word50 ", "word50\n\n* "),
        PASSAGE.replace("word50 ", "another "),  # in four of the runs
        " ".join(PASSAGE.split()[:50]),
        f"{PASSAGE} and so on",
    ],
)
def test_near_copies_of_one_passage_do_not_fill_the_places(copy: str) -> None:
    copies = [candidate(number, text=copy, relevance=0.8) for number in range(2, 8)]
    first, other = (
        candidate(1, text=PASSAGE, relevance=0.9),
        candidate(9, text=OTHER, relevance=0.5),
    )
    assert apply([first, *copies, other]) == (first, other)


@pytest.mark.parametrize(
    "text",
    [
        OTHER,
        f"{PASSAGE} {OTHER}",  # holds the passage, and as much again
        " ".join(f"{word} and" for word in PASSAGE.split()),
        # Made from one template: a name in every tenth word.
        " ".join(
            "other" if number % 10 == 5 else word for number, word in enumerate(PASSAGE.split())
        ),
        "",
    ],
)
def test_what_says_something_else_is_no_copy(text: str) -> None:
    both = (candidate(1, text=PASSAGE, relevance=0.9), candidate(2, text=text, relevance=0.8))
    assert apply(both) == both


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("the services atlas and boreas", ["atlas", "boreas"]),
        ("Boreas?", ["atlas", "boreas"]),  # its neighbour was taken for better
        ("atlas", ["atlas"]),
        ("the service", ["atlas"]),
    ],
)
@pytest.mark.parametrize("place", ["title", "path", "text"])
def test_a_page_that_has_a_word_of_the_question_more_is_no_copy(
    query: str, kept: list[str], place: str
) -> None:
    names = ["atlas", "boreas", "calypso"]
    pages = []
    for number, name in enumerate(names):
        fields: dict[str, Any] = {"text": PASSAGE, place: name}
        if place == "text":
            fields["text"] = f"{name} {PASSAGE}"
        pages.append(candidate(number, relevance=0.9, **fields))
    found = apply(pages, query=query)
    assert [names[each.section.section_id] for each in found] == kept


@pytest.mark.parametrize(
    ("one", "other"), [("yes", "no"), ("Ask Ana.", "Ask Ana first."), ("?", "a")]
)
def test_short_texts_are_compared_as_they_are(one: str, other: str) -> None:
    both = (candidate(1, text=one, relevance=0.9), candidate(2, text=other, relevance=0.8))
    assert apply(both) == both
    assert apply([both[0], replace(both[0])]) == both[:1]


def dated(number: int, day: str | None, sum_: str, relevance: float) -> Candidate:
    """A page of one text but for a sum, verified on a day."""
    words = " ".join(f"word{each}" for each in range(60))
    built = candidate(number, text=f"{words} limit {sum_} euro {words}", relevance=relevance)
    verified_at = date.fromisoformat(day) if day else None
    return replace(built, section=replace(built.section, verified_at=verified_at))


def test_of_two_copies_the_last_verified_is_kept() -> None:
    old = dated(1, "2024-02-10", "forty", 0.9)
    new = dated(2, "2026-02-10", "fifty", 0.8)
    for candidates in ([old, new], [replace(new, relevance=0.9), replace(old, relevance=0.8)]):
        (kept,) = apply(candidates)
        assert kept.section == new.section
        assert kept.relevance == 0.9  # what either is worth
    undated = dated(3, None, "sixty", 0.8)
    assert [each.section for each in apply([old, undated])] == [old.section]


@pytest.mark.parametrize(
    ("one", "other"),
    [("Travel policy 2026", "Travel policy 2027"), ("Travel policy 2023", "Travel policy 2026")],
)
def test_of_two_editions_neither_takes_the_place_of_the_other(one: str, other: str) -> None:
    pages = [
        replace(each, section=replace(each.section, title=title))
        for title, each in (
            (one, dated(1, "2026-03-01", "forty", 0.9)),
            (other, dated(2, "2026-11-01", "fifty", 0.8)),
        )
    ]
    assert apply(pages) == tuple(pages)
    for other in ("Onboarding", "Travel policy"):  # another work, or the same without a year
        page = replace(pages[1], section=replace(pages[1].section, title=other))
        assert [each.section for each in apply([pages[0], page])] == [page.section]


def test_a_newer_part_of_a_page_does_not_take_its_place() -> None:
    old = dated(1, "2024-02-10", "forty", 0.9)
    more = " ".join(f"more{each}" for each in range(60))
    whole = replace(old, section=replace(old.section, text=f"{old.section.text} {more}"))
    part = dated(2, "2026-02-10", "forty", 0.8)
    assert apply([whole, part]) == (whole,)
