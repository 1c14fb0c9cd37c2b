"""Whether every question was answered or given up with a message, exactly once.

Judged by what stands in Slack at the end, and by the database.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from typing import Any

from .faulty_claude import find_word
from .faulty_slack import find_trace_id, is_ours
from .traffic import Asked
from .world import World

Json = dict[str, Any]
FEW_WORDS = 4  # with fewer nothing is explained
_LINK = re.compile(r"<[^|<>]*\|([^<>]*)>|\]\([^()\s]*\)|<https?:[^<>]*>")
# Not shown: the language of code and, of a wide table, the names of its first column and of empty
# cells.
_UNSHOWN = re.compile(r"^\|.*\n(?=\|[ :|-]+$)|(?<=```)\w+$", re.MULTILINE)
_BUTTONS = ("context_actions", "actions")
# Not a trace's own columns in older versions: then nothing is known of them.
_TRACES = "SELECT to_jsonb(traces) AS trace FROM traces"
_ADVISORY = "SELECT count(*) AS locks FROM pg_locks WHERE locktype = 'advisory'"
_IDLE = """
    SELECT count(*) AS sessions FROM pg_stat_activity
    WHERE state LIKE 'idle in transaction%' AND state_change < now() - interval '10 seconds'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Something that must not be."""

    kind: str
    what: str
    trace_id: str | None = None
    asked: Asked | None = None


@dataclass(slots=True, kw_only=True)
class Judgement:
    """What came of the questions."""

    violations: list[Violation] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    attempts: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)  # from a question to its answer
    told_privately: int = 0
    unsigned: int = 0  # messages that do not say of which question they are


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """All that stands in Slack of one question."""

    messages: Sequence[Json]
    privately: Sequence[Json]


def judge(world: World) -> Judgement:
    """The judgement on all that was asked, once nothing goes on any more."""
    rows = [row["trace"] for row in world.server.query(_TRACES)]
    traces = {(row["channel_id"], row["message_ts"]): row for row in rows}
    standing = {
        channel_id: world.slack.messages(channel_id)
        for channel_id in sorted({asked.message["channel"] for asked in world.traffic.asked})
    }
    # What has grown and was replaced does not say itself whose it is.
    keepers = {(row["channel_id"], ts): row["trace_id"] for row in rows for ts in row["answer_ts"]}
    judgement = Judgement()
    by_trace: defaultdict[str, list[Json]] = defaultdict(list)
    for channel_id, messages in standing.items():
        for message in filter(is_ours, messages):
            named = find_trace_id(message)
            judgement.unsigned += named is None
            if trace_id := named or keepers.get((channel_id, message["ts"])):
                by_trace[trace_id].append({**message, "channel": channel_id})
            else:
                judgement.violations.append(_judge_stray(world, channel_id, message))
    private: defaultdict[str | None, list[Json]] = defaultdict(list)
    for shown in world.slack.shown_privately:
        private[_find_reference(shown, rows)].append(shown)
    judgement.told_privately = len(world.slack.shown_privately)
    # A notice may have been given though the question could not even be kept.
    unknown: defaultdict[tuple[str, str], list[Json]] = defaultdict(list)
    for trace_id in set(by_trace) - {row["trace_id"] for row in rows}:
        for message in by_trace.pop(trace_id):
            unknown[message["channel"], message["thread_ts"]].append(message)
    for asked in world.traffic.asked:
        trace = traces.get(asked.place)
        trace_id = trace and trace["trace_id"]
        told = _Told(
            messages=[
                *(by_trace.pop(trace_id, []) if trace_id else []),
                *unknown.pop((asked.place[0], asked.thread_ts), []),
            ],
            privately=private[trace_id] if trace_id else [],
        )
        for kind, what in _judge_question(world, asked, trace, told, judgement):
            judgement.violations.append(
                Violation(kind=kind, what=what, trace_id=trace_id, asked=asked)
            )
    for trace_id in [
        *by_trace,
        *(find_trace_id(each) for left in unknown.values() for each in left),
    ]:
        judgement.violations.append(
            Violation(kind="nobody's", what="a message of no question", trace_id=trace_id)
        )
    judgement.violations += _judge_rest(world, standing, rows)
    return judgement


def _judge_question(
    world: World, asked: Asked, trace: Json | None, told: _Told, judgement: Judgement
) -> Iterator[tuple[str, str]]:
    """What is wrong with one question: kind and words."""
    if trace is None:
        if told.messages:
            judgement.outcomes["given up"] += 1
        elif not asked.is_deleted:
            judgement.outcomes["lost"] += 1
            yield "lost", "it was never taken"
        return
    judgement.attempts[int(trace.get("attempts") or 1)] += 1
    if trace["outcome"] == "pending" or not trace["completed_at"]:
        yield "half a trace", f"its outcome is {trace['outcome']}"
    if trace.get("outbox") is not None:
        yield "half a trace", "something is still to be told"
    count = len(told.messages) + len(told.privately)
    if asked.is_deleted:
        judgement.outcomes["deleted"] += 1
        if told.messages:
            yield "stands", "its question was deleted"
        return
    if asked.word and asked.word not in trace["question"]:
        yield "earlier wording", "it was edited, and the edit not taken"
    if count == 0:
        judgement.outcomes["lost"] += 1
        yield "lost", f"nothing stands there; its trace is {trace['outcome']}"
        return
    if count > 1:
        judgement.outcomes["twice"] += 1
        yield "twice", f"{len(told.messages)} messages, {len(told.privately)} for one person"
        return
    is_failed = trace["outcome"] not in ("answered", "abstained")
    judgement.outcomes["given up" if is_failed else trace["outcome"]] += 1
    for message in told.messages:
        at = world.slack.told_at.get((message["channel"], message["ts"]))
        judgement.seconds.append(at - asked.asked_at if at is not None else 0)
        if (message["channel"], message.get("thread_ts")) != (asked.place[0], asked.thread_ts):
            yield "misplaced", f"it stands at {message['channel']} {message.get('thread_ts')}"
        if not is_failed:
            yield from _judge_text(asked, trace, _read(message))


def _judge_text(asked: Asked, trace: Json, shown: str) -> Iterator[tuple[str, str]]:
    if trace["outcome"] == "abstained":
        # The trace, which others may read, tells less of what there is than the asker is told.
        if len(_split(shown)) < FEW_WORDS:
            yield "not whole", "it says nothing"
        return
    answer = _UNSHOWN.sub("", trace["answer"] or "")
    missing = Counter(_split(answer)) - Counter(_split(shown))
    if missing:
        yield "not whole", f"missing of the trace's answer: {' '.join(list(missing)[:8])}"
    if not trace["answer"]:
        yield "not whole", "the trace has no answer"
    word = find_word(shown)
    if word and asked.word and word not in trace["question"]:
        yield "another's", f"it answers what {word} asked, not {asked.word}"


def _judge_stray(world: World, channel_id: str, message: Json) -> Violation:
    is_growing = (channel_id, message["ts"]) in world.slack.list_growing()
    at = f"{channel_id} {message['ts']} in thread {message.get('thread_ts')}"
    asked = next(
        (
            each
            for each in world.traffic.asked
            if (each.place[0], each.thread_ts) == (channel_id, message.get("thread_ts"))
        ),
        None,
    )
    return Violation(
        kind="half a message" if is_growing or not _read(message).strip() else "unsigned",
        what=f"{'growing' if is_growing else 'left'} at {at}",
        asked=asked,
    )


def _judge_rest(
    world: World, standing: Mapping[str, Sequence[Json]], rows: Sequence[Json]
) -> Iterator[Violation]:
    """What is left over: growing messages, signs, jobs, locks, and what nobody acknowledged."""
    by_place = {asked.place: asked for asked in world.traffic.asked}
    by_thread = {(each.place[0], each.thread_ts): each for each in world.traffic.asked}
    signed = {str(find_trace_id(m)) for messages in standing.values() for m in messages}
    for channel_id, ts in world.slack.list_growing():
        messages = [m for m in standing.get(channel_id, []) if m["ts"] == ts]
        if messages and find_trace_id(messages[0]) in signed:
            yield Violation(kind="half a message", what=f"growing at {channel_id} {ts}")
    for channel_id, messages in standing.items():
        for message in messages:
            if any(each["name"] == "eyes" for each in message.get("reactions", [])):
                yield Violation(
                    kind="sign left",
                    what=f"eyes at {channel_id} {message['ts']}",
                    asked=by_place.get((channel_id, message["ts"])),
                )
    there = {(where, m["ts"]) for where, messages in standing.items() for m in messages}
    for place in world.slack.list_statuses():
        if place in there:
            yield Violation(
                kind="sign left", what=f"a status in {place}", asked=by_thread.get(place)
            )
    for delivery in world.deliveries.all:
        if delivery.acked_at is None:
            yield Violation(
                kind="unacknowledged",
                what=f"{delivery.event_id}, sent {len(delivery.envelope_ids)} times",
                asked=by_place.get((delivery.event["channel"], delivery.event["ts"])),
            )
    row = world.find_open()
    if row is None or row["jobs"]:
        yield Violation(kind="job left", what=f"{row and row['jobs']} jobs in the queue")
    places = Counter((each["channel_id"], each["message_ts"]) for each in rows)
    for place, number in places.items():
        if number > 1:
            yield Violation(kind="twice", what=f"{number} traces of the message at {place}")
    for statement, name in ((_ADVISORY, "locks"), (_IDLE, "sessions")):
        (found,) = world.server.query(statement)
        if found[name]:
            yield Violation(kind="lock left", what=f"{found[name]} {name} in PostgreSQL")


def _find_reference(shown: Mapping[str, Any], rows: Sequence[Json]) -> str | None:
    """Of which question a message to one person is: it names it, or stands in its thread."""
    text = _read(shown)
    for row in rows:
        if row["trace_id"] in text:
            return str(row["trace_id"])
    place = (shown.get("channel"), shown.get("user"), shown.get("thread_ts"))
    for row in rows:
        thread_ts = row["thread_ts"] or row["message_ts"]
        is_told = row["outcome"] == "failed"
        if is_told and place == (row["channel_id"], row["user_id"], thread_ts):
            return str(row["trace_id"])
    return None


def _read(message: Mapping[str, Any]) -> str:
    """What a message says, without its buttons."""
    blocks = [each for each in message.get("blocks") or [] if each.get("type") not in _BUTTONS]
    return " ".join([message.get("text") or "", *_texts(blocks)])


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(value.get("text"), str):
            yield value["text"]
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _split(text: str) -> list[str]:
    """The words of a text, whatever marks it has for Slack or as Markdown."""
    plain = _LINK.sub(lambda found: f" {found[1] or ''} ", unescape(text))
    return re.findall(r"[^\W_]+", plain.casefold())
