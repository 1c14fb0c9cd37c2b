"""How a script that a test starts has itself killed, as by a power cut."""

import os
import signal
from typing import Any

from sqlalchemy import event

from retrieval.db import Database


def kill_before_chunks(database: Database, number: int, *, document: str) -> None:
    """Kill this process before it writes the chunks of so many documents.

    Words of the statement that comes first for each document tell one from the next.
    """
    met: list[bool] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def kill(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        met.append(document in statement)
        if sum(met) == number and "INSERT INTO chunks" in statement:
            os.kill(os.getpid(), signal.SIGKILL)
