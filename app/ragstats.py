"""/ragstats: what is asked for, and the sums as text; pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from app import blocks, mrkdwn
from app.blocks import BLOCK_TEXT, FALLBACK_TEXT, Message
from app.counting import count
from app.stats import MOST_GAPS, Cost, Counts, Gap, Gaps, SetRuns, Source, Stats

PERIODS = {"7d": 7, "30d": 30, "90d": 90}
FEW_GAPS = 5  # shown beside the sums
# Of MOST_GAPS lines with both, each character escaped with five, 8,000 characters: fewer than
# blocks.MESSAGE_TEXT.
QUESTION_LENGTH = 90
NAME_LENGTH = 30

USAGE = """\
*/ragstats [7d|30d|90d] [here] [gaps] [help]*
`7d` `30d` `90d`  the last 7, 30 or 90 days beside as many before; 30 unless you say
`here`  only what was asked in this channel
`gaps`  only what went unanswered or was flagged, and more of it
`help`  this
Only you see the answer. What others asked is shown to admins alone; you see your own questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What somebody wants to see."""

    days: int = 30
    is_here: bool = False  # of this channel alone
    is_gaps: bool = False  # nothing but the gaps, and more of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A heading with what stands below it."""

    title: str
    lines: tuple[str, ...]


def parse(text: str) -> Request | None:
    """What was typed after the command; None where the usage is the answer.

    Words come in any order and case, each once, and at most one period.
    """
    words = text.lower().split()
    periods = [word for word in words if word in PERIODS]
    if len(set(words)) < len(words) or len(periods) > 1 or set(words) - {*PERIODS, "here", "gaps"}:
        return None
    return Request(
        days=PERIODS[periods[0]] if periods else 30,
        is_here="here" in words,
        is_gaps="gaps" in words,
    )


def build_message(stats: Stats, here: str) -> Message:
    """The sums for Slack, and what is answered where they are shown."""
    return build_parts([*_build_parts(stats, mrkdwn.quote), Part(title="Here", lines=(here,))])


def build_gaps(stats: Stats) -> Message:
    """The gaps alone for Slack, more of them."""
    title = f"Unanswered or flagged in {_name_period(stats)}"
    return build_parts([_build_gaps(stats.gaps, title, mrkdwn.quote, MOST_GAPS)])


def build_usage() -> Message:
    """How to ask."""
    return blocks.build_notice(USAGE)


def build_text(stats: Stats) -> str:
    """The sums for the terminal."""
    parts = _build_parts(stats, mrkdwn.flatten)
    return "\n\n".join("\n".join((part.title, *part.lines)) for part in parts)


Quote = Callable[[str, int], str]  # somebody's words on one line, of at most so many characters


def build_parts(parts: Iterable[Part]) -> Message:
    """Parts for Slack, a block each or, where one is long, more."""
    lines: list[str] = []
    sections: list[blocks.Block] = []
    for part in parts:
        lines += [part.title, *part.lines]
        texts = mrkdwn.join_lines([f"*{part.title}*", *part.lines], BLOCK_TEXT)
        sections += map(mrkdwn.build_section, texts)
    return Message(text=mrkdwn.join_lines(lines, FALLBACK_TEXT)[0], blocks=tuple(sections))


def _build_parts(stats: Stats, quote: Quote) -> Iterator[Part]:
    yield build_sums(stats, quote)
    if stats.gaps.groups:
        yield build_few_gaps(stats, quote)
    lines = tuple(filter(None, [_build_pages(stats), _build_runs(stats.runs, quote)]))
    yield Part(title="The index", lines=lines)


def build_sums(stats: Stats, quote: Quote) -> Part:
    """What was asked and what came of it, beside the period before."""
    period = _name_period(stats)
    if not stats.counts.asked:
        return Part(title=f"Nobody has asked anything in {period}.", lines=())
    beside = f", beside the {stats.scope.days} before" if stats.before.asked else ""
    lines = (
        *_build_counts(stats.counts, stats.before),
        *_build_cost(stats.counts.cost, stats.before.cost, quote),
        *_build_at_fault(stats),
    )
    return Part(title=f"In {period}{beside}", lines=lines)


def build_few_gaps(stats: Stats, quote: Quote) -> Part:
    """The most frequent gaps."""
    return _build_gaps(stats.gaps, "Unanswered or flagged", quote, FEW_GAPS)


def _name_period(stats: Stats) -> str:
    where = " in this channel" if stats.scope.channel_id else ""
    return f"the last {count(stats.scope.days, 'day')}{where}"


def _build_counts(counts: Counts, before: Counts) -> Iterator[str]:
    yield f"Asked: {counts.asked:,}{_trend(counts.asked, before.asked) if before.asked else ''}"
    for name, field in (
        ("Answered", "answered"),
        ("Abstained", "abstained"),
        ("Failed", "failed"),
        ("Over the hourly limit", "limited"),
        ("Stopped", "stopped"),
        ("Flagged 👎", "flagged"),
        ("Helpful 👍", "helpful"),
    ):
        is_rare = field in ("limited", "stopped")
        if not is_rare or getattr(counts, field) or getattr(before, field):
            yield f"{name}: {_build_share(field, counts, before)}"
    if counts.median_ms is not None and counts.p95_ms is not None:
        trend = ""
        if before.median_ms is not None:
            trend = _trend(round(counts.median_ms, -2), round(before.median_ms, -2), _seconds)
        yield (
            f"Time to answer: median {_seconds(counts.median_ms)}{trend}, "
            f"95% within {_seconds(counts.p95_ms)}"
        )
    if counts.input_tokens or counts.output_tokens:
        yield f"Tokens: {counts.input_tokens:,} in, {counts.output_tokens:,} out"


