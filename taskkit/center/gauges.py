"""Numbers for a monitoring system: each question is cheap enough for every few seconds, and its answer small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taskkit.center.database import Database
from taskkit.center.reading import ReadDesk
from taskkit.center.statements import gauges as sql

FRESH_SAMPLE_S = 35.0
"""A sample is written every 15 s; one that is older than this does not count."""
STATES = ("due", "queued", "running", "retrying", "held")


@dataclass(frozen=True, slots=True)
class QueueGauge:
    """What stands in a queue by state, and how long the oldest of what is due has waited."""

    queue: str
    tasks: dict[str, int]
    oldest_age_s: float


@dataclass(frozen=True, slots=True)
class RunTotals:
    """Runs of a queue that ended in one way, and how long they ran together."""

    queue: str
    outcome: str
    runs: int
    busy_s: float


@dataclass(frozen=True, slots=True)
class NodeGauge:
    """How many of a kind are alive; of workers also how many slots there are and how many are in use."""

    alive: int = 0
    busy: int = 0
    slots: int = 0


class GaugeDesk:
    """Questions of the metrics; nothing here changes a row."""

    def __init__(self, database: Database, read: ReadDesk) -> None:
        self.database, self._read = database, read

    def queues(self) -> list[QueueGauge]:
        """As the newest sample says, or counted where there is no fresh one."""
        rows = self._rows(sql.SAMPLED, age=FRESH_SAMPLE_S)
        if rows and all(row["queued"] is not None for row in rows):
            return [
                QueueGauge(
                    row["queue"],
                    {state: int(row[state]) for state in STATES},
                    float(row["oldest_age_s"] or 0.0),
                )
                for row in rows
            ]
        return [
            QueueGauge(one.queue, {state: getattr(one, state) for state in STATES}, one.oldest_age_s or 0.0)
            for one in self._read.backlogs().values()
            if one.queue
        ]

    def newest_run(self) -> int:
        """The highest id of a run; 0 where there is none."""
        return int(self._rows(sql.NEWEST_RUN)[0]["id"] or 0)

    def run_after(self, low: int, most: int) -> int:
        """The highest id of the next so many runs above ``low``; ``low`` itself where there is none."""
        return int(self._rows(sql.RUN_AFTER, low=low, most=most)[0]["id"] or low)

    def runs_between(self, low: int, high: int) -> list[RunTotals]:
        """Runs with ids above ``low`` up to ``high``, by queue and outcome."""
        rows = self._rows(sql.RUNS_BETWEEN, low=low, high=high)
        return [
            RunTotals(r["queue"], r["outcome"], int(r["runs"]), float(r["busy_ms"] or 0) / 1000) for r in rows
        ]

    def firing(self) -> dict[tuple[str, str], int]:
        """How many alerts fire, by rule and severity."""
        return {(row["rule"], row["severity"]): int(row["alerts"]) for row in self._rows(sql.FIRING)}

    def nodes(self, age: float) -> dict[str, NodeGauge]:
        """Workers, schedulers and watchdogs with a heartbeat no older than ``age`` seconds."""
        return {
            row["kind"]: NodeGauge(int(row["alive"]), int(row["busy"] or 0), int(row["slots"] or 0))
            for row in self._rows(sql.NODES, age=age)
        }

    def _rows(self, template: str, **parameters: Any) -> list[dict[str, Any]]:
        text = self.database.text(template)
        rows = self.database.read(lambda c: c.execute(text, parameters).all())
        return [dict(row._mapping) for row in rows]
