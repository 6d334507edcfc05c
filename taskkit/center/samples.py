"""The sample table: depth and rates of every queue over time, for charts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy.engine import Connection

from taskkit.center.database import Database
from taskkit.center.reading import ReadDesk
from taskkit.center.statements import samples as sql
from taskkit.clock import seconds
from taskkit.model import Backlog

LONGEST_GAP = 300.0


class SampleDesk:
    """Writes one row per queue and sample."""

    def __init__(self, database: Database, read: ReadDesk) -> None:
        self.database, self.read = database, read

    def record(self, queued: Mapping[str, int] | None, backlogs: Mapping[str, Backlog]) -> int:
        """Write what waits now, and what ended since the last sample; ``queued`` None: the broker is away."""
        now = self.database.now()
        done = self._done_since_last(now)
        names = {name for name in {*backlogs, *done, *(queued or {})} if name}
        rows = [
            self._row(now, name, backlogs.get(name, Backlog(name, 0, 0, 0, None)), queued, done)
            for name in sorted(names)
        ]
        if rows:
            text = self.database.text(sql.SAMPLE)
            self.database.write(lambda c: c.execute(text, rows))
        return len(rows)

    def _done_since_last(self, now: datetime) -> dict[str, tuple[int, int]]:
        bind, instant = self.database.dialect.bind, self.database.dialect.instant

        def look(connection: Connection) -> dict[str, tuple[int, int]]:
            last = instant(connection.execute(self.database.text(sql.LAST_SAMPLE)).scalar())
            earliest = now - seconds(LONGEST_GAP)
            since = earliest if last is None else max(last, earliest)
            parameters = {"since": bind(since), "until": bind(now)}
            rows = connection.execute(self.database.text(sql.FINISHED_SINCE), parameters)
            return {row.queue: (int(row.finished), int(row.failed or 0)) for row in rows}

        return self.database.read(look)

    def _row(
        self,
        now: datetime,
        name: str,
        backlog: Backlog,
        queued: Mapping[str, int] | None,
        done: Mapping[str, tuple[int, int]],
    ) -> dict[str, object]:
        finished, failed = done.get(name, (0, 0))
        return {
            "at": self.database.dialect.bind(now),
            "queue": name,
            "due": backlog.due,
            "queued": None if queued is None else queued.get(name, 0),
            "running": backlog.running,
            "retrying": backlog.retrying,
            "held": backlog.held,
            "oldest_age_s": backlog.oldest_age_s,
            "finished": finished,
            "failed": failed,
        }
