"""The narrow door of analyses: named, read-only questions about a window, answered in plain rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from taskkit.center.database import Database
from taskkit.center.normal import Rows, service_normal
from taskkit.center.statements import frames as sql
from taskkit.center.statements import frames_alerts as told
from taskkit.center.statements import frames_load as load
from taskkit.center.statements import frames_more as more
from taskkit.clock import seconds
from taskkit.errors import StoreError

MARGIN_S = 86_400.0
"""Ids rise with the instant of writing, but for transactions that were open for less than this."""
THIN_ABOVE = 1_000_000
MOST_TASKS = 2000
"""The newest so many one-off tasks and occurrences that were repeated are read; the facts say so to diagnoses."""
MOST_SLOTS = 86_400
MOST_GROUPS = 100_000
"""What arrived is counted in slots of time, so many in a window at most; wider ones, where there would be more groups."""


@dataclass(frozen=True, slots=True)
class FrameSpan:
    """A half-open window, the instant that counts as now, and the width of a time bucket in whole seconds."""

    since: datetime
    until: datetime
    now: datetime
    bucket_s: int


PLAIN: Mapping[str, tuple[str, ...]] = {
    "tasks": (sql.TASKS,),
    "lists": (sql.LISTS,),
    "running": (sql.RUNNING,),
    "samples": (sql.SAMPLES,),
    "arrivals": (sql.ARRIVALS_NEW, sql.ARRIVALS_PLANNED, sql.ARRIVALS_DONE, sql.ARRIVALS_PERIODIC),
    "finishes": (sql.FINISHES,),
    "slots": (sql.SLOTS,),
    "service_times": (sql.SERVICE_TIMES,),
    "waits": (sql.WAITS_DUE, sql.WAITS_QUEUE, sql.WAITS_WHOLE),
    "turns": (load.TURNS,),
    "errors": (sql.ERRORS,),
    "schedulers": (more.SCHEDULERS,),
    "occurrences": (more.OCCURRENCES,),
    "troubled_occurrences": (more.TROUBLED_OCCURRENCES,),
    "dead_letters": (more.DEAD_LETTERS,),
    "limits": (more.LIMITS,),
    "limit_lines": (more.LIMIT_LINES,),
    "shards": (more.SHARDS,),
    "actions": (more.ACTIONS,),
    "notices": (told.NOTICES,),
    "deliveries": (told.DELIVERIES,),
}
"""Frames that are the rows of their statements, one after the other."""


class FrameDesk:
    """Answers in rows with instants that are aware; changes nothing, and knows no DataFrame."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._last_twins: tuple[FrameSpan, Rows] | None = None
        """Two frames need them, and they cost the most: those of the span that was asked for last are kept."""
        self._special: dict[str, Callable[[FrameSpan], Rows]] = {
            "runs": self._repeated_runs,
            "twins": self._twins,
            "service_normal": self._service_normal,
            "load": self._load,
            "workers": self._workers,
            "alerts": self._alerts,
            "transactions": self._transactions,
            "lock_waits": self._lock_waits,
            "facts": self._facts,
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The frames there are."""
        return (*PLAIN, *self._special)

    def rows(self, name: str, span: FrameSpan) -> Rows:
        """The rows of one frame."""
        if name in self._special:
            return self._special[name](span)
        parameters = self._parameters(span, "".join(PLAIN[name]))
        return [row for template in PLAIN[name] for row in self._ask(template, parameters)]

    def _parameters(self, span: FrameSpan, text: str) -> dict[str, Any]:
        """What the statements of ``text`` ask for."""
        bind = self.database.dialect.bind
        found: dict[str, Any] = {
            "since": bind(span.since),
            "until": bind(span.until),
            "now": bind(span.now),
            "since_a_day": bind(span.since - seconds(MARGIN_S)),
            "bucket": span.bucket_s,
        }
        if ":low" in text:
            found["low"], found["newest"] = self._ids(span.since - seconds(MARGIN_S))
        if ":thin" in text:
            found["thin"] = 1 + self._ask(sql.MANY, found)[0]["n"] // THIN_ABOVE
        return found

    def _ids(self, since: datetime) -> tuple[int, int]:
        """The first id written since then, found by halving, since no index leads there; and the highest id."""
        ends = self._ask(sql.LOWEST, {})[0]
        low, high = int(ends["lowest"] or 0), int(ends["highest"] or 0)
        newest = high
        while low < high:
            middle = (low + high) // 2
            found = self._ask(sql.WRITTEN, {"id": middle})
            if found and found[0]["created_at"] < since:
                low = int(found[0]["id"]) + 1
            else:
                high = middle
        return low, newest

    def _ask(self, template: str, parameters: Mapping[str, Any]) -> Rows:
        rows = self.database.look(template, parameters)
        return [{name: self._value(name, value) for name, value in row._mapping.items()} for row in rows]

    def _value(self, name: str, value: Any) -> Any:
        if (name.endswith("_at") and name != "bucket_at") or name == "at":
            return self.database.dialect.instant(value)
        return value

    def _repeated_runs(self, span: FrameSpan) -> Rows:
        """Of one-off tasks all runs; of periodic ones those of the occurrences that were repeated in the window."""
        found = self._parameters(span, more.REPEATED + more.RUNS_OF_OCCURRENCES) | {"most": MOST_TASKS}
        ids = {row["task_id"] for row in self._ask(more.REPEATED, found)}
        for twin in self._twins(span):
            ids |= {twin["first_id"], twin["last_id"]}
        rows = self._ask(more.RUNS_OF, {"ids": sorted(ids)}) if ids else []
        return sorted(
            [*rows, *self._ask(more.RUNS_OF_OCCURRENCES, found)],
            key=lambda row: (row["task_id"], row["attempt"]),
        )

    def _twins(self, span: FrameSpan) -> Rows:
        kept = self._last_twins
        if kept is None or kept[0] != span:
            kept = span, self._ask(more.TWINS, self._parameters(span, more.TWINS))
            self._last_twins = kept
        return [dict(row) for row in kept[1]]

    def _service_normal(self, span: FrameSpan) -> Rows:
        return service_normal(self._ask, self.database.dialect.bind, span.since)

    def _load(self, span: FrameSpan) -> Rows:
        """By slots of a day's second or a hundredth of one, four times as wide as long as there are too many groups."""
        length_ms = (span.until - span.since).total_seconds() * 1000
        many = self._ask(sql.MANY, self._parameters(span, sql.MANY))[0]["n"] > MOST_GROUPS
        slot, rows = max(10, math.ceil(length_ms / (MOST_GROUPS // 4 if many else MOST_SLOTS))), None
        while rows is None:
            parameters = self._parameters(span, "") | {"slot": slot, "most": MOST_GROUPS + 1}
            found = [row for one in (load.ENDED, load.LEFT) for row in self._ask(one, parameters)]
            rows, used = (found, slot) if len(found) <= MOST_GROUPS else (None, slot)
            slot *= 4
        since_ms = int(span.since.timestamp() * 1000)
        return [row | {"arrive_ms": int(row["slot"]) * used - since_ms, "slot_ms": used} for row in rows]

    def _workers(self, span: FrameSpan) -> Rows:
        """What a worker says of its children is summed up."""
        rows = self._ask(more.WORKERS, self._parameters(span, more.WORKERS))
        for row in rows:
            children = msgspec.json.decode(row.pop("children") or "[]")
            for name in ("cpu_percent", "rss_bytes"):
                told = [child[name] for child in children if child.get(name) is not None]
                row[f"children_{name}"] = sum(told) if told else None
        return rows

    def _alerts(self, span: FrameSpan) -> Rows:
        """Of all that an alert says only its title."""
        rows = self._ask(told.ALERTS, self._parameters(span, told.ALERTS))
        for row in rows:
            said = msgspec.json.decode(row.pop("said") or b"{}", type=dict[str, dict[str, Any]])
            row["title"] = (said.get("en") or next(iter(said.values()), {})).get("title")
        return rows

    def _transactions(self, _: FrameSpan) -> Rows:
        return [] if self.database.sqlite else self._if_allowed((more.TRANSACTIONS_MYSQL,)) or []

    def _lock_waits(self, _: FrameSpan) -> Rows:
        if self.database.sqlite:
            return []
        row_locks = more.LOCK_WAITS_MARIADB if self._mariadb else more.LOCK_WAITS_MYSQL
        found: Rows = []
        for template in (row_locks, more.METADATA_WAITS_MYSQL):
            found += self._if_allowed((template,)) or []
        return found

    @property
    def _mariadb(self) -> bool:
        return bool(getattr(self.database.engine.dialect, "is_mariadb", False))

    def _if_allowed(self, templates: Sequence[str]) -> Rows | None:
        """The rows of the first statement that the account may ask; None when there is none."""
        for template in templates:
            try:
                return self._ask(template, {})
            except StoreError:
                continue
        return None

    def _facts(self, span: FrameSpan) -> Rows:
        """What kind of database this is, and which grants a look at locks lacks."""
        self._version()  # only a connection tells MariaDB from MySQL
        kind = "sqlite" if self.database.sqlite else "mariadb" if self._mariadb else "mysql"
        found: dict[str, object] = {"database_kind": kind, "database_version": self._version()}
        found["repeated_at_most"] = MOST_TASKS
        found["missing_grants"] = ", ".join(self._missing())
        return [{"name": name, "value": str(value)} for name, value in found.items()]

    def _version(self) -> str:
        template = more.VERSION_SQLITE if self.database.sqlite else more.VERSION_MYSQL
        return str(self._ask(template, {})[0]["version"])

    def _missing(self) -> list[str]:
        if self.database.sqlite:
            return []
        missing = []
        if self._if_allowed((more.TRANSACTIONS_MYSQL,)) is None:
            missing.append("PROCESS ON *.*")
        if not self._mariadb and self._if_allowed((more.LOCK_WAITS_MYSQL,)) is None:
            missing.append("SELECT ON performance_schema.*")
        return missing
