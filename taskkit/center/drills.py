"""What drills do to a database: cut named connections, or hold SQLite's lock for a moment."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from sqlalchemy.engine import Connection

from taskkit.center.database import Database
from taskkit.center.statements import drills as sql
from taskkit.errors import StoreError
from taskkit.names import DRILL_QUEUES, is_drill_queue
from taskkit.states import ENDED, Status

MOST = 10_000


class DrillDesk:
    """Breaks connections on purpose; only `taskkit drill` uses it."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @property
    def cuts(self) -> bool:
        """Whether this database has connections that can be cut; SQLite has none."""
        return not self.database.sqlite

    def cut(self, ports: Collection[int]) -> int:
        """Kill our own user's connections that come from these local ports; returns how many."""
        rows = self.database.read(lambda c: c.execute(self.database.text(sql.OWN_CONNECTIONS)).all())
        ids = [row[0] for row in rows if _port(row[1]) in ports]
        return sum(self._kill(number) for number in ids)

    def _kill(self, number: int) -> bool:
        try:
            self.database.write(lambda c: c.exec_driver_sql(sql.KILL.format(int(number))))
        except StoreError as error:
            if "1094" in str(error) or "Unknown thread" in str(error):
                return False  # it has ended by itself meanwhile
            raise
        return True

    def left_behind(self) -> dict[str, list[int]]:
        """The ids of all tasks in queues of drills, by queue."""
        parameters = {
            "statuses": [int(status) for status in Status],
            "least": DRILL_QUEUES,
            "beyond": f"{DRILL_QUEUES}g",
            "n": MOST,
        }
        rows = self.database.read(lambda c: c.execute(self.database.text(sql.LEFT_BEHIND), parameters).all())
        found: dict[str, list[int]] = {}
        for row in rows:
            if is_drill_queue(row.queue):
                found.setdefault(row.queue, []).append(row.id)
        return found

    def forget(self, ids: Sequence[int]) -> None:
        """Delete ended tasks of a drill, and their runs."""
        parameters = {"ids": sorted(ids), "statuses": sorted(int(status) for status in ENDED)}

        def delete(connection: Connection) -> None:
            for statement in (sql.FORGET_RUNS, sql.FORGET_ACTIONS, sql.FORGET_TASKS):
                connection.execute(self.database.text(statement), parameters)

        if ids:
            self.database.write(delete)

    def hold(self, seconds: float) -> None:
        """Hold the write lock of an SQLite file for so long."""

        def wait(_connection: Connection) -> None:
            time.sleep(seconds)

        self.database.write(wait)


def _port(host: object) -> int | None:
    """The port of ``host:port`` in a list of connections; one by a unix socket is from ``localhost`` and has none."""
    _, colon, port = str(host).rpartition(":")
    return int(port) if colon and port.isdecimal() else None
