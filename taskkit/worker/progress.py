"""What running tasks report of themselves: only the latest counts, and it is written now and then."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from taskkit.center import WorkDesk
from taskkit.clock import monotonic
from taskkit.errors import TaskkitError
from taskkit.model import Finish

log = logging.getLogger("taskkit.worker")
PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """A handler says how far it is."""

    task_id: int
    attempt: int
    fraction: float
    text: str


class LatestProgress:
    """The latest report of each attempt, written at most twice a second in one transaction, and when it ends."""

    def __init__(self, desk: WorkDesk) -> None:
        self._desk = desk
        self._latest: dict[tuple[int, int], ProgressReport] = {}
        self._lock = threading.Lock()
        self._written = 0.0

    def note(self, report: ProgressReport) -> bool:
        """A newer report replaces an older one; from any thread. Returns whether it is the first that waits."""
        with self._lock:
            self._latest[report.task_id, report.attempt] = report
            return len(self._latest) == 1

    def write_last(self, ends: Iterable[Finish]) -> None:
        """Write how far these attempts came, before their ends are written."""
        with self._lock:
            last = [self._latest.pop((end.task.id, end.task.attempt), None) for end in ends]
        self._write([report for report in last if report is not None])

    @property
    def wait(self) -> float | None:
        """Seconds until the next writing; None when there is nothing to write."""
        return max(0.0, self._written + PAUSE_SECONDS - monotonic()) if self._latest else None

    def write_if_due(self) -> None:
        """Write what waits, if it is time; what cannot be written is dropped, since the next report replaces it."""
        if self.wait == 0.0:
            with self._lock:
                latest, self._latest, self._written = self._latest, {}, monotonic()
            self._write(list(latest.values()))

    def _write(self, reports: Sequence[ProgressReport]) -> None:
        try:
            if reports:
                self._desk.progress([(r.task_id, r.attempt, r.fraction, r.text) for r in reports])
        except TaskkitError as error:
            log.debug("progress not written: %s", error)
