"""What is posted of a run over the set, for Slack; pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from app import mrkdwn
from app.blocks import BLOCK_TEXT, Message
from app.evaluating import Run, StoredRun
from app.figures import FAULTS
from app.loop.drops import METRIC
from app.loop.tickets import Alarm, News
from retrieval.comparison import Change, Difference
from retrieval.evaluation import CaseResult

QUESTION_LENGTH = 120  # of one on a line of its own
LABEL_LENGTH = 80
REASON_LENGTH = 300
CHANGES_TEXT = 4_000  # of cases won or lost each, with their links; the others are counted
TICKETS = {
    "opened": "Ticket opened",
    "told further": "Told in the ticket",
    "closed": "Recovered; ticket closed",
    "open": "Ticket is open",
    "failed": "The tracker did not take it; the next run tries again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLink:
    """A page of the index."""

    title: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """recall@5 of a part of the set."""

    cases: int  # that have a recall
    value: float
    difference: Difference | None  # to the run before, over the cases that both have; None: no one


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """A run, and all that is told of it."""

    run: Run
    before: StoredRun | None  # the last run of the set
    recall: Figure | None  # None: no case has a page that answers it
    held_out: Figure | None  # of the cases that nothing is fitted on
    pages: Mapping[str, PageLink]  # by path, those that answer the cases won and lost
    alarm: Alarm | None  # the drop that is to be seen, new or not
    news: News | None  # of its ticket
    orphaned: int  # approved cases
    proposed: int  # cases
    took_s: float


def build_message(night: Night) -> Message:
    """The report."""
    texts = [
        "\n".join(_build_head(night)),
        "\n".join(_build_alarm(night)),
        *_build_changes(night),
        "\n".join(_build_rest(night)),
    ]
    blocks = tuple(mrkdwn.build_section(text) for text in texts if text)
    return Message(text=texts[0], blocks=blocks)


def add_note(message: Message, note: str) -> Message:
    """The message with a line of small print below."""
    return replace(message, blocks=(*message.blocks, mrkdwn.build_context(mrkdwn.escape(note))))


def _build_head(night: Night) -> Iterator[str]:
    run = night.run
    yield f"*Run {run.run_id}*: {_count(len(run.results), 'approved case')}, {night.took_s:.0f} s"
    if run.index.failure:
        reason = mrkdwn.escape(mrkdwn.flatten(run.index.failure, REASON_LENGTH))
        yield f"*Nothing could be searched*, so nothing was found: {reason}"
    for name, figure in ((METRIC, night.recall), ("held out", night.held_out)):
        if figure:
            yield f"*{name} {figure.value:.2f}* {_build_change(figure, night.before)}"


def _build_change(figure: Figure, before: StoredRun | None) -> str:
    if before is None or figure.difference is None:
        return f"over {_count(figure.cases, 'case')}"
    found = figure.difference
    gain = f"{100 * (found.after - found.before):+.1f}".replace("-", "−")
    change = "unchanged" if found.before == found.after else f"{gain} points"
    compared = f"against run {before.run_id}"
    if found.case_count < figure.cases:
        compared += f", over the {found.case_count} that it has too"
    low, high = found.interval
    noise = ", within noise" if found.before != found.after and low <= 0 <= high else ""
    return f"({change} {compared}{noise}), over {_count(figure.cases, 'case')}"


def _build_alarm(night: Night) -> Iterator[str]:
    alarm, news = night.alarm, night.news
    if alarm:
        found, good = alarm.drop.difference, alarm.good
        yield (
            f"*Fallen beyond noise* since run {good.run_id} of {good.started_at:%d %b}: "
            f"{found.before:.2f} → {found.after:.2f} over {_count(found.case_count, 'case')}, "
            f"{len(found.lost)} lost."
        )
        likely = [cause for cause in alarm.causes if cause.explains]
        told = mrkdwn.escape(likely[0].told) if likely else "nothing that I know of changed."
        yield f"Likeliest cause: {told}"
    if news:
        place = news.reference or ""
        is_address = place.startswith(("https://", "http://"))
        label = f"#{place.rsplit('/', 1)[-1]}" if is_address else place
        yield " ".join(filter(None, (TICKETS[news.event], mrkdwn.link(place, label)))) + "."


def _build_changes(night: Night) -> Iterator[str]:
    """The cases lost and won since the run before, as texts that fit a block."""
    if night.recall is None or night.recall.difference is None:
        return
    for verb, changes in (
        ("lost", night.recall.difference.lost),
        ("won", night.recall.difference.won),
    ):
        if changes:
            lines = [f"*{_count(len(changes), 'case')} {verb}*", *_build_lines(night, changes)]
            yield from mrkdwn.join_lines(lines, BLOCK_TEXT)


def _build_lines(night: Night, changes: Sequence[Change]) -> list[str]:
    results = {result.case.case_id: result for result in night.run.results}
    lines: list[str] = []
    for number, change in enumerate(changes):
        line = _build_line(results[change.case_id], night.pages)
        if sum(map(len, lines)) + len(line) > CHANGES_TEXT:
            return [*lines, f"and {len(changes) - number} more"]
        lines.append(line)
    return lines


def _build_line(result: CaseResult, pages: Mapping[str, PageLink]) -> str:
    """A case: its question, the page that answers it and, where it is lost, where it was lost."""
    lost = [trail for trail in result.trails if trail.fault]
    trail = next(iter(lost or result.trails))
    path = trail.answer[0].doc
    page = pages.get(path)
    place = (
        mrkdwn.link(page.url, mrkdwn.flatten(page.title, LABEL_LENGTH))
        if page
        else mrkdwn.quote(path, LABEL_LENGTH)
    )
    how = f": {FAULTS[trail.fault]}" if trail.fault else ""
    return f"• {mrkdwn.quote(result.case.question, QUESTION_LENGTH)} → {place}{how}"


def _build_rest(night: Night) -> Iterator[str]:
    if night.orphaned:
        told = "stands on no page any more: `footnote cases list` names them."
        yield f"{_count(night.orphaned, 'approved case')} orphaned: what answers them {told}"
    if night.proposed:
        yield f"{_count(night.proposed, 'proposed case')} to be reviewed."


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"
