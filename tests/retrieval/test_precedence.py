"""Which pages come first because they hold."""

from collections.abc import Collection
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from retrieval import precedence
from retrieval.precedence import Validity
from retrieval.records import Candidate
from retrieval.tuning import DEFAULT
from tests.retrieval.candidates import candidate

TODAY = date(2026, 11, 30)
FRESH, OLD = date(2026, 9, 1), date(2022, 3, 1)
TUNING = replace(DEFAULT, replaced_share=0.1, unverified_share=0.5, unverified_ratio=0.1)
FLOOR = 0.1


def build(
    number: int, relevance: float, verified_at: date | None = None, **fields: Any
) -> Candidate:
    """A page of its own, with what it says of itself."""
    names = {key: fields.pop(key) for key in ("path", "title", "text") if key in fields}
    built = candidate(number, relevance=relevance, **{"path": f"{number}.md", **names})
    section = replace(built.section, verified_at=verified_at, **fields)
    return replace(built, section=section)


def prefer(*kept: Candidate, floor: float = FLOOR) -> list[tuple[int, float]]:
    """The pages as they are used, with what each then counts."""
    validity = Validity(today=TODAY, freshness_days=365)
    found = precedence.prefer(kept, floor=floor, tuning=TUNING, validity=validity)
    return [(each.section.section_id, each.relevance or 0) for each in found]


def pass_over(
    *candidates: Candidate, query: str = "", copies: Collection[tuple[int, int]] = ()
) -> dict[int, int]:
    """The pages that are passed over, and for which each is; the others are left as they were."""
    left, passed_over = precedence.pass_over(
        candidates,
        query,
        floor=FLOOR,
        tuning=TUNING,
        validity=Validity(today=TODAY, freshness_days=365, copies=copies),
    )
    gone = {each.section.document_id: each.document_id for each in passed_over}
    assert left == [each for each in candidates if each.section.document_id not in gone]
    return gone


def test_without_dates_nothing_changes() -> None:
    assert prefer(build(1, 0.4), build(2, 0.6)) == [(1, 0.4), (2, 0.6)]


def test_pages_without_a_date_are_neither_preferred_nor_put_back() -> None:
    assert prefer(build(1, 0.9, OLD), build(2, 0.8)) == [(1, 0.9), (2, 0.8)]
    assert prefer(build(1, 0.9), build(2, 0.8, FRESH)) == [(1, 0.9), (2, 0.8)]


def test_a_fresh_page_that_answers_about_as_well_comes_first() -> None:
    assert prefer(build(1, 0.9, OLD), build(2, 0.5, FRESH)) == [(2, 0.5), (1, 0.45)]
    assert prefer(build(1, 0.9, OLD), build(2, 0.4, FRESH)) == [(1, 0.45), (2, 0.4)]


def test_stale_pages_are_all_there_is_where_no_fresh_one_passes_the_floor() -> None:
    assert prefer(build(1, 0.9, OLD), build(2, 0.09, FRESH)) == [(1, 0.9), (2, 0.09)]


def test_a_stale_page_far_behind_a_fresh_one_is_left_out() -> None:
    # Half of 0.17 is less than a tenth of 0.9, half of 0.19 is more.
    assert prefer(build(1, 0.9, FRESH), build(2, 0.17, OLD)) == [(1, 0.9)]
    assert prefer(build(1, 0.9, FRESH), build(2, 0.19, OLD)) == [(1, 0.9), (2, 0.095)]


def test_a_page_may_say_how_long_it_counts_as_verified() -> None:
    slow = build(1, 0.9, OLD, freshness_days=3_650)
    assert prefer(slow, build(2, 0.8, FRESH)) == [(1, 0.9), (2, 0.8)]
    fast = build(1, 0.9, FRESH, freshness_days=30)
    assert prefer(fast, build(2, 0.8, FRESH)) == [(2, 0.8), (1, 0.45)]


def test_a_page_that_no_longer_holds_comes_behind_any_that_does() -> None:
    over = build(1, 0.9, FRESH, is_superseded=True)
    assert prefer(over, build(2, 0.5)) == [(2, 0.5), (1, 0.45)]
    assert prefer(over, build(2, 0.5, OLD)) == [(1, 0.9), (2, 0.5)]
    assert prefer(over) == [(1, 0.9)]


def test_the_others_keep_their_order_when_one_is_put_back() -> None:
    kept = [build(1, 0.3), build(2, 0.6), build(3, 0.5, OLD), build(4, 0.4, FRESH)]
    assert [number for number, _ in prefer(*kept)] == [1, 2, 4, 3]


OLD_POLICY = {"path": "hr/travel-2023.md", "title": "Travel policy 2023"}
NEW_POLICY = {"path": "hr/travel-2025.md", "title": "Travel policy 2025"}


def test_a_later_edition_replaces_an_older_one() -> None:
    old, new = build(1, 0.9, **OLD_POLICY), build(2, 0.5, **NEW_POLICY)
    assert pass_over(old, new, query="meal cap") == {1: 2}
    assert pass_over(old, query="meal cap") == {}


