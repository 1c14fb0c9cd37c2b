"""The picture of the last runs."""

import struct
from datetime import UTC, datetime, timedelta

import pytest

from app.loop import chart
from app.loop.chart import Point

FIRST = datetime(2026, 10, 1, 3, tzinfo=UTC)


def points(*values: tuple[float | None, float | None]) -> list[Point]:
    """A run a day."""
    return [
        Point(started_at=FIRST + timedelta(days=day), recall=recall, held_out=held_out)
        for day, (recall, held_out) in enumerate(values)
    ]


@pytest.mark.parametrize(
    "drawn",
    [
        points((0.9, 0.8)),
        points((0.9, None), (0.0, None)),
        points((None, None)),
        points(*[(0.9, 0.8)] * 60),
    ],
)
def test_any_runs_make_a_picture_twice_as_wide_as_slack_shows_it(drawn: list[Point]) -> None:
    png = chart.build_png(drawn)
    assert png.startswith(b"\x89PNG")
    assert struct.unpack(">II", png[16:24]) == (1200, 560)
    assert len(png) < 200_000


def test_the_picture_differs_with_the_figures() -> None:
    assert chart.build_png(points((0.9, 0.8))) != chart.build_png(points((0.9, 0.7)))


def test_who_does_not_see_it_is_told_the_figures() -> None:
    assert chart.build_alt_text(points((0.92, 0.9), (0.8, 0.75), (0.91, 0.88))) == (
        "recall@5 of the last 3 runs, 01 Oct 2026 to 03 Oct 2026; all cases 0.91, between 0.80 and "
        "0.92; held out 0.88, between 0.75 and 0.90"
    )
    assert chart.build_alt_text(points((0.9, None))) == (
        "recall@5 of one run, 01 Oct 2026; all cases 0.90, between 0.90 and 0.90"
    )
