"""How PostgreSQL would run what Footnote sends."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import event, text

from retrieval.db import Database


def explain(
    database: Database, call: Callable[[], object], *, off: Sequence[str] = ()
) -> list[str]:
    """The plan's lines for the last statement of a call, with these planner settings off.

    It is the plan under row-level security, for whoever the database is read as.
    """
    made: list[tuple[str, Any]] = []

    def note(_: object, cursor: object, statement: str, parameters: Any, *more: object) -> None:
        made.append((statement, parameters))

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        call()
    finally:
        event.remove(database.engine, "before_cursor_execute", note)
    statement, parameters = made[-1]
    with database.transaction() as connection:
        assert connection.execute(text("SELECT current_user")).scalar() == "footnote_app"
        for setting in off:
            connection.execute(text(f"SET LOCAL {setting} = off"))
        plan = connection.exec_driver_sql(f"EXPLAIN (COSTS off) {statement}", parameters).scalars()
        return [line.strip() for line in plan]