@pytest.mark.parametrize(
    "paths", [("hr/2023/t.md", "hr/2025/t.md"), ("hr/t-2023.md", "hr/t-2025.md")]
)
def test_the_year_may_stand_in_the_path_alone(paths: tuple[str, str]) -> None:
    old, new = (
        build(number, 0.5, path=path, title="Travel policy") for number, path in enumerate(paths, 1)
    )
    assert pass_over(old, new) == {1: 2}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Travel policy 2023", "Travel policy 2026"),
        ("Travel policy v1", "Travel policy v2"),
        ("Travel policy (old)", "Travel policy"),
    ],
)
@pytest.mark.parametrize("copies", [(), {(1, 2)}])
@pytest.mark.parametrize("folder", ["hr", "it"])
def test_an_older_edition_replaces_no_later_one_however_late_it_was_verified(
    old: str, new: str, copies: Collection[tuple[int, int]], folder: str
) -> None:
    one = build(1, 0.9, TODAY, title=old, path="hr/a.md")
    other = build(2, 0.8, FRESH, title=new, path=f"{folder}/b.md")
    is_same = bool(copies) or folder == "hr"
    for pages in ((one, other), (other, one)):
        assert pass_over(*pages, copies=copies) == ({1: 2} if is_same else {})


def test_an_edition_that_is_to_come_replaces_none_and_gives_way_to_that_in_force() -> None:
    now = build(1, 0.5, date(2026, 3, 1), title="Travel policy 2026")
    later = build(2, 0.9, date(2026, 11, 1), title="Travel policy 2027")
    for pages in ((now, later), (later, now)):
        assert pass_over(*pages) == pass_over(*pages, copies={(1, 2)}) == {2: 1}
    assert pass_over(later, now, query="caps of 2027") == {}
    assert pass_over(later) == {}
    alone = build(3, 0.8, FRESH, title="Travel policy")
    assert pass_over(later, alone) == pass_over(alone, later) == {2: 3}


@pytest.mark.parametrize(
    "query",
    ["cap next year", "cap from when", "cap in January", "What will hold?", "cap in 2028", "FY27?"],
)
def test_an_edition_to_come_stays_behind_that_in_force_where_it_may_be_asked_for(
    query: str,
) -> None:
    def order(query: str) -> list[tuple[int, float | None]]:
        left, over = precedence.pass_over(
            [
                build(2, 0.9, FRESH, title="Travel policy 2027"),
                build(3, 0.8, title="Other"),
                build(1, 0.5, FRESH, title="Travel policy 2026"),
                build(4, 0.4, OLD, title="Travel policy 2023"),
            ],
            query,
            floor=FLOOR,
            tuning=TUNING,
            validity=Validity(today=TODAY, freshness_days=365),
        )
        assert 4 in {each.document_id for each in (page.section for page in over)}
        return [(each.section.document_id, each.relevance) for each in left]

    assert order(query) == [(3, 0.8), (1, 0.5), (2, 0.5)]
    assert order("cap of today, as of 2026") == [(3, 0.8), (1, 0.5)]


@pytest.mark.parametrize("copies", [(), {(1, 2)}])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"title": "Travel policy 2023"}, {"title": "Travel policy"}),
        ({"title": "Travel policy v1"}, {"title": "Travel policy"}),
        ({"title": "Travel policy v2"}, {"title": "Travel policy 2026"}),
        ({"title": "Travel policy", "path": "hr/2023/t.md"}, {"title": "Travel policy"}),
        ({"title": "Travel policy v2"}, {"title": "Travel policy v2"}),
    ],
)
def test_where_titles_tell_nothing_the_last_verified_one_is_used(
    old: dict[str, str], new: dict[str, str], copies: Collection[tuple[int, int]]
) -> None:
    one = build(1, 0.9, OLD, **{"path": "hr/a.md", **old})
    other = build(2, 0.5, FRESH, **{"path": "hr/b.md", **new})
    for pages in ((one, other), (other, one)):
        assert pass_over(*pages, copies=copies) == {1: 2}
    undated = replace(other, section=replace(other.section, verified_at=None))
    assert pass_over(one, undated, copies=copies) == {}


@pytest.mark.parametrize("folder", ["archive", "_archive", "Old"])
def test_a_page_in_an_archive_is_an_older_one_and_does_not_hold(folder: str) -> None:
    old = build(1, 0.9, TODAY, title="Expenses", path=f"hr/{folder}/e.md")
    new = build(2, 0.5, FRESH, title="Expenses", path="hr/e.md")
    assert pass_over(old, new) == pass_over(new, old) == {1: 2}
    assert prefer(old, build(3, 0.5)) == [(3, 0.5), (1, 0.45)]
    assert prefer(old) == [(1, 0.9)]


