"""What is posted of a run over the set, for Slack; pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from app import mrkdwn
from app.blocks import BLOCK_TEXT, Message
from app.counting import count
from app.eval_runs import Run, StoredRun
from app.figures import FAULTS
from app.loop.drops import FEWEST, METRIC
from app.loop.tickets import Alarm, News
from retrieval.comparison import Change, Difference
from retrieval.evaluation import CaseResult

QUESTION_LENGTH = 120  # of one on a line of its own
LABEL_LENGTH = 80
REASON_LENGTH = 300
CAUSE_LENGTH = 550  # a block takes it even if all of it is escaped; the ticket has the whole
CHANGES_TEXT = 4_000  # of cases won or lost each, with their links; the others are counted
TICKETS = {
    "opened": "Ticket opened",
    "told": "Told in the ticket",
    "closed": "Recovered; ticket closed",
    "open": "Ticket is open",
    "failed": "The tracker did not take it; the next run tries again",
    "given up": "The tracker takes nothing more for the ticket; the next drop opens another",
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
        *mrkdwn.join_lines(_build_alarm(night), BLOCK_TEXT),
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
    yield f"*Run {run.run_id}*: {count(len(run.results), 'approved case')}, {night.took_s:.0f} s"
    if run.index.failure:
        reason = mrkdwn.escape(mrkdwn.flatten(run.index.failure, REASON_LENGTH))
        yield f"*Nothing could be searched*, so nothing was found: {reason}"
    if night.recall is None:
        yield f"No case has a page that answers it: there is no {METRIC} to measure."
    for name, figure in ((METRIC, night.recall), ("held out", night.held_out)):
        if figure:
            told = f"*{name} {figure.value:.2f}* over {count(figure.cases, 'case')}"
            yield f"{told}{_build_change(figure, night.before)}"


def _build_change(figure: Figure, before: StoredRun | None) -> str:
    found = figure.difference
    if before is None or found is None:
        return ""
    gain = f"{100 * (found.after - found.before):+.1f}".replace("-", "−")
    change = "unchanged" if found.before == found.after else f"{gain} points"
    is_part = found.case_count < figure.cases
    run = f"run {before.run_id}"
    compared = f"on the {found.case_count} that {run} has too" if is_part else f"against {run}"
    return f" ({change} {compared}{_judge(found)})"


def _judge(found: Difference) -> str:
    """What speaks against a change that is to be seen."""
    low, high = found.interval
    if found.before == found.after:
        return ""
    if found.case_count < FEWEST:
        return ", too few cases to tell"
    return ", within noise" if low <= 0 <= high else ""


def _build_alarm(night: Night) -> Iterator[str]:
    alarm, news = night.alarm, night.news
    if alarm:
        found, good = alarm.drop.difference, alarm.good
        yield (
            f"*Fallen beyond noise* since run {good.run_id} of {good.started_at:%d %b}: "
            f"{found.before:.2f} → {found.after:.2f} over {count(found.case_count, 'case')}, "
            f"{len(found.lost)} lost."
        )
        likely = [cause for cause in alarm.causes if cause.explains]
        told = likely[0].told if likely else "nothing that I know of changed."
        yield f"Likeliest cause: {mrkdwn.escape(mrkdwn.flatten(told, CAUSE_LENGTH))}"
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
            lines = [f"*{count(len(changes), 'case')} {verb}*", *_build_lines(night, changes)]
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
        yield f"{count(night.orphaned, 'approved case')} orphaned: what answers them {told}"
    if night.proposed:
        yield f"{count(night.proposed, 'proposed case')} to be reviewed."
