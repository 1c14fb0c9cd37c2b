"""What grows while questions are answered: sampled over time, a straight line put through it."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import linear_regression

from psycopg import sql

from .judging import Violation
from .processes import read_size
from .world import World

LOOK_S = 20.0
WARM_UP = 0.4  # of the questions, which do not count: caches fill, allocators settle; chosen
# What 1,000 questions may add; chosen: the noise of a run of some minutes.
MOST = {"memory": 10.0, "threads": 1.0, "files": 2.0, "connections": 1.0}
MOST_ROWS = 5.0  # in tables that do not belong to a question
MOST_KEPT = 50.0  # in those that do, where all is purged

_TABLES = """
    SELECT relname AS name, pg_total_relation_size(oid) / 1024.0 AS size
    FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""
_BELONGING = """
    SELECT conrelid::regclass::text AS name FROM pg_constraint
    WHERE contype = 'f' AND confrelid = 'traces'::regclass
    UNION SELECT 'traces'
"""
_CONNECTIONS = """
    SELECT count(*) AS connections FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
_MAKE_OLD = """
    UPDATE traces SET asked_at = asked_at - interval '2 days'
    WHERE outcome <> 'pending' AND completed_at < now() - interval '10 seconds'
    AND asked_at > now() - interval '1 day'
"""

Points = list[tuple[float, float]]  # thousands of questions answered; how much


class Watch:
    """The figures of a run over time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._answered: list[float] = []
        self._points: defaultdict[tuple[str, str], Points] = defaultdict(list)
        self._purging: set[float] = set()  # the answered count of looks while all is purged

    def look(self, *, is_purging: bool) -> None:
        """Note how much there is of everything; before that, delete what is over if purging."""
        if is_purging:
            self._world.server.query(_MAKE_OLD)
            self._world.run("purge", "--expired", "--yes")
        server = self._world.server
        answered = len(self._world.slack.told_at) / 1000
        self._answered.append(answered)
        if is_purging:
            self._purging.add(answered)
        for process in self._world.processes.list_running():
            for what, much in read_size(process.pid).items():
                self._points[process.name, what].append((answered, much))
        (row,) = server.query(_CONNECTIONS)
        self._points["PostgreSQL", "connections"].append((answered, row["connections"]))
        for table in server.query(_TABLES):
            (counted,) = server.query(
                sql.SQL("SELECT count(*) AS rows FROM {}")
                .format(sql.Identifier(table["name"]))
                .as_string(None)
            )
            self._points[table["name"], "rows"].append((answered, counted["rows"]))
            self._points[table["name"], "KiB"].append((answered, float(table["size"])))

    def judge(self) -> list[Violation]:
        """Print what 1,000 questions added, and say what of it must not be."""
        last = self._answered[-1]
        belonging = {row["name"] for row in self._world.server.query(_BELONGING)}
        violations = []
        print(f"\nAnswered {last * 1000:.0f}; per 1,000 after the first {WARM_UP:.0%}:")
        for (who, what), points in sorted(self._points.items()):
            kept = [each for each in points if each[0] not in self._purging]
            purged = [each for each in points if each[0] in self._purging]
            is_table = what in ("rows", "KiB")
            is_question = is_table and who in belonging
            warm = [
                each
                for each in (kept if is_question else points)
                if each[0] >= WARM_UP * (kept[-1][0] if is_question and kept else last)
            ]
            grows = _fit(warm)
            after = _fit(purged[len(purged) // 4 :]) if is_question else 0.0
            if grows or after or not is_table:
                more = f"; {after:+.1f} while purged" if is_question else ""
                print(f"  {who:<26} {what:<12} {points[-1][1]:>9.1f} {grows:+9.2f}{more}")
            if what == "rows" and is_question and after > MOST_KEPT:
                violations.append(_grown(who, what, after))
            elif what == "rows" and not is_question and grows > MOST_ROWS:
                violations.append(_grown(who, what, grows))
            elif what in MOST and grows > MOST[what]:
                violations.append(_grown(who, what, grows))
        return violations


def _fit(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the line of least squares; 0 where there is none."""
    answered = [each[0] for each in points]
    if len(set(answered)) < 3:
        return 0.0
    return linear_regression(answered, [each[1] for each in points]).slope


def _grown(who: str, what: str, slope: float) -> Violation:
    return Violation(kind="grows", what=f"{who}: {slope:+.1f} {what} per 1,000 questions")
