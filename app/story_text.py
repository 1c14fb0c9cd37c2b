"""The story of a question in words, and for programs; pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, date, datetime
from textwrap import indent

from app import hidden
from app.counting import count, list_names
from app.job_findings import SILENT_S
from app.mrkdwn import flatten
from app.story import Before, Job, Kept, Passed, Story, Vote

KEPT_TOLD, LEFT_TOLD = 8, 3  # sections that are told one by one; chosen
TEXT_LENGTH = 300  # of what people wrote
INDENT = " " * 21  # as wide as a time and what stands behind it
HAPPENED = {
    "started": "taken up by a worker",
    "deferred_for_retry": "given back, to be tried again",
}
OUTCOMES = {
    "pending": "no outcome yet",
    "answered": "answered",
    "abstained": "not answered",
    "failed": "failed",
    "stopped": "stopped by its asker, who had seen enough",
}
WHY_NOT = {
    "NO_CANDIDATES": "the search found nothing",
    "BELOW_FLOOR": "nothing that was found is relevant enough",
    "UNKNOWN_IDENTIFIER": "no page mentions what it names",
    "UNSUPPORTED": "what was written does not rest on the pages",
}


def to_json(story: Story) -> str:
    """What `footnote trace --json` prints."""
    return json.dumps(asdict(story), ensure_ascii=False, default=_write)


def _write(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def build(story: Story) -> str:
    """What happened, in order of time, then what each stage took and what is left to do."""
    lines = [f"Question {story.trace_id}: {OUTCOMES[story.outcome]}", "", *_build_question(story)]
    lines += ["", *_build_begin(story), *_build_job(story), *_build_work(story)]
    lines += [*_build_end(story), *_build_after(story)]
    lines += _build_times(story.stage_ms)
    if left := list(_build_left(story)):
        lines += ["", *left]
    return hidden.remove("\n".join(lines))


def _build_question(story: Story) -> Iterator[str]:
    if story.question is None:
        yield "Its asker has deleted it, so its words are not shown."
    else:
        yield indent(story.question.strip(), "> ", lambda _: True)


def _build_begin(story: Story) -> Iterator[str]:
    if before := story.before:
        yield _tell(before.asked_at, f"asked {_build_place(story)}")
        yield from _build_before(before)
        yield _tell(story.asked_at, "edited or asked again, and claimed anew")
    else:
        yield _tell(story.asked_at, f"asked {_build_place(story)}, and claimed")


def _build_place(story: Story) -> str:
    if story.channel_id is None:
        return "in a terminal"
    return f"in {story.channel_id} (message {story.message_ts}, thread {story.thread_ts})"


def _build_before(before: Before) -> Iterator[str]:
    worded = "" if before.question is None else f", then worded {_quote(before.question)}"
    votes = f", {count(before.votes, 'vote')}" if before.votes else ""
    yield f"{INDENT}{OUTCOMES[before.outcome]}{votes}{worded}"


def _build_job(story: Story) -> Iterator[str]:
    """What happened to its job, which is forgotten once it is done."""
    for event in story.job.events if story.job else ():
        if told := HAPPENED.get(event.kind):
            yield _tell(event.at, told)
    if story.attempts > 1:
        yield f"{INDENT}attempt {story.attempts} at it, edits included, is the latest"


def _build_work(story: Story) -> Iterator[str]:
    if story.queries:
        worded = f" ({_build_wording(story)})" if story.rewriting else ""
        yield f"{INDENT}searched for {', '.join(map(_quote, story.queries))}{worded}"
    if story.floor is not None or story.found:
        legs = ", ".join(f"{number} by {leg}" for leg, number in story.legs.items())
        yield f"{INDENT}found {count(story.found, 'section')}: {legs}"
        yield from _build_kept(story)
    if story.unknown:
        yield f"{INDENT}no page mentions {list_names([*map(_quote, story.unknown)])}"
    if story.generator:
        cited = f", citing {', '.join(map(_flat, story.cited))}" if story.cited else ""
        yield f"{INDENT}generator {story.generator}{cited}"
    if story.tokens:
        told = ", ".join(f"{name} {number:,}" for name, number in sorted(story.tokens.items()))
        yield f"{INDENT}tokens: {told}"
    for mode in story.degraded:
        yield f"{INDENT}degraded: {_flat(mode)}"


def _build_wording(story: Story) -> str:
    if story.rewriting == "rules":
        return "worded by rules"
    return f"{story.rewrite_model} to word it: {story.rewriting}"


def _build_kept(story: Story) -> Iterator[str]:
    least = f" of relevance {story.floor:.3f} or more" if story.floor is not None else ""
    yield f"{INDENT}kept {count(len(story.kept), 'section')}{least}"
    yield from map(_build_section, story.kept[:KEPT_TOLD])
    if not story.kept and story.left:
        yield f"{INDENT}nearest were"
        yield from map(_build_section, story.left[:LEFT_TOLD])


def _build_section(kept: Kept) -> str:
    relevance = "     –" if kept.relevance is None else f"{kept.relevance:6.3f}"
    verified = f" (verified {kept.verified_at})" if kept.verified_at else ""
    return f"{INDENT}{relevance}  {_flat(kept.path)}{verified}"


def _build_end(story: Story) -> Iterator[str]:
    if story.completed_at is not None:
        took_s = (story.completed_at - story.asked_at).total_seconds()
        worked_ms = story.stage_ms.get("total")
        worked = "" if worked_ms is None else f", of which the last attempt took {_s(worked_ms)}"
        why = story.error_class or WHY_NOT.get(str(story.abstained_because))
        because = f" ({why})" if why else ""
        yield _tell(
            story.completed_at,
            f"{OUTCOMES[story.outcome]}{because}, {took_s:.1f} s after it was asked{worked}",
        )
    if story.answer_ts:
        yield f"{INDENT}what came of it stands in {story.channel_id}: {', '.join(story.answer_ts)}"


def _build_after(story: Story) -> Iterator[str]:
    """Votes, what was passed on and cases, in order of time."""
    told = [(each.voted_at, _build_vote(each)) for each in story.votes]
    if passed := story.passed:
        told.append((passed.asked_at, _build_passed(passed)))
        if passed.resolved_at:
            told.append((passed.resolved_at, "settled by somebody it was passed on to"))
    if case := story.case:
        told.append((case.linked_at, f"became the case {case.case_id}, {case.state} now"))
        if case.reviewed_at:
            told.append((case.reviewed_at, "that case was decided on"))
    for at, what in sorted(told):
        yield _tell(at, what)
    if fault := story.fault:
        likely = "" if fault.is_known else " likely"
        yield f"{INDENT}at fault{likely}: {fault.stage} – {_flat(fault.why)}"


def _build_vote(vote: Vote) -> str:
    if vote.vote == 0:
        return "a vote was taken back"
    reason = f" {vote.reason}" if vote.reason else ""
    note = f": {_quote(vote.note)}" if vote.note else ""
    page = f"; the right page is {_flat(vote.page)}" if vote.page else ""
    return f"{'👍' if vote.vote > 0 else '👎'}{reason}{note}{page}"


def _build_passed(passed: Passed) -> str:
    place = f"{passed.channel_id}, {passed.ts}" if passed.ts else passed.channel_id
    return f"passed on to people ({place})"


def _build_times(stage_ms: Mapping[str, float]) -> list[str]:
    """What each stage took, the slowest first; nothing where no stage was reached."""
    if not stage_ms:
        return []
    width = max(map(len, stage_ms))
    slowest = sorted(stage_ms.items(), key=lambda each: -each[1])
    return [
        "",
        f"{'stage':{width}}         ms",
        *(f"{name:{width}} {ms:10,.1f}" for name, ms in slowest),
    ]


def _build_left(story: Story) -> Iterator[str]:
    """What is still to be done, and by whom."""
    if story.is_untold:
        yield "Still to be told in Slack: what came of it."
    if story.job:
        yield _build_waiting(story.job)
    elif story.is_untold:
        yield "Nobody is to do so: see in the log what Slack had against it."
    elif story.outcome == "pending" and story.surface == "slack":
        yield "Nobody is to work on it any more: an hour after it was asked, it can be asked again."


def _build_waiting(job: Job) -> str:
    if job.status == "todo":
        later = f", not before {_time(job.not_before)}" if job.not_before else ""
        return f"It waits for a worker{later}; {count(job.ahead, 'job')} ahead of it."
    if job.heard_s is None or job.heard_s > SILENT_S:
        return (
            "Its worker is gone: another one takes over, if one runs. See `footnote doctor`, and "
            "that `footnote serve` or `footnote worker` runs."
        )
    return f"A worker is at it, which gave a sign of life {job.heard_s:.0f} s ago."


def _tell(at: datetime, what: str) -> str:
    return f"{_time(at)}  {what}"


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _s(ms: float) -> str:
    return f"{ms / 1000:.1f} s"


def _quote(words: str) -> str:
    return f"“{_flat(words)}”"


def _flat(words: str) -> str:
    return flatten(words, TEXT_LENGTH)
