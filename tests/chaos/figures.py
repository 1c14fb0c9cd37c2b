"""What a run prints."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from .delivering import ACK_S
from .judging import Judgement, Violation
from .world import World

MOST_TOLD = 12  # violations of a kind whose story is told


def print_figures(world: World, judgement: Judgement, *, wall_s: float) -> None:
    """What was asked, what went wrong, what came of it."""
    asked, processes = world.traffic.asked, world.processes
    print(f"\nquestions            {len(asked)} in {wall_s:.0f} s")
    kinds = Counter(each.kind for each in asked)
    print(f"  kinds              {_list(kinds)}")
    print(f"  came to            {_list(judgement.outcomes)}")
    print(f"  privately told     {judgement.told_privately}")
    print(f"  unsigned messages  {judgement.unsigned}")
    print(f"kills                {processes.kills}")
    print(f"ended by themselves  {_list(Counter(f'{n} {s}' for n, s in processes.died)) or 'none'}")
    counts = world.tally.counts()
    total = sum(n for (boundary, _), n in counts.items() if boundary != "process")
    print(f"faults               {total}")
    for boundary in dict.fromkeys(boundary for boundary, _ in counts):
        ways = {way: n for (where, way), n in counts.items() if where == boundary}
        print(f"  {boundary:<18} {sum(ways.values())}: {_list(ways)}")
    print(f"calls                Slack {world.slack.call_count}, Claude {_count(world)}")
    print(f"attempts             {_list(dict(sorted(judgement.attempts.items())))}")
    print(f"seconds to answer    {describe(judgement.seconds)}")
    print_acks(world)
    print(f"process ready after  {describe(processes.start_seconds)} s of its start")
    print(f"  and after a kill   {describe(processes.revived)} s")
    print_recoveries(world)


def print_acks(world: World) -> None:
    deliveries, seconds = world.deliveries.all, world.deliveries.ack_seconds
    acked = [each for each in deliveries if each.acked_at is not None]
    print(f"events               {len(deliveries)}, acknowledged {len(acked)}")
    first = [each.acked_at - each.begun_at for each in acked if each.acked_at is not None]
    print(f"  of envelopes sent  {_share(seconds)} within {ACK_S:g} s: {describe(seconds)} s")
    print(f"  since it happened  {_share(first)} within {ACK_S:g} s: {describe(first)} s")
    unsent = sum(each.unsent > 0 for each in deliveries)
    print(f"  met no connection  {unsent}")


def print_recoveries(world: World) -> None:
    """How long each time without the database was, and until the next answer stood in Slack."""
    for what, begun_at, ended_at in world.downtimes:
        answers = [at for at in world.slack.told_times if at > ended_at]
        recovered = f"{min(answers) - begun_at:.1f} s" if answers else "never"
        print(f"  {what:<18} {ended_at - begun_at:.1f} s long, next answer after {recovered}")


def print_violations(world: World, violations: Sequence[Violation]) -> None:
    """Each violation with its story."""
    kinds = Counter(each.kind for each in violations)
    print(f"\nviolations           {len(violations)} {_list(kinds)}")
    for kind in kinds:
        for violation in [each for each in violations if each.kind == kind][:MOST_TOLD]:
            print(f"\n{kind}: {violation.what}; trace {violation.trace_id}")
            if asked := violation.asked:
                channel_id, ts = asked.place
                print(f"  question {asked.number}, {asked.kind}, {channel_id} {ts} {asked.word}")
            for line in world.journal.tell(_build_words(violation)):
                print(f"    {line}")


def describe(values: Iterable[float]) -> str:
    """Median, 95th percentile and most."""
    ordered = sorted(values)
    if not ordered:
        return "none"
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return f"p50 {median(ordered):.2f}, p95 {p95:.2f}, max {ordered[-1]:.2f}"


def _build_words(violation: Violation) -> list[set[str]]:
    words = [{violation.trace_id}] if violation.trace_id else []
    if violation.asked:
        channel_id, ts = violation.asked.place
        words += [{channel_id, ts}, {channel_id, violation.asked.thread_ts}]
        if violation.asked.word:
            words.append({f"for {violation.asked.word}"})
    return words


def _count(world: World) -> int:
    return world.claude.request_count


def _share(seconds: Sequence[float]) -> str:
    if not seconds:
        return "none"
    return f"{100 * sum(each < ACK_S for each in seconds) / len(seconds):.1f} %"


def _list(counts: Counter[str] | dict[str, int] | Counter[int] | dict[int, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())
