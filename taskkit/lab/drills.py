"""The drills: what is broken on purpose, what must follow, and how long it took to notice and to recover."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from taskkit.clock import monotonic
from taskkit.errors import NotFound, TaskkitError
from taskkit.lab.ground import Ground
from taskkit.render import counted
from taskkit.settings import Scheduler
from taskkit.states import Outcome, Status

WAITING = 50
NAPS, NAP_S = 4, 2.0
BLIP_S = 3.0
SETTLE_S = 30.0


@dataclass(slots=True)
class Report:
    """What a drill found: the steps with their seconds since the fault, and each condition with whether it held."""

    drill: str
    queue: str
    noticed_s: float | None = None
    recovered_s: float | None = None
    steps: list[tuple[float, str]] = field(default_factory=list)
    checks: list[tuple[str, bool, str]] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every condition held."""
        return bool(self.checks) and all(held for _, held, _ in self.checks)


class Drill:
    """One drill under way: says what happens, measures from the fault on, and collects the conditions."""

    def __init__(self, name: str, ground: Ground, limits: Scheduler, tell: Callable[[str], None]) -> None:
        self.ground, self.limits, self._tell = ground, limits, tell
        self.report = Report(name, ground.queue_name)
        self._fault = monotonic()

    def step(self, text: str) -> None:
        """Something has happened."""
        self.report.steps.append((round(monotonic() - self._fault, 1), text))
        self._tell(text)

    def fault(self, text: str) -> None:
        """The fault: from here on the clock runs."""
        self._fault = monotonic()
        self.step(text)

    def noticed(self, seconds: float, text: str, condition: Callable[[], bool]) -> None:
        """Wait until the system has noticed; too late is a failure."""
        self.report.noticed_s = self.awaited(seconds, text, condition)

    def recovered(self, seconds: float, text: str, condition: Callable[[], bool]) -> None:
        """Wait until everything is as it should be; too late is a failure."""
        self.report.recovered_s = self.awaited(seconds, text, condition)

    def check(self, what: str, held: bool, found: str) -> None:
        """A condition, and what was found."""
        self.report.checks.append((what, held, found))

    def needs_the_installation(self) -> None:
        """Raise unless the broker answers and a scheduler lives: it is they whom the drill tries."""
        self.ground.queue.ping()
        if not self.ground.live_schedulers():
            raise NotFound(
                "no scheduler is alive, and the drill is to try yours: start the installation first, "
                "with `taskkit up` or `python -m taskkit.scheduler`"
            )

    def ran_once(self) -> None:
        """Every task has succeeded, and once."""
        succeeded = Counter(run.task_id for run in self.ground.runs() if run.outcome is Outcome.SUCCESS)
        ids = self.ground.ids
        self.check(
            "all tasks succeeded",
            self.ground.in_status(Status.SUCCESS) == len(ids),
            f"{len(succeeded)} of {len(ids)}",
        )
        twice = sum(count > 1 for count in succeeded.values())
        self.check("none succeeded twice", twice == 0, f"{twice} of {len(ids)}")

    def awaited(self, seconds: float, text: str, condition: Callable[[], bool]) -> float | None:
        """Wait for a condition; returns the seconds from the fault to it, None when it did not come in time."""
        took = self.ground.within(seconds, condition)
        since = None if took is None else round(monotonic() - self._fault, 1)
        self.check(
            text, took is not None, f"after {since} s" if took is not None else f"not in {seconds:.0f} s"
        )
        if took is not None:
            self.step(text)
        return since


def redis_loss(drill: Drill) -> None:
    """Messages vanish from Redis: tasks are dispatched, their messages taken out, nobody has claimed them."""
    ground = drill.ground
    drill.needs_the_installation()
    ids = ground.enqueue(WAITING)
    _when_all(drill, Status.DISPATCHED, f"wait in the queue {ground.queue_name}")
    taken = 0
    while pulled := ground.queue.pull([ground.queue_name], 1000, 0).messages:
        taken += len(pulled)
    drill.fault(f"{counted(taken, 'message')} taken out of the list {ground.queue_name}, as a flush would")
    ground.worker(2)
    patience = 2 * drill.limits.lost_after_s + SETTLE_S
    drill.noticed(patience, "the scheduler found them lost", lambda: ground.count(Outcome.LOST) == len(ids))
    drill.recovered(SETTLE_S, "all tasks ran", lambda: ground.in_status(Status.SUCCESS) == len(ids))
    drill.ran_once()
    attempts = max((run.attempt for run in ground.runs()), default=0)
    drill.check("none was rung for more than once again", attempts == 2, f"at most attempt {attempts}")


def worker_kill(drill: Drill) -> None:
    """A worker is killed with all that it runs, while another one of the same queue lives."""
    ground = drill.ground
    drill.needs_the_installation()
    doomed = ground.worker(NAPS)
    ids = ground.enqueue(NAPS, NAP_S)
    _when_all(drill, Status.RUNNING, "run in a worker of the drill's own")
    ground.kill(doomed)
    drill.fault(f"a worker was killed (SIGKILL) while it ran {counted(len(ids), 'task')}")
    ground.worker(NAPS)
    patience = 2 * drill.limits.dead_after_s + SETTLE_S
    drill.noticed(patience, "the worker was found dead", lambda: ground.count(Outcome.LOST) == len(ids))
    drill.recovered(SETTLE_S, "all tasks ran again", lambda: ground.in_status(Status.SUCCESS) == len(ids))
    drill.ran_once()
    runs = Counter(run.outcome for run in ground.runs())
    drill.check("each was lost once", runs[Outcome.LOST] == len(ids), f"{runs[Outcome.LOST]} lost runs")
    retries = {task.retry_count for task in ground.center.read.tasks(ids)}
    drill.check("no retry was counted", retries == {0}, f"retry_count {sorted(retries)}")


