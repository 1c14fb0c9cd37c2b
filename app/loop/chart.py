"""recall@5 of the last runs as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

# Slack shows a picture 360 to 600 pixels wide; what is twice that stays sharp, and its letters are
# as large as the text around it.
WIDTH, HEIGHT = 6.0, 2.8  # inches
DPI = 200
LETTERS = 13
ALL, HELD_OUT, QUIET = "#1f6f8b", "#c2703d", "#8a857c"  # apart in lightness, too
DATES = 4  # most of them that stand side by side
DAY_S = 86_400
LEAST_RANGE = 0.1  # of recall@5 that the picture spans: a wobble is not to look like a fall


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run; a part that had no case has no figure."""

    started_at: datetime
    recall: float | None
    held_out: float | None


def build_png(points: Sequence[Point]) -> bytes:
    """The picture of at least one run, oldest first."""
    # Figure and canvas without pyplot, whose state all threads share.
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _draw(axes, points, "held out", HELD_OUT, [point.held_out for point in points])
    _draw(axes, points, "all", ALL, [point.recall for point in points])
    _scale(axes, points)
    picture = BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def build_alt_text(points: Sequence[Point]) -> str:
    """What the picture shows, in words."""
    first, last = (f"{point.started_at:%d %b %Y}" for point in (points[0], points[-1]))
    runs = f"the last {len(points)} runs, {first} to {last}"
    told = f"recall@5 of {f'one run, {first}' if len(points) == 1 else runs}"
    for name, values in (
        ("all cases", [point.recall for point in points]),
        ("held out", [point.held_out for point in points]),
    ):
        known = [value for value in values if value is not None]
        if known:
            told += f"; {name} {known[-1]:.2f}, between {min(known):.2f} and {max(known):.2f}"
    return told


def _draw(
    axes: Axes, points: Sequence[Point], name: str, colour: str, values: Sequence[float | None]
) -> None:
    """A line with its last value beside it."""
    known = [
        (point.started_at, v) for point, v in zip(points, values, strict=True) if v is not None
    ]
    if not known:
        return
    times, figures = zip(*known, strict=True)
    axes.plot(times, figures, color=colour, linewidth=2.2, marker="o", markersize=3.5)
    axes.plot(times[-1:], figures[-1:], color=colour, marker="o", markersize=7)
    axes.annotate(
        f"{name} {figures[-1]:.2f}",
        (times[-1], figures[-1]),
        xytext=(9, _find_shift(name, points)),
        textcoords="offset points",
        va="center",
        color=colour,
        fontsize=LETTERS,
        fontweight="bold",
        annotation_clip=False,
    )


def _find_shift(name: str, points: Sequence[Point]) -> float:
    """How far a label is moved up so that it does not stand on the other one."""
    recall, held_out = points[-1].recall, points[-1].held_out
    if recall is None or held_out is None:
        return 0
    above = recall >= held_out
    return 8 if (name == "all") == above else -8


def _place(time: datetime) -> float:
    """Where a time stands on the axis, in days."""
    return time.timestamp() / DAY_S


def _choose_dates(first: datetime, last: datetime) -> dict[str, datetime]:
    """Some days from the first to the last, as far from one another as can be, by their names."""
    step = (last - first) / (DATES - 1)
    chosen = [first + number * step for number in range(DATES)]
    return {f"{time.day} {time:%b}": time for time in chosen}


def _scale(axes: Axes, points: Sequence[Point]) -> None:
    known = [v for point in points for v in (point.recall, point.held_out) if v is not None]
    if known:
        middle, spread = (min(known) + max(known)) / 2, max(max(known) - min(known), LEAST_RANGE)
        low, high = middle - 0.65 * spread, middle + 0.65 * spread
        axes.set_ylim(max(low, -0.03), min(high, 1.03))
        axes.yaxis.set_major_locator(MultipleLocator(0.05 if spread <= 0.2 else 0.2))
    dates = _choose_dates(points[0].started_at, points[-1].started_at)
    axes.set_xticks(list(map(_place, dates.values())), labels=list(dates))
    axes.set_title("recall@5", loc="left", fontsize=LETTERS, color=QUIET)
    axes.tick_params(labelsize=LETTERS, colors=QUIET, length=0)
    axes.grid(axis="y", color="#e4e0d8", linewidth=1)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
