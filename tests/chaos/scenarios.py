"""What is played: each scenario asks questions, lets things happen, and says what must not be."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import monotonic

from . import growth
from .delivering import ACK_S
from .figures import print_figures
from .judging import Violation, judge
from .plan import Deed, Step, build_steps
from .world import World

WINDOW = 24  # questions on their way at once, at most: more than two workers are at
AT_MOST_S = 3.0  # between two questions, however many are on their way
LOOK_S = 0.1
MOST_DUE = 2  # kills that wait for a process to be back, before no more is asked
TAIL_S = 12.0  # in which the last edits, deletions and steps happen
PATIENCE_S = 100.0  # without anything that changes; longer than any wait before a new attempt
STOP_S = 25.0  # within which a process has promised to stop
ROLLING_PER_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much of a scenario is played."""

    questions: int
    minutes: float
    serve: int
    workers: int


Scenario = Callable[[World, Scale], list[Violation]]


def chaos(world: World, scale: Scale) -> list[Violation]:
    """Everything goes wrong at once."""
    world.start(serve=scale.serve, workers=scale.workers, is_clock_loose=True)
    begun_at = monotonic()
    world.load_dice()
    _ask(world, scale.questions, build_steps(world.seed, scale.questions))
    time.sleep(TAIL_S)
    while world.processes.count_due():
        time.sleep(LOOK_S)
    world.load_dice(is_loaded=False)
    if world.clock.exists():
        world.clock.write_text("+0\n")
    return _end(world, begun_at)


def restart_database(world: World, scale: Scale) -> list[Violation]:
    """PostgreSQL is restarted under load, once as for an upgrade and twice as after a crash."""
    world.start(serve=scale.serve, workers=scale.workers)
    begun_at = monotonic()
    deeds: tuple[Deed, ...] = ("restart, fast", "restart, immediate", "restart, immediate")
    steps = [
        Step(after_question=(number + 1) * scale.questions // 4, delay_s=0.5, deed=deed)
        for number, deed in enumerate(deeds)
    ]
    _ask(world, scale.questions, steps)
    time.sleep(TAIL_S)
    return _end(world, begun_at)


def rolling(world: World, scale: Scale) -> list[Violation]:
    """Two replicas are replaced, one after the other and again, while questions come in."""
    world.start(serve=2, workers=0)
    begun_at = monotonic()
    is_asked = threading.Event()
    failures: list[Violation] = []
    replaced: list[str] = []

    def replace() -> None:
        while not is_asked.is_set() or len(replaced) < 2:
            name = f"serve-{1 + len(replaced) % 2}"
            try:
                world.processes.replace(name)
            except TimeoutError as error:
                failures.append(Violation(kind="did not stop", what=str(error)))
            replaced.append(name)

    replacing = threading.Thread(target=replace, name="rolling")
    replacing.start()
    for _ in _until_asked(world, scale.questions):
        time.sleep(1 / ROLLING_PER_S)
    is_asked.set()
    replacing.join()
    time.sleep(TAIL_S)
    print(f"replicas replaced    {len(replaced)}")
    return [*_end(world, begun_at), *failures, *_judge_acks(world)]


def day(world: World, scale: Scale) -> list[Violation]:
    """As many questions as fit, and what grows with them."""
    world.start(serve=scale.serve, workers=scale.workers)
    begun_at = monotonic()
    watch = growth.Watch(world)
    end_at = begun_at + scale.minutes * 60
    next_look_at = begun_at
    while (now := monotonic()) < end_at and len(world.traffic.asked) < scale.questions:
        if now >= next_look_at:
            # In the second half, what is asked is old at once, and is deleted as such.
            watch.look(is_purging=now > begun_at + scale.minutes * 30)
            next_look_at = now + growth.LOOK_S
        world.traffic.ask(is_plain=True)
        _wait_for_room(world)
    found = watch.judge()
    time.sleep(TAIL_S)
    _settle(world)
    world.processes.stop()
    print(f"questions            {len(world.traffic.asked)} in {monotonic() - begun_at:.0f} s")
    return found


SCENARIOS: Mapping[str, tuple[Scenario, Scale, dict[str, str]]] = {
    "chaos": (chaos, Scale(questions=1000, minutes=0, serve=2, workers=1), {}),
    "restart-database": (
        restart_database,
        Scale(questions=200, minutes=0, serve=1, workers=1),
        {},
    ),
    "rolling": (rolling, Scale(questions=200, minutes=0, serve=2, workers=0), {}),
    "day": (
        day,
        Scale(questions=86_400, minutes=15, serve=1, workers=1),
        {"RETENTION_DAYS": "1"},
    ),
}


def _ask(world: World, questions: int, steps: list[Step] | tuple[Step, ...]) -> None:
    left = deque(steps)
    for asked in _until_asked(world, questions):
        while left and left[0].after_question <= asked:
            world.plan(left.popleft())
        while world.processes.count_due() > MOST_DUE:
            time.sleep(LOOK_S)
        _wait_for_room(world)
        if asked % 50 < 2:
            print(f"  {asked} of {questions} asked, {world.processes.kills} kills", flush=True)


def _until_asked(world: World, questions: int) -> Iterator[int]:
    """Ask, and say how many were asked, until there are so many."""
    while len(world.traffic.asked) < questions:
        world.traffic.ask()
        yield len(world.traffic.asked)


def _wait_for_room(world: World) -> None:
    until = monotonic() + AT_MOST_S
    while monotonic() < until:
        outstanding = world.count_outstanding()
        if outstanding is not None and outstanding < WINDOW:
            return
        time.sleep(LOOK_S)


def _end(world: World, begun_at: float) -> list[Violation]:
    """Wait until all is over, stop, print the figures; what must not be."""
    _settle(world)
    wall_s = monotonic() - begun_at
    violations = []
    try:
        world.processes.stop()
    except TimeoutError as error:
        violations.append(Violation(kind="did not stop", what=str(error)))
    slow = [seconds for seconds in world.processes.stop_seconds if seconds > STOP_S]
    if slow:
        violations.append(
            Violation(kind="did not stop", what=f"{len(slow)} took {max(slow):.0f} s at most")
        )
    judgement = judge(world)
    print_figures(world, judgement, wall_s=wall_s)
    return violations + judgement.violations


def _settle(world: World) -> None:
    """Return once nothing is on its way any more, or nothing changes."""
    before: object = None
    since = monotonic()
    while monotonic() - since < PATIENCE_S:
        if world.count_outstanding() == 0:
            time.sleep(5)  # what comes late comes now
            if world.count_outstanding() == 0:
                return
        state = (world.find_open(), world.deliveries.count_open(), len(world.slack.told_times))
        if state != before:
            before, since = state, monotonic()
        time.sleep(1)


def _judge_acks(world: World) -> Iterator[Violation]:
    for delivery in world.deliveries.all:
        seconds = (delivery.acked_at or float("inf")) - delivery.begun_at
        if seconds > ACK_S:
            yield Violation(
                kind="late", what=f"{delivery.event_id} was acknowledged after {seconds:.1f} s"
            )