def scheduler_kill(drill: Drill) -> None:
    """A scheduler is killed while tasks keep coming, and what it had claimed and not pushed is left behind."""
    ground = drill.ground
    drill.needs_the_installation()
    doomed = ground.scheduler()
    ground.worker(2)
    ground.enqueue(WAITING)
    claimed = ground.claim_and_leave(10)
    ground.kill(doomed)
    drill.fault(
        f"a scheduler was killed (SIGKILL) after it claimed {counted(claimed, 'task')} and before it pushed a message"
    )
    drill.check("some were left behind", claimed > 0, counted(claimed, "task"))
    flow = ground.enqueue(WAITING)
    drill.awaited(SETTLE_S, "new tasks went on", lambda: _all_succeeded(ground, flow))
    patience = 2 * drill.limits.lost_after_s + SETTLE_S
    drill.noticed(
        patience, "those left behind were found", lambda: ground.count(Outcome.LOST) >= max(1, claimed)
    )
    drill.recovered(SETTLE_S, "and ran too", lambda: _all_succeeded(ground, ground.ids))
    drill.ran_once()


def sql_blip(drill: Drill) -> None:
    """The database goes away from a worker for some seconds while its tasks end: their results must be held."""
    ground = drill.ground
    drill.needs_the_installation()
    worker = ground.worker(NAPS)
    ids = ground.enqueue(NAPS, NAP_S)
    _when_all(drill, Status.RUNNING, "run in a worker of the drill's own")
    desk, before = ground.center.drills, ground.retries(worker)
    if desk.cuts:
        with again_and_again(lambda: desk.cut(ground.ports(worker))) as cuts:
            drill.fault(f"its SQL connections are killed again and again for {BLIP_S:g} s")
            time.sleep(BLIP_S)
        cuts.tell(drill)
    else:
        drill.fault(f"the SQLite file is locked for {BLIP_S:g} s; everybody waits")
        desk.hold(BLIP_S)
        drill.step("the file is free again")
    drill.recovered(SETTLE_S, "all ends are written", lambda: ground.in_status(Status.SUCCESS) == len(ids))
    if desk.cuts:
        drill.noticed(SETTLE_S, "the worker has counted it", lambda: ground.retries(worker) > before)
    drill.ran_once()
    runs = len(ground.runs())
    drill.check("none ran again", runs == len(ids), f"{counted(runs, 'run')} of {counted(len(ids), 'task')}")
    alive = worker.process is not None and worker.process.poll() is None
    drill.check("the worker lives", alive, "it does" if alive else "it has ended")


DRILLS: dict[str, Callable[[Drill], None]] = {
    "redis-loss": redis_loss,
    "worker-kill": worker_kill,
    "sql-blip": sql_blip,
    "scheduler-kill": scheduler_kill,
}


def _all_succeeded(ground: Ground, ids: list[int]) -> bool:
    return all(found[0] == Status.SUCCESS for found in ground.center.read.statuses(ids).values())


def _when_all(drill: Drill, status: Status, told: str) -> None:
    """Wait until all tasks of the drill are there; a drill that cannot begin is no drill."""
    ground, count = drill.ground, len(drill.ground.ids)
    if ground.within(SETTLE_S, lambda: ground.in_status(status) == count) is None:
        raise TaskkitError(
            f"not all of the drill's {counted(count, 'task')} became {status.label} in {SETTLE_S:.0f} s; see `taskkit status`"
        )
    drill.step(f"{counted(count, 'task')} {told}")


@dataclass(slots=True)
class Cuts:
    """How many connections were killed, and what was met on the way, with how often."""

    killed: int = 0
    met: Counter[str] = field(default_factory=Counter)

    def tell(self, drill: Drill) -> None:
        """Into the report; to have killed none is a failure, since nothing was tried then."""
        for what, times in self.met.items():
            drill.step(f"killing them failed {counted(times, 'time')}: {what}")
        drill.step(f"{counted(self.killed, 'connection')} killed")
        found = "; ".join([f"{self.killed} killed", *self.met])
        if not (self.killed or self.met):
            found += "; only those over TCP can be told from others"
        drill.check("there were connections to kill", self.killed > 0, found)


@contextmanager
def again_and_again(act: Callable[[], int]) -> Iterator[Cuts]:
    """Do it every fifth of a second while the block runs, whatever it meets; gives what came of it."""
    cuts, over = Cuts(), threading.Event()

    def run() -> None:
        while not over.wait(0.2):
            try:
                cuts.killed += act()
            except TaskkitError as error:
                cuts.met[str(error)] += 1
            except Exception as error:  # noqa: BLE001 - the drill goes on, and its report tells it
                cuts.met[f"{type(error).__name__}: {error}"] += 1

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield cuts
    finally:
        over.set()
        thread.join()
