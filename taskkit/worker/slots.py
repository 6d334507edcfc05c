"""One child as its parent sees it: what it was given, what it has begun, and why it is being ended."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice, takewhile

import msgspec

from taskkit.clock import iso, monotonic
from taskkit.model import Claimed
from taskkit.states import Outcome
from taskkit.worker import frames
from taskkit.worker.frames import ChildJob, RunJobs
from taskkit.worker.marks import Marks
from taskkit.worker.stacks import StackFile

A_YEAR = 366 * 86_400
NONE_AT_ONCE: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class ParentVerdict:
    """What to say of a job that is ended before it has come to an end of its own."""

    outcome: Outcome
    text: str


@dataclass(slots=True)
class Given:
    """A job that a child was given and has not answered; ``verdict`` if it was told to stop."""

    job: ChildJob
    task: Claimed
    estimate: float
    verdict: ParentVerdict | None = None
    begun_at: float | None = None
    cancel_sent: float | None = None


@dataclass(slots=True)
class Slot:
    """A child: its socket, its marks, its jobs. ``mode`` is that of its jobs while it has any.

    Of a mode it runs ``at_once`` jobs at a time, in the order in which they were given; the others wait in it.
    ``retiring``: to be replaced once its jobs are done; ``leaving``: to go without another in its place.
    ``asked_at`` is when it was asked to end, ``deaf_at`` when its end of the socket closed, ``cause`` why it is killed if that is no fault of its jobs' time.
    """

    number: int
    sock: socket.socket
    marks: Marks
    stacks: StackFile
    born: float
    at_once: Mapping[str, int] = field(default_factory=dict)
    pid: int | None = None
    mode: str = ""
    jobs: dict[int, Given] = field(default_factory=dict)
    places: deque[int] = field(default_factory=deque)
    outbox: bytearray = field(default_factory=bytearray)
    unpacker: frames.Unpacker = field(default_factory=frames.Unpacker)
    weight: float = 0.0
    next_seq: int = 1
    served: int = 0
    rss_at_start: int | None = None
    alone: bool = False
    retiring: bool = False
    leaving: bool = False
    ending: bool = False
    verdicts: dict[int, ParentVerdict] = field(default_factory=dict)
    asked_at: float | None = None
    kill_at: float | None = None
    deaf_at: float | None = None
    cause: str | None = None

    @classmethod
    def create(
        cls, number: int, places: int, mark: str = "", at_once: Mapping[str, int] = NONE_AT_ONCE
    ) -> tuple[Slot, int]:
        """A slot and the descriptor of the child's end of its socket; its memory bears the child's ``mark``."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        marks, stacks = Marks.create(places, mark), StackFile()
        slot = cls(number, ours, marks, stacks, monotonic(), at_once, places=deque(range(places)))
        return slot, theirs.detach()

    @property
    def usable(self) -> bool:
        """Whether it may be given jobs."""
        return self.pid is not None and not (self.retiring or self.leaving or self.ending)

    @property
    def idle(self) -> bool:
        """Whether it has nothing to do and may be given something."""
        return self.usable and not self.jobs

    def load(self, now: float) -> float:
        """Seconds of work that it holds, by what its codes usually take; what takes longer may do so as long again."""
        if not self.jobs:
            return 0.0
        first = next(iter(self.jobs.values()))
        elapsed, usual = self._elapsed(first, now), first.estimate
        return (self.weight - usual) / self.lanes + (usual - elapsed if elapsed < usual else elapsed)

    def overdue(self, now: float) -> float:
        """Seconds by which what it runs takes longer than usual; of several jobs at a time, that of the one nearest to it."""
        running = islice(self.jobs.values(), self.lanes)
        return min((self._elapsed(given, now) - given.estimate for given in running), default=0.0)

    @property
    def lanes(self) -> int:
        """How many of its jobs run at a time."""
        return self.at_once.get(self.mode, 1)

    def prepare(self, task: Claimed, mode: str, estimate: float) -> ChildJob:
        """Note a task as given; the job goes out with :meth:`give`."""
        place = 0 if mode == "sync" else self.places.popleft()
        job = ChildJob(
            self.next_seq,
            place,
            task.id,
            task.attempt,
            task.task_code,
            task.queue,
            task.payload or "{}",
            float(task.timeout),
            task.trace_id or f"task-{task.id}",
            iso(task.occurrence_at),
            mode,
        )
        self.next_seq += 1
        self.mode = mode
        self.jobs[job.seq] = Given(job, task, estimate)
        self.weight += estimate
        return job

    def give(self, jobs: list[ChildJob]) -> None:
        """Send jobs that were prepared."""
        self.post(RunJobs(jobs, self.lanes))

    def post(self, frame: msgspec.Struct) -> None:
        """Queue a frame for the child and send what its socket takes now."""
        self.outbox += frames.pack(frame)
        self.flush()

    def flush(self) -> None:
        """Send what waits; what does not fit stays in the outbox. A dead child is noticed elsewhere."""
        while self.outbox:
            try:
                sent = self.sock.send(self.outbox)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self.outbox.clear()
                return
            del self.outbox[:sent]

    def settle(self, seq: int) -> Given | None:
        """A job has ended: forget it and free its place."""
        given = self.jobs.pop(seq, None)
        if given is not None:
            self.weight -= given.estimate
            if given.job.mode != "sync":
                self.places.append(given.job.slot)
        if not self.jobs:
            self.mode, self.alone, self.weight = "", False, 0.0
        return given

    def started(self, given: Given) -> float | None:
        """When a job that runs began, in monotonic seconds; None before that, and when it has ended."""
        seq, _ = self.marks.running(given.job.slot)
        if seq == given.job.seq:
            given.begun_at = self.began(given)
        return None if seq != given.job.seq and self._is_sane(seq) else given.begun_at

    def began(self, given: Given) -> float | None:
        """When a job began, whether it still runs or not, as far as its handler left the marks as they were."""
        _, at = self.marks.running(given.job.slot)
        return at if self.born <= at <= monotonic() else given.begun_at

    def _is_sane(self, seq: int) -> bool:
        return seq == 0 or seq in self.jobs

    def perhaps_running(self) -> list[Given]:
        """The jobs that may run now: of a child that runs one after another, the one that its marks name.

        Handlers may have spoilt the marks: then all of them.
        """
        if self.mode == "sync":
            seq, _ = self.marks.running(0)
            if seq == 0:
                return []
            if seq in self.jobs:
                return [self.jobs[seq]]
        if self.mode == "sync":
            return list(self.jobs.values())
        begun = self.marks.begun()
        return list(takewhile(lambda given: given.job.seq <= begun, self.jobs.values()))

    def has_begun(self, given: Given) -> bool:
        """Whether the handler of this job may have had an effect."""
        return given.job.seq <= self.marks.begun()

    def take_back(self) -> list[Given]:
        """Take back all jobs that have not begun."""
        begun = self.marks.revoke(self.next_seq - 1)
        back = [self.jobs[seq] for seq in sorted(self.jobs) if seq > begun]
        for given in back:
            self.settle(given.job.seq)
        return back

    def close(self) -> None:
        """Release socket, marks and stacks."""
        self.sock.close()
        self.marks.close()
        self.stacks.close()

    def _elapsed(self, given: Given, now: float) -> float:
        seq, started = self.marks.running(given.job.slot)
        elapsed = now - started
        return elapsed if seq and 0 <= elapsed < A_YEAR else 0.0
