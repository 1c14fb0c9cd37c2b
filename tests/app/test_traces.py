"""How traces are found again."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import event, text

from app import traces
from retrieval.db import Database
from tests.app.questions import ask


def add_answer(database: Database, *answer_ts: str, channel_id: str = "C1") -> UUID:
    trace_id = ask(database, channel_id=channel_id)
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE traces SET answer_ts = :answer_ts WHERE trace_id = :trace_id"),
            {"answer_ts": list(answer_ts), "trace_id": trace_id},
        )
    return trace_id


def test_an_answer_is_found_by_each_of_its_messages(database: Database) -> None:
    first = add_answer(database, "1767225601.000001", "1767225604.000001", "1767225609.000001")
    between = add_answer(database, "1767225602.000001", "1767225605.000001")
    add_answer(database, "1767225601.000001", channel_id="C2")
    add_answer(database)
    found = {ts: traces.find_by_answer(database, "C1", f"176722560{ts}.000001") for ts in range(10)}
    assert {ts: trace_id for ts, trace_id in found.items() if trace_id} == {
        **dict.fromkeys((1, 4, 9), first),
        **dict.fromkeys((2, 5), between),
    }


@pytest.mark.parametrize(
    ("find", "index", "condition"),
    [
        (
            lambda database: traces.find_by_answer(database, "C1", "1767225601.000001"),
            "traces_answer",
            "(answer_ts[1] <= ",
        ),
        (lambda database: traces.find_own(database, "T1", "U1"), "traces_asker", "(user_id = "),
    ],
    ids=["by answer", "by asker"],
)
def test_traces_are_found_by_an_index_under_row_level_security(
    database: Database, find: Callable[[Database], Any], index: str, condition: str
) -> None:
    made: list[tuple[str, Any]] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def note(_: object, cursor: object, statement: str, parameters: Any, *more: object) -> None:
        made.append((statement, parameters))

    find(database)
    statement, parameters = made[-1]
    with database.transaction() as connection:
        assert connection.execute(text("SELECT current_user")).scalar() == "footnote_app"
        for setting in ("enable_seqscan", "enable_bitmapscan", "enable_sort"):
            connection.execute(text(f"SET LOCAL {setting} = off"))
        plan = connection.exec_driver_sql(f"EXPLAIN (COSTS off) {statement}", parameters).scalars()
        lines = [line.strip() for line in plan]
    (scan,) = (line for line in lines if index in line)
    assert scan.startswith("->  Index Scan Backward")
    (conditions,) = (line for line in lines if line.startswith("Index Cond:"))
    assert "tenant_id = " in conditions and condition in conditions
    assert not any("Sort" in line for line in lines)