def test_of_many_editions_all_are_passed_over_for_the_one_that_is_left() -> None:
    years = (2022, 2024, 2027, 2025)
    pages = [build(year, 0.9, title=f"Travel policy {year}") for year in years]
    assert pass_over(*pages) == {2022: 2025, 2024: 2025, 2027: 2025}


def test_the_edition_that_is_asked_for_stays() -> None:
    old, new = build(1, 0.9, **OLD_POLICY), build(2, 0.5, **NEW_POLICY)
    assert pass_over(old, new, query="meal cap 2023") == {}


def test_what_is_far_better_or_below_the_floor_replaces_and_is_replaced_by_nothing() -> None:
    assert pass_over(build(1, 0.9, **OLD_POLICY), build(2, 0.11, **NEW_POLICY)) == {1: 2}
    assert pass_over(build(1, 0.9, **OLD_POLICY), build(2, 0.09, **NEW_POLICY)) == {}
    tuning = replace(TUNING, replaced_share=0.5)
    left, _ = precedence.pass_over(
        [build(1, 0.9, **OLD_POLICY), build(2, 0.4, **NEW_POLICY)],
        "",
        floor=FLOOR,
        tuning=tuning,
        validity=Validity(today=TODAY, freshness_days=365),
    )
    assert len(left) == 2


@pytest.mark.parametrize(
    "name",
    [
        *("New travel rules", "new TRAVEL rules", "hr/new.md", "new.md", "./new.md#caps", "new"),
        *("../hr/new.md", "https://wiki.example/hr/new.md"),
    ],
)
def test_a_page_is_replaced_by_the_one_that_it_names(name: str) -> None:
    old = build(1, 0.9, is_superseded=True, superseded_by=name)
    new = build(2, 0.5, path="hr/new.md", title="New travel rules")
    new = replace(new, section=replace(new.section, url="https://wiki.example/hr/new.md#caps"))
    assert pass_over(old, new) == {1: 2}
    assert pass_over(old, build(3, 0.5, path="hr/newer.md", title="Newer")) == {}


@pytest.mark.parametrize("name", ["", " ", "/", ".", "#caps", "hr"])
def test_a_name_of_no_page_replaces_nothing(name: str) -> None:
    old = build(1, 0.9, is_superseded=True, superseded_by=name)
    assert pass_over(old, build(2, 0.5, path="hr/new.md", title="Rules")) == {}


def test_pages_that_name_each_other_are_not_both_lost() -> None:
    one = build(1, 0.9, path="a.md", superseded_by="b.md")
    other = build(2, 0.8, path="b.md", superseded_by="a.md")
    assert len(pass_over(one, other)) == 1


def test_a_page_is_replaced_by_the_last_of_those_that_replace_one_another() -> None:
    over = [
        build(number, 0.9, title=here, is_superseded=True, superseded_by=there)
        for number, (here, there) in enumerate(("AB", "BC", "CD"), 1)
    ]
    last = build(4, 0.5, title="D")
    assert pass_over(*over, last) == {1: 4, 2: 4, 3: 4}
    # One that is below the floor tells what replaces it as well.
    assert pass_over(over[0], last, replace(over[1], relevance=0.01), over[2]) == {1: 4, 3: 4}
    assert pass_over(*over) == {}


def test_of_copies_the_last_verified_one_is_used() -> None:
    old, new = build(1, 0.9, OLD, title="Leave"), build(2, 0.5, FRESH, title="Time off")
    assert pass_over(old, new, copies={(1, 2)}) == {1: 2}
    assert pass_over(new, old, copies={(1, 2)}) == {1: 2}
    assert pass_over(old, new) == {}
    undated = build(3, 0.8, title="Leave")
    assert pass_over(undated, new, copies={(2, 3)}) == {}
    withdrawn = replace(undated, section=replace(undated.section, is_superseded=True))
    assert pass_over(withdrawn, new, copies={(2, 3)}) == {3: 2}


def test_a_copy_that_has_a_word_of_the_question_more_stays() -> None:
    old = build(1, 0.9, OLD, text="The cap in Spain is 60.")
    new = build(2, 0.9, FRESH, text="The cap is 80.")
    assert pass_over(old, new, query="cap in Spain", copies={(1, 2)}) == {}
    assert pass_over(old, new, query="cap", copies={(1, 2)}) == {1: 2}


def test_of_pages_of_one_title_and_place_the_last_verified_one_is_used() -> None:
    def pages(folder: str, other: str) -> tuple[Candidate, Candidate]:
        return (
            build(1, 0.9, OLD, path=f"{folder}/a.md", title="Norms"),
            build(2, 0.5, FRESH, path=f"{other}/b.md", title="Norms"),
        )

    assert pass_over(*pages("hr", "hr")) == {1: 2}
    assert pass_over(*pages("hr", "it")) == {}  # another team's


def test_two_sections_of_one_page_replace_nothing() -> None:
    one = build(1, 0.9, OLD)
    other = replace(one, section=replace(one.section, section_id=7))
    assert pass_over(one, other, copies={(1, 1)}) == {}
