"""``/metrics`` for Prometheus, off by default: one look at SQL for all of it, every five seconds at most."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from taskkit import __version__
from taskkit.beats import FRESH_S
from taskkit.center import TaskCenter
from taskkit.center.gauges import STATES, NodeGauge, QueueGauge, RunTotals
from taskkit.clock import monotonic
from taskkit.errors import AnalyticsMissing, SettingsError, StoreError
from taskkit.names import is_drill_queue
from taskkit.service import Troubles
from taskkit.settings import Settings
from taskkit.states import Outcome

if TYPE_CHECKING:
    from prometheus_client.core import Metric

log = logging.getLogger("taskkit.watchdog")
LOOK_EVERY_S = 5.0
SETTLED_S = 10.0
"""A run may be committed so long after one with a higher id; counters wait for it, so that none is left out."""
MOST_RUNS = 200_000
"""So many are counted in one look at most; what is left is counted in the next ones."""
MOST_QUEUES = 100
OTHERS = "(others)"


class RunCounters:
    """How many runs have ended since this began, by queue and outcome: counters that only grow, from the ids of runs."""

    def __init__(self, center: TaskCenter) -> None:
        self._center = center
        self.runs: Counter[tuple[str, str]] = Counter()
        self.busy_s: Counter[str] = Counter()
        self._counted = center.gauges.newest_run()
        self._seen = [(monotonic(), self._counted)]
        self._queues: set[str] = set()

    def look(self, now: float | None = None) -> None:
        """Count what is new and settled; raises StoreError."""
        at = monotonic() if now is None else now
        self._seen.append((at, self._center.gauges.newest_run()))
        settled = [seen for seen in self._seen if seen[0] <= at - SETTLED_S]
        high = max((newest for _, newest in settled), default=0)
        if high > self._counted:
            if high > self._counted + MOST_RUNS:
                high = min(high, self._center.gauges.run_after(self._counted, MOST_RUNS))
            for one in self._center.gauges.runs_between(self._counted, high):
                self._add(one)
            self._counted = high
        self._seen = [*settled[-1:], *(seen for seen in self._seen if seen[0] > at - SETTLED_S)]

    def _add(self, one: RunTotals) -> None:
        if is_drill_queue(one.queue):
            return
        if len(self._queues) < MOST_QUEUES:
            self._queues.add(one.queue)
        name = one.queue if one.queue in self._queues else OTHERS
        self.runs[name, one.outcome] += one.runs
        self.busy_s[name] += one.busy_s  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Numbers:
    """What one look came to; nothing where SQL did not answer."""

    answered: bool = False
    queues: tuple[QueueGauge, ...] = ()
    nodes: dict[str, NodeGauge] = field(default_factory=dict)
    firing: dict[tuple[str, str], int] = field(default_factory=dict)
    waiting: dict[str, tuple[int, float]] = field(default_factory=dict)
    checks: dict[str, dict[str, Any]] = field(default_factory=dict)


class Collector:
    """Answers scrapes: from the last look when that is fresh, else from a new one."""

    def __init__(self, settings: Settings, center: TaskCenter) -> None:
        self._settings, self._center = settings, center
        self._lock = threading.Lock()
        self._counters: RunCounters | None = None
        self._numbers, self._looked = Numbers(), float("-inf")
        self._troubles = Troubles("the look for metrics")

    def collect(self) -> Iterator[Metric]:
        """All metrics; where SQL does not answer only that it does not, and the counters as they were."""
        with self._lock:
            if monotonic() - self._looked >= LOOK_EVERY_S:
                self._numbers = self._look()
                self._looked = monotonic()
            numbers, counters = self._numbers, self._counters
            yield from families(numbers, counters)

    def _look(self) -> Numbers:
        try:
            if self._counters is None:
                self._counters = RunCounters(self._center)
            self._counters.look()
            patience = max(
                FRESH_S, 3 * max(self._settings.worker.heartbeat_s, self._settings.watchdog.heartbeat_s)
            )
            found = Numbers(
                answered=True,
                queues=tuple(bounded(self._center.gauges.queues())),
                nodes=self._center.gauges.nodes(patience),
                firing=self._center.gauges.firing(),
                waiting=self._center.outbox.depth(),
                checks=self._center.watchdogs.rules(),
            )
        except StoreError as error:
            self._troubles.met(error)
            return Numbers()
        self._troubles.over()
        return found


def bounded(queues: Iterable[QueueGauge]) -> list[QueueGauge]:
    """The fullest queues by themselves, the others as one; queues of drills are left out."""
    ours = sorted(
        (one for one in queues if not is_drill_queue(one.queue)),
        key=lambda one: (-sum(one.tasks.values()), one.queue),
    )
    rest = ours[MOST_QUEUES:]
    if not rest:
        return ours
    tasks = {state: sum(one.tasks[state] for one in rest) for state in STATES}
    return [*ours[:MOST_QUEUES], QueueGauge(OTHERS, tasks, max(one.oldest_age_s for one in rest))]


def families(numbers: Numbers, counters: RunCounters | None) -> Iterator[Metric]:
    """The metrics of one look."""
    from prometheus_client.core import GaugeMetricFamily as Gauge

    info = Gauge(
        "taskkit_build_info", "Always 1; the label is the version of the watchdog.", labels=["version"]
    )
    info.add_metric([__version__], 1)
    yield info
    yield Gauge(
        "taskkit_database_up", "Whether SQL answered the last look: 1 or 0.", value=float(numbers.answered)
    )
    if counters is not None:
        yield from _runs(counters)
    if not numbers.answered:
        return
    yield from _queues(numbers.queues)
    yield from _nodes(numbers.nodes)
    firing = Gauge("taskkit_alerts_firing", "Alerts that fire.", labels=["rule", "severity"])
    for labels, count in sorted(numbers.firing.items()):
        firing.add_metric(list(labels), count)
    yield firing
    yield from _notices(numbers.waiting)
    yield from _checks(numbers.checks)


def _runs(counters: RunCounters) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily

    told = "Runs that ended since this watchdog began to count, late by 10 s or by one scrape, whichever is longer."
    runs = CounterMetricFamily("taskkit_runs", told, labels=["queue", "outcome"])
    queues = sorted({queue for queue, _ in counters.runs})
    for queue in queues:
        for outcome in Outcome:
            runs.add_metric([queue, outcome.value], counters.runs[queue, outcome.value])
    yield runs
    busy = CounterMetricFamily("taskkit_run_seconds", "How long these runs took together.", labels=["queue"])
    for queue in queues:
        busy.add_metric([queue], counters.busy_s[queue])
    yield busy


def _queues(queues: Iterable[QueueGauge]) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily as Gauge

    tasks = Gauge(
        "taskkit_tasks", "Tasks that have not ended, by where they stand.", labels=["queue", "state"]
    )
    oldest = Gauge("taskkit_oldest_due_age_seconds", "How long the oldest due task waits.", labels=["queue"])
    for one in queues:
        for state in STATES:
            tasks.add_metric([one.queue, state], one.tasks[state])
        oldest.add_metric([one.queue], one.oldest_age_s)
    yield tasks
    yield oldest


def _nodes(nodes: dict[str, NodeGauge]) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily as Gauge

    for kind in ("workers", "schedulers", "watchdogs"):
        alive = nodes.get(kind, NodeGauge()).alive
        yield Gauge(f"taskkit_{kind}_alive", f"{kind.capitalize()} with a fresh heartbeat.", value=alive)
    workers = nodes.get("workers", NodeGauge())
    yield Gauge("taskkit_slots", "Child processes of the workers that are alive.", value=workers.slots)
    yield Gauge("taskkit_slots_busy", "Of these, those that run something.", value=workers.busy)


def _notices(waiting: dict[str, tuple[int, float]]) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily as Gauge

    notices = Gauge("taskkit_notices_waiting", "Notices in the outbox.", labels=["receiver"])
    oldest = Gauge(
        "taskkit_notices_oldest_age_seconds", "How long the oldest of them waits.", labels=["receiver"]
    )
    for receiver, (count, age) in sorted(waiting.items()):
        notices.add_metric([receiver], count)
        oldest.add_metric([receiver], age)
    yield notices
    yield oldest


def _checks(checks: dict[str, dict[str, Any]]) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily as Gauge

    took = Gauge("taskkit_check_duration_seconds", "How long the last check of a rule took.", labels=["rule"])
    age = Gauge("taskkit_check_age_seconds", "How long ago that was.", labels=["rule"])
    failing = Gauge("taskkit_check_failing", "Whether it failed: 1 or 0.", labels=["rule"])
    for rule, row in sorted(checks.items()):
        if row["took_ms"] is not None:
            took.add_metric([rule], float(row["took_ms"]) / 1000)
        age.add_metric([rule], float(row["checked_age_s"] or 0.0))
        failing.add_metric([rule], float(row["state"] == "failed"))
    yield from (took, age, failing)


class Metrics:
    """The server of ``/metrics`` while the setting ``watchdog.metrics`` names an address; else nothing."""

    def __init__(self, settings: Settings, center: TaskCenter) -> None:
        self._settings, self._center = settings, center
        self._apart: TaskCenter | None = None
        self._server: Any = None

    @property
    def port(self) -> int | None:
        """Where it listens; None where it does not."""
        return None if self._server is None else int(self._server.server_port)

    def start(self) -> None:
        """Listen; raises SettingsError where that cannot be, AnalyticsMissing without prometheus_client."""
        where = self._settings.watchdog.metrics
        if where is None:
            return
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError as error:
            raise AnalyticsMissing(
                "metrics need prometheus_client: pip install 'taskkit[metrics]'"
            ) from error
        self._apart = self._center.apart(read_timeout=5)
        registry = CollectorRegistry()
        registry.register(Collector(self._settings, self._apart))
        host, _, port = where.rpartition(":")
        try:
            self._server, _ = start_http_server(int(port), host or "0.0.0.0", registry)  # noqa: S104 - as it was set
        except (OSError, OverflowError) as error:
            self.stop()
            raise SettingsError(f"watchdog.metrics: cannot listen on {where}: {error}") from None
        log.info("metrics are served at http://%s/metrics", where)

    def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        if self._apart is not None:
            self._apart.close()
            self._apart = None
