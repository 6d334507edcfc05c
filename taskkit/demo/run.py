"""The demonstration from the first process to the last: start, write, watch, tell, stop, look that nothing is left."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskkit.clock import monotonic
from taskkit.demo import shop
from taskkit.demo.outcome import Seen, complete, look, schedule, shares, stories, surprises
from taskkit.demo.plan import HANDLERS, Periodic, Stagehand, Written
from taskkit.demo.stage import Stage, web_server
from taskkit.errors import StoreError, TaskkitError
from taskkit.kit import Taskkit
from taskkit.render import duration, progress, show
from taskkit.settings import redact
from taskkit.states import ENDED
from taskkit.supervising import is_here

if TYPE_CHECKING:
    from taskkit.center import TaskCenter

SCHEDULERS, WORKERS = 2, 2
READY_S = 90.0
RUN_S = 60.0
CANCELLED_S = 5.0
LOOK_S = 0.1


class Unexpected(TaskkitError):
    """The demonstration ran, and something was not as it should be; that has been told already."""


class Demo:
    """One performance; whatever happens, it stops what it started.

    ``ending`` is shown when all has happened and everything still runs; it gets the kit and whether the stores are the
    demonstration's own, and returns what is not as it should be.
    """

    def __init__(self, ending: Callable[[Taskkit, bool], Sequence[str]] = lambda *_: ()) -> None:
        self.ending = ending
        self.stage = Stage(SCHEDULERS, WORKERS)
        self.kit = Taskkit(self.stage.settings)
        self.kit.registry = shop.kit.registry
        self.hand = Stagehand(self.kit, self.stage.mark, self.stage.queue)
        self.periodic: list[Periodic] = []
        self.began = monotonic()
        self.keep = False

    @property
    def center(self) -> TaskCenter:
        """The task center, once ``taskkit up`` has made its tables."""
        return self.kit.center

    def run(self, *, keep: bool = False) -> None:
        """Perform; raises Unexpected when a story is not as it should be or a process is left."""
        self.keep = keep
        try:
            troubles = [*self._perform(), *self._stop()]
            self.keep = keep or bool(troubles)
        except TaskkitError:
            self.keep = True
            raise
        finally:
            self._clean_up()
        self._conclude(troubles)

    def _stop(self) -> list[str]:
        """Stop everything in order and look that nothing is left."""
        show("", "Stopping everything …")
        left = [f"process {process.pid} was left behind" for process in self.stage.stop()]
        if not left:
            show(f"All {len(self.stage.seen)} processes have ended; none is left behind.")
        return left

    def _clean_up(self) -> None:
        """Whatever has happened: nothing goes on firing or running, and the temporary home is gone."""
        if self.stage.running:
            self._end_periodic()
            self.stage.stop()
        self.kit.close()
        if not self.keep:
            self.stage.clear()

    def _perform(self) -> list[str]:
        self._introduce()
        self.stage.start([self.stage.queue(code) for code in HANDLERS])
        self._wait_until_ready()
        with web_server() as web:
            written = self.hand.write(web)
            self.periodic = self.hand.schedule()
            self._start_by_hand()
            count = sum(len(one.ids) for one in written)
            show(
                f"{count} tasks were written, and {len(self.periodic)} periodic ones, {len(self.periodic) - 1} of them from a crontab."
            )
            seen = self._watch(written)
        self._end_periodic()
        return [*self._tell(seen, written), *self.ending(self.kit, self.stage.own)]

    def _introduce(self) -> None:
        settings = self.stage.settings
        if self.stage.own:
            show(f"taskkit demo: SQLite and a small server of its own, in {self.stage.folder}")
            return
        database = redact(settings.database_url) if settings.database_url else "SQLite in a temporary folder"
        broker = (
            redact(settings.redis_url) if settings.redis_url else "a server of its own in a temporary folder"
        )
        show(
            f"taskkit demo on {database} and {broker}.",
            f"Its tasks wait in queues named {self.stage.mark}.*, which nobody else serves; its periodic tasks are",
            "cancelled at the end. Meanwhile its schedulers dispatch whatever else is due there, as yours do.",
            "The rows of its tasks stay, as history.",
        )

    def _wait_until_ready(self) -> None:
        """Until every scheduler and worker has its row in the task center."""
        wanted = SCHEDULERS + WORKERS
        with progress("starting processes", wanted) as bar:
            deadline, known = monotonic() + READY_S, 0
            while known < wanted:
                self.stage.check()
                there = len(self._at_work())
                bar.step(count=there - known)
                known = there
                if monotonic() > deadline:
                    raise TaskkitError(
                        f"{known} of {wanted} processes were ready after {READY_S:g} s; see {self.stage.log}"
                    )
                time.sleep(LOOK_S)
        self.stage.note()
        show(
            f"{SCHEDULERS} schedulers and {WORKERS} workers of 2 processes are up after {duration(monotonic() - self.began)}."
        )

    def _at_work(self) -> list[dict[str, Any]]:
        roles = self.stage.roles()
        with contextlib.suppress(StoreError):  # the tables are still being made
            nodes = [*self.center.nodes.schedulers(), *self.center.nodes.workers()]
            return [node for node in nodes if node["pid"] in roles and is_here(node)]
        return []

    def _start_by_hand(self) -> None:
        for one in self.periodic:
            if one.by_hand:
                self.kit.operations.run_now(one.id, "taskkit demo")

    def _watch(self, written: list[Written]) -> Seen:
        """Until everything has happened, or the time is over."""
        count = sum(len(one.ids) for one in written)
        deadline, known = monotonic() + RUN_S, 0
        with progress("running tasks", count) as bar:
            while True:
                self.stage.check()
                seen = look(self.center, written, self.periodic)
                ended = sum(seen.ended(one) for one in written)
                bar.step(count=ended - known)
                known = ended
                if complete(seen, written, self.periodic) or monotonic() > deadline:
                    return seen
                time.sleep(LOOK_S)

    def _end_periodic(self) -> None:
        """Cancel the periodic tasks, so that nothing goes on firing on stores that stay."""
        deadline = monotonic() + CANCELLED_S
        left = [one.id for one in self.periodic]
        while left and monotonic() < deadline:
            for task_id in left:
                with contextlib.suppress(TaskkitError):
                    self.kit.operations.cancel(task_id, "taskkit demo")
            with contextlib.suppress(TaskkitError):
                left = [task.id for task in self.center.read.tasks(left) if task.status not in ENDED]
            time.sleep(LOOK_S if left else 0)

    def _tell(self, seen: Seen, written: list[Written]) -> list[str]:
        workers = [node["worker_id"] for node in self._at_work() if "worker_id" in node]
        names = {worker: f"w{number}" for number, worker in enumerate(sorted(workers), 1)}
        show(
            "",
            stories(seen, written, names),
            "",
            schedule(seen, self.periodic),
            "",
            f"Attempts: {shares(seen, names)}.",
        )
        return list(surprises(seen, written, self.periodic))

    def _conclude(self, troubles: list[str]) -> None:
        took = duration(monotonic() - self.began)
        if troubles:
            show("", f"Not as it should be, after {took}:", *(f"  - {trouble}" for trouble in troubles))
            show(f"What the processes said is in {self.stage.log}")
            raise Unexpected(f"{len(troubles)} surprises")
        show("", f"Everything was as it should be, in {took}.", "", "What to type next:", *_path(), *NEXT)
        if self.keep:
            show(
                f"Everything is still in {self.stage.folder}: taskkit --home {self.stage.settings.home} tasks list"
            )


def _path() -> Iterator[str]:
    """How to have the program found, where it is not on PATH: that of a virtual environment, say."""
    program = Path(sys.executable).parent / "taskkit"
    if shutil.which("taskkit") is None and program.exists():
        yield f'  export PATH="{program.parent.absolute()}:$PATH"     so that taskkit is found'


NEXT = (
    "  taskkit up                         start it here, and leave it running",
    '  taskkit enqueue shell --payload \'{"command": "date"}\'',
    "  taskkit tasks list                 what became of it",
    "  crontab -l | taskkit import-crontab - --dry-run",
    "  taskkit --help                     everything else",
)
