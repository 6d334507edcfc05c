"""Where a check looks: the task center, the settings, now, and diagnoses, which are made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

from taskkit.alerts import AlertState
from taskkit.center import TaskCenter
from taskkit.center.alert_checks import NodeSign, QueueDepth
from taskkit.clock import seconds
from taskkit.health.glance import Glance, glance
from taskkit.names import is_drill_queue
from taskkit.settings import Settings

if TYPE_CHECKING:
    from taskkit.analytics import Diagnosis, Source

USUAL_BEAT_S = 5.0
Question = tuple[str, float, tuple[str, ...], str]


class Memory:
    """Diagnoses that were made, for as long as a rule wants to go on with one; shared by all rounds of a process."""

    def __init__(self) -> None:
        self._found: dict[Question, tuple[datetime, Diagnosis]] = {}
        self._lock = Lock()

    def get(self, asked: Question, not_before: datetime) -> Diagnosis | None:
        """The diagnosis, if it is no older."""
        with self._lock:
            at, found = self._found.get(asked, (not_before, None))
        return found if at >= not_before else None

    def keep(self, asked: Question, now: datetime, found: Diagnosis) -> None:
        """Remember it, and forget what is a day old."""
        with self._lock:
            self._found = {key: one for key, one in self._found.items() if one[0] > now - seconds(86_400)}
            self._found[asked] = (now, found)


def signs(center: TaskCenter) -> list[NodeSign]:
    """The watchdogs' last signs of life."""
    names = ("host", "pid", "started_at", "heartbeat_at", "heartbeat_age_s", "stopped_at")
    return [
        NodeSign(row["watchdog_id"], **{name: row[name] for name in names}) for row in center.watchdogs.all()
    ]


def nobody() -> Sequence[NodeSign]:
    """No watchdog is known."""
    return ()


@dataclass(slots=True)
class CheckPlace:
    """One look of one check. What is asked twice in it is read once. For one thread."""

    center: TaskCenter
    settings: Settings
    now: datetime
    memory: Memory = field(default_factory=Memory)
    watchdogs: Callable[[], Sequence[NodeSign]] = nobody
    """Reads the rows of all watchdogs, anew at each call."""
    own_watchdog: str = ""
    _sources: dict[float, Source] = field(default_factory=dict)
    _depths: list[QueueDepth] | None = None

    @property
    def pace(self) -> float:
        """How much more patient than usual this installation is: its heartbeats are so many times as long."""
        return max(1.0, self.settings.worker.heartbeat_s / USUAL_BEAT_S)

    def ago(self, span_s: float) -> datetime:
        """The instant so many seconds before now."""
        return self.now - seconds(span_s)

    def depths(self, queues: Sequence[str] = ()) -> list[QueueDepth]:
        """What waits in these queues (none: in all); without those of drills."""
        if self._depths is None:
            self._depths = self.center.checks.depths()
        return [
            one
            for one in self._depths
            if not is_drill_queue(one.queue) and (not queues or one.queue in queues)
        ]

    def diagnosis(
        self,
        rule: str,
        window_s: float,
        *,
        queues: Sequence[str] = (),
        max_age_s: float = 0.0,
        **options: Any,
    ) -> Diagnosis:
        """The verdict of an analysis on the last seconds, about these queues; one that is ``max_age_s`` old is good enough.

        ``options`` are those of the analysis.
        """
        from taskkit.analytics import diagnose

        asked = (rule, float(window_s), tuple(queues), repr(options))
        found = self.memory.get(asked, self.ago(max_age_s))
        if found is None:
            found = diagnose(rule, self._source(float(window_s), tuple(queues)), **options)
            self.memory.keep(asked, self.now, found)
        return found

    def told(self, rule: str) -> list[str]:
        """The objects of the alerts of a rule that fire."""
        open_ones = self.center.alerts.open()
        return [one.object for one in open_ones if one.rule == rule and one.state is AlertState.FIRING]

    def live(self, rule: str) -> set[str]:
        """The objects of the alerts of a rule that fire or are pending."""
        return {one.object for one in self.center.alerts.open() if one.rule == rule}

    def glance(self) -> Glance:
        """How the stores look now; never raises StoreError."""
        return glance(self.settings, self.center)

    def _source(self, window_s: float, queues: tuple[str, ...]) -> Source:
        from taskkit.analytics import LiveSource, Window, settings_facts
        from taskkit.analytics.source import QueuesOnly

        live = self._sources.get(window_s)
        if live is None:
            window = Window.last(window_s, self.now, self.settings.timezone)
            facts = settings_facts(self.settings)
            live = self._sources[window_s] = LiveSource(self.center, window, now=self.now, facts=facts)
        return QueuesOnly(live, queues) if queues else live