def _build_cost(cost: Cost | None, before: Cost | None, quote: Quote) -> Iterator[str]:
    """What the models cost; how that has moved only where all of them have a price."""
    if cost is None:
        return
    if cost.unpriced:
        names = ", ".join(quote(name, NAME_LENGTH) for name in cost.unpriced)
        yield f"Cost: {_dollars(cost.usd)}, without {names}: no price in PRICES"
        return
    trend = ""
    if before and not before.unpriced:
        trend = _trend(round(cost.usd, 2), round(before.usd, 2), _dollars)
    yield f"Cost: {_dollars(cost.usd)}{trend}"


def _build_at_fault(stats: Stats) -> Iterator[str]:
    """Where what was flagged went wrong, the most frequent first."""
    known = sorted(stats.at_fault.items(), key=lambda stage: (-stage[1], stage[0]))
    counts = [f"{stage} {number:,}" for stage, number in known]
    if stats.fault_not_known:
        counts.append(f"not known yet {stats.fault_not_known:,}")
    if counts:
        yield f"Stage at fault: {', '.join(counts)}"


def _build_share(field: str, counts: Counts, before: Counts) -> str:
    """A count with its share of what was asked, and how that has moved."""
    number: int = getattr(counts, field)
    share = round(100 * number / counts.asked)
    trend = ""
    if before.asked:
        trend = _trend(share, round(100 * getattr(before, field) / before.asked), _points)
    return f"{number:,} ({share}%){trend}"


def _trend(now: float, before: float, show: Callable[[float], str] = "{:,.0f}".format) -> str:
    if now == before:
        return " ="
    return f" {'↑' if now > before else '↓'} {show(abs(now - before))}"


def _points(number: float) -> str:
    return f"{number:.0f} {'point' if number == 1 else 'points'}"


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.1f} s"


def _dollars(usd: float) -> str:
    if 0 < usd < 0.01:
        return "under $0.01"
    return f"${usd:,.0f}" if usd >= 100 else f"${usd:.2f}"


def _build_gaps(gaps: Gaps, title: str, quote: Quote, most: int) -> Part:
    shown = gaps.top[:most]
    lines = [
        line if (alike := len(list(same))) == 1 else f"{line} · {alike} such questions"
        for line, same in groupby(_build_gap(gap, quote) for gap in shown)
    ]
    if gaps.groups > len(shown):
        rest = gaps.questions - sum(gap.count for gap in shown)
        counted = count(rest, "question")
        lines.append(f"and {counted} more" if lines else counted)
    if not lines:
        lines = ["Nothing."]
    return Part(title=title, lines=tuple(lines))


def _build_gap(gap: Gap, quote: Quote) -> str:
    question = quote(gap.question, QUESTION_LENGTH) if gap.question else "asked by others"
    # Slack would take what is first on a line for a mark of its own: of a quotation, a list.
    line = f"{gap.count:,} × {question} · {_build_outcome(gap)}"
    return f"{line} · no page mentions {quote(gap.name, NAME_LENGTH)}" if gap.name else line


def _build_outcome(gap: Gap) -> str:
    """What came of the questions; with numbers where it is not the same for all."""
    outcomes = {"not answered": gap.abstained, "flagged 👎": gap.flagged}
    return ", ".join(
        name if number == gap.count else f"{number:,} {name}"
        for name, number in outcomes.items()
        if number
    )


def _build_pages(stats: Stats) -> str:
    """How many pages there are, and how fresh."""
    pages = sum(source.pages for source in stats.sources)
    return f"Pages: {pages:,}{build_freshness(stats.sources, stats.freshness_days)}"


def build_freshness(sources: Iterable[Source], freshness_days: int) -> str:
    """What follows the number of pages: how many of them are how fresh; "" of none."""
    listed = list(sources)
    fresh, stale, undated = (
        sum(getattr(source, name) for source in listed) for name in ("fresh", "stale", "undated")
    )
    facts = []
    if fresh:
        facts.append(f"{fresh:,} verified within {freshness_days:,} days")
    if stale:
        facts.append(f"{stale:,} longer ago")
    if undated:
        facts.append(f"{undated:,} without a verification date")
    return f" ({', '.join(facts)})" if facts else ""


def _build_runs(runs: Sequence[SetRuns], quote: Quote) -> str:
    shown = (f"{quote(run.name, NAME_LENGTH)} {_build_recall(run)}" for run in runs)
    return f"recall@5: {' · '.join(shown)}" if runs else ""


def _build_recall(run: SetRuns) -> str:
    before = "" if run.before is None else f"{run.before:.2f} → "
    return f"{before}{run.recall_at_5:.2f}"
