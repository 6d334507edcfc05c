"""Faults that come over SQL connections: cutting those of taskkit, holding rows locked, provoking deadlocks."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import threading
import time
from typing import Any

import pymysql

from bench.chaos.adversary import Planned
from bench.chaos.stage import Stage

ROWS = 25
CUT = 0.4
DEADLOCK = {1205, 1213}
PATIENCE = 10.0
MOVING = (
    "(SELECT id FROM task_center WHERE status = 2 LIMIT 50) UNION "
    "(SELECT id FROM task_center WHERE status = 1 ORDER BY dispatched_at LIMIT 100) UNION "
    "(SELECT id FROM task_center WHERE status IN (0, 4) ORDER BY plan_next_run_at LIMIT 100)"
)
"""Rows that somebody will want to move within the next seconds."""


class Pressure:
    """A neighbour in the database that behaves badly."""

    def __init__(self, stage: Stage, over: threading.Event) -> None:
        self.stage, self.over = stage, over

    def cut(self, planned: Planned) -> tuple[None, str]:
        """Kill a random part of taskkit's connections."""
        rng = random.Random(planned.pick)
        with contextlib.closing(self._link()) as link, link.cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE user = 'taskkit'")
            found = cursor.fetchall()
            chosen = [row[0] for row in found if rng.random() < CUT]
            for number in chosen:
                with contextlib.suppress(pymysql.Error):
                    cursor.execute(f"KILL {number}")
        return None, f"{len(chosen)} of {len(found)} connections"

    def hold(self, planned: Planned) -> tuple[None, str]:
        """Keep random live rows locked for a while, longer than a lock wait lasts now and then."""
        if self.stage.mariadb is None:
            return self._hold_file(planned)
        with contextlib.closing(self._link()) as link, link.cursor() as cursor:
            ids = self._rows(cursor, random.Random(planned.pick))
            cursor.execute(f"SELECT id FROM task_center WHERE id IN ({ids}) ORDER BY id FOR UPDATE")
            locked = len(cursor.fetchall())
            self.over.wait(planned.seconds)
            link.rollback()
        return None, f"{locked} rows for {planned.seconds:.1f} s"

    def deadlock(self, planned: Planned) -> tuple[None, str]:
        """Update random live rows in descending order, one by one, again and again."""
        if self.stage.mariadb is None:
            return self._hold_file(planned)
        rng = random.Random(planned.pick)
        rounds = broken = 0
        with contextlib.closing(self._link()) as link:
            deadline = time.monotonic() + planned.seconds
            while time.monotonic() < deadline and not self.over.is_set():
                rounds += 1
                broken += self._backwards(link, rng)
        return None, f"{rounds} rounds, {broken} broken by a deadlock"

    def _backwards(self, link: pymysql.Connection[Any], rng: random.Random) -> bool:
        with link.cursor() as cursor:
            try:
                cursor.execute("SET SESSION innodb_lock_wait_timeout = 2")
                for task_id in self._rows(cursor, rng).split(","):
                    cursor.execute(f"UPDATE task_center SET held_at = held_at WHERE id = {task_id}")
                    time.sleep(0.01)
                link.commit()
            except pymysql.OperationalError as error:
                if error.args[0] not in DEADLOCK:
                    raise
                link.rollback()
                return True
        return False

    def _link(self) -> pymysql.Connection[Any]:
        """A connection, as soon as the server takes one."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.stage.connect(autocommit=False)
            except (OSError, pymysql.Error):
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def _rows(self, cursor: Any, rng: random.Random) -> str:
        cursor.execute(MOVING)
        ids = [row[0] for row in cursor.fetchall()]
        chosen = rng.sample(ids, min(ROWS, len(ids)))
        return ",".join(map(str, sorted(chosen, reverse=True))) or "0"

    def _hold_file(self, planned: Planned) -> tuple[None, str]:
        """On SQLite: the one lock there is."""
        link = sqlite3.connect(self.stage.home / "home" / "taskkit.db", timeout=15, isolation_level=None)
        with contextlib.closing(link):
            link.execute("BEGIN IMMEDIATE")
            self.over.wait(planned.seconds)
            link.execute("ROLLBACK")
        return None, f"the file for {planned.seconds:.1f} s"
