"""Which cited pages are marked as ones that may no longer hold."""

from dataclasses import replace
from datetime import date

import pytest

from app import freshness
from app.records import Citation

TODAY = date(2026, 3, 1)


def cite(title: str, verified_at: date | None = None, *, path: str = "hr/a.md") -> Citation:
    return Citation(
        marker=1,
        section_id=1,
        path=path,
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
        ("Salary bands 2023/24", "Salary bands 2024–25."),
        ("Bonus plan FY2024", "Bonus plan FY25"),
        ("Travel policy v1.9", "Travel policy, version 1.10"),
        ("Budget 2025 v1", "Budget 2025 v2"),
        ("SOP-12 rev. 3", "SOP-12, revision 4"),
        ("Travel policy rev 9", "Travel policy rev 10"),
        ("Travel policy (old)", "Travel policy"),
        ("[Archived] Travel policy", "Travel policy"),
        ("Onboarding – archive", "Onboarding"),
        ("Copy of Onboarding", "Onboarding"),
    ],
)
def test_of_two_editions_the_older_is_marked_however_late_it_was_verified(
    older: str, newer: str
) -> None:
    assert caveats(cite(older), cite(newer)) == ["older than [2]", None]
    assert caveats(cite(newer), cite(older)) == [None, "older than [1]"]
    late, early = cite(older, date(2026, 2, 1)), cite(newer, date(2025, 9, 1))
    assert caveats(late, early) == ["verified 2026-02-01, older than [2]", None]


def test_an_older_edition_that_is_stale_is_told_as_both() -> None:
    old = cite("Travel policy (old)", date(2023, 2, 1))
    assert caveats(old, cite("Travel policy")) == [
        "last verified 2023-02-01, 3 years ago, older than [2]",
        None,
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Travel policy", "Travel policy"),  # each shows when it was verified
        ("FAQ", "FAQ"),
        ("Travel policy", "Travel policy 2025"),
        ("Travel policy 2023", "Leave policy 2025"),
        ("Leave policy v2", "Leave policy v2.0"),
        ("Travel policy 2026", "Travel policy 2027"),  # not in force yet
        ("Travel policy", "Travel policy (draft)"),
        ("Holidays 2025", "Holidays 2026"),
        ("Annual report 2024", "Annual report 2025"),
        ("Class of 2024", "Class of 2025"),
        ("Marketing plan 2025", "Marketing plan 2026"),
        ("Tax rates 2024", "Tax rates 2025"),
        ("Controller board rev 1", "Controller board rev 2"),  # both are in use
        ("Windows Server 2019 hardening guide", "Windows Server 2022 hardening guide"),
        ("Office 2019", "Office 2021"),
        ("Billing API v1", "Billing API v2"),
        ("API guide v1", "API guide v2"),
        ("TLS 1.2", "TLS 1.3"),
        ("RFC 2041", "RFC 2050"),
        ("Room 2041", "Room 2050"),
        ("Archived projects", "Projects"),
        ("Old town office", "Town office"),
        ("Directions (old office)", "Directions"),
        ("Draft beer policy", "Beer policy"),
        ("Onboarding (1)", "Onboarding"),
        ("Incident on 2020-02-12", "Incident on 2020-04-08"),
        ("2019-10-22", "2019-10-29"),
        ("Error-2023", "Error-2025"),
        ("2023", "2025"),
        ("12. Security groups", "31. Security groups"),
    ],
)
def test_other_pages_are_not_marked(one: str, other: str) -> None:
    for first, last in ((one, other), (other, one)):
        assert caveats(cite(first), cite(last)) == [None, None]
        dated = cite(first, date(2025, 9, 1)), cite(last, date(2026, 1, 1))
        assert caveats(*dated) == [None, None]


@pytest.mark.parametrize(
    ("older", "newer", "caveat"),
    [
        ("hr/2023/travel.md", "hr/2025/travel.md", "older than [2]"),
        ("hr/archive/travel.md", "hr/travel.md", "older than [2]"),
        ("germany/travel.md", "spain/travel.md", None),
        ("hr/travel.md", "hr/germany/travel.md", None),
    ],
)
def test_editions_lie_in_one_folder_but_for_what_it_says_of_their_age(
    older: str, newer: str, caveat: str | None
) -> None:
    old, new = cite("Travel policy 2023", path=older), cite("Travel policy 2025", path=newer)
    assert caveats(old, new) == [caveat, None]


def test_two_sections_of_one_page_are_no_editions() -> None:
    page = cite("Travel policy 2023", date(2026, 1, 1))
    assert caveats(page, page) == [None, None]
