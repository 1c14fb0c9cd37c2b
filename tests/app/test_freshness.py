"""Which cited pages are marked as ones that may no longer hold."""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from app import freshness
from app.records import Citation

TODAY = date(2026, 3, 1)


def cite(title: str, verified_at: date | None = None, *, marker: int = 1) -> Citation:
    return Citation(
        marker=marker,
        section_id=marker,
        path=f"{marker}.md",
        title=title,
        heading_path=(),
        url="",
        cited_text="80.",
        owner=None,
        updated_at=None,
        verified_at=verified_at,
    )


def caveats(*citations: Citation, days: int = 365) -> list[str | None]:
    numbered = [replace(each, marker=number) for number, each in enumerate(citations, 1)]
    marked = freshness.mark(numbered, freshness_days=days, today=TODAY)
    return [each.caveat for each in marked]


@pytest.mark.parametrize(
    ("verified_at", "days", "caveat"),
    [
        (date(2023, 2, 1), 365, "last verified 2023-02-01, 3 years ago"),
        (date(2025, 2, 28), 365, "last verified 2025-02-28, 1 year ago"),
        (date(2025, 3, 1), 365, None),  # to the day
        (date(2025, 12, 20), 30, "last verified 2025-12-20, 2 months ago"),
        (date(2026, 2, 27), 1, "last verified 2026-02-27, 2 days ago"),
        (date(2026, 9, 1), 365, None),
        (None, 365, None),
    ],
)
def test_a_page_is_stale_once_it_was_verified_too_long_ago(
    verified_at: date | None, days: int, caveat: str | None
) -> None:
    assert caveats(cite("Leave", verified_at), days=days) == [caveat]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Travel policy 2023", "Travel policy 2025"),
        ("2023 Travel Policy", "Travel policy (2024)"),
        ("Budget 2023/24", "Budget 2024/25."),
        ("API guide v1.9", "API guide v1.10"),
        ("API guide 2.9", "API guide, version 3.0"),
        ("Travel policy (old)", "Travel policy"),
    ],
)
def test_of_two_editions_the_older_is_marked_without_any_date(older: str, newer: str) -> None:
    assert caveats(cite(older), cite(newer)) == ["older than [2]", None]
    assert caveats(cite(newer), cite(older)) == [None, "older than [1]"]


@pytest.mark.parametrize("title", ["Travel policy", "Copy of Travel policy", "Travel policy draft"])
def test_of_two_of_one_title_that_which_was_verified_first_is_marked(title: str) -> None:
    first, last = cite("Travel policy", date(2025, 9, 1)), cite(title, date(2026, 1, 1))
    assert caveats(first, last) == ["verified 2025-09-01, older than [2]", None]
    assert caveats(replace(first, verified_at=date(2023, 2, 1)), last) == [
        "last verified 2023-02-01, 3 years ago, older than [2]",
        None,
    ]


def test_an_old_edition_is_the_older_however_late_it_was_verified() -> None:
    old, new = cite("Policy 2023", date(2026, 2, 1)), cite("Policy 2025", date(2025, 9, 1))
    assert caveats(old, new) == ["verified 2026-02-01, older than [2]", None]


def test_only_dates_of_one_kind_are_compared() -> None:
    updated = replace(cite("Leave"), updated_at=datetime(2020, 1, 1, tzinfo=UTC))
    assert caveats(updated, cite("Leave", date(2026, 1, 1))) == [None, None]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Travel policy", "Travel policy"),  # nothing says which is the older
        ("Travel policy", "Travel policy 2025"),
        ("Travel policy 2023", "Leave policy 2025"),
        ("Incident on 2020-02-12", "Incident on 2020-04-08"),
        ("2019-10-22", "2019-10-29"),
        ("Meeting 1.2.2026", "Meeting 8.2.2026"),
        ("Error-2023", "Error-2025"),
        ("ERR_2041", "ERR_2042"),
        ("2023", "2025"),
        ("IPv4", "IPv6"),
        ("12. Security groups", "31. Security groups"),
    ],
)
def test_other_pages_are_not_marked(one: str, other: str) -> None:
    assert caveats(cite(one), cite(other)) == [None, None]


def test_two_sections_of_one_page_are_no_editions() -> None:
    page = cite("Travel policy 2023", date(2026, 1, 1))
    assert caveats(page, page) == [None, None]
