"""What a chaos run leaves behind: plain records, with instants on one monotonic axis, that the checker judges alone."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Task(msgspec.Struct, frozen=True):
    """A row of task_center at the end of the run."""

    id: int
    code: str
    type: int
    status: int
    attempt: int
    max_retry: int
    retry_count: int
    lost_count: int
    note: str = ""


class Run(msgspec.Struct, frozen=True):
    """A row of task_run."""

    task: int
    attempt: int
    outcome: str
    worker: str
    pid: int | None
    finished: float
    error: str = ""
    occurrence: int | None = None


class Move(msgspec.Struct, frozen=True):
    """One line of the audit: what the trigger saw in an INSERT (``old`` is None) or UPDATE of task_center.

    ``firing`` is the planned instant of the occurrence that this move was the first attempt of, ``undone`` that of
    the one whose first attempt it put back, since the broker had refused its message.
    """

    seq: int
    task: int
    at: float
    old: int | None
    new: int | None
    attempt_old: int
    attempt_new: int
    worker_old: str | None = None
    worker_new: str | None = None
    lost_count: int = 0
    firing: int | None = None
    undone: int | None = None


class Effect(msgspec.Struct, frozen=True):
    """One start of a handler, from the ledger. ``end`` None: it was never written; then ``until`` is its child's death.

    ``until`` is the instant up to which the effect is known to have gone on.
    """

    task: int
    attempt: int
    code: str
    worker: str
    pid: int
    start: float
    end: float | None
    until: float
    how: str = ""
    occurrence: int | None = None


class Death(msgspec.Struct, frozen=True):
    """The end of a worker's child; ``exact`` when it was watched, else only known to be over by then."""

    pid: int
    at: float
    exact: bool = True


class Process(msgspec.Struct, frozen=True):
    """One start of a scheduler or a worker. ``told`` is when it was asked to stop in order."""

    role: str
    pid: int
    born: float
    died: float | None = None
    code: int | None = None
    told: float | None = None


class Fault(msgspec.Struct, frozen=True):
    """One fault that was carried out, from its beginning to its end; ``victim`` is a pid where it was a process."""

    kind: str
    planned: float
    began: float
    ended: float
    victim: int | None = None
    note: str = ""
    hit: bool = True


class Drop(msgspec.Struct, frozen=True):
    """A message that a worker received and dropped, since its task was not waiting for this attempt any more."""

    task: int
    attempt: int | None
    at: float
    pid: int


class Occurrence(msgspec.Struct, frozen=True):
    """A row of task_occurrence."""

    task: int
    planned: int
    state: str
    reason: str = ""
    attempt: int | None = None


class Periodic(msgspec.Struct, frozen=True):
    """A periodic task's calendar: every ``step`` seconds on the grid of the epoch, from ``first`` on."""

    task: int
    step: int
    first: int
    misfire: str = "once"


class Evidence(msgspec.Struct):
    """Everything that is judged. ``horizon`` is the last planned instant for which an answer can be expected.

    ``lost_after`` is the setting of that name: how old a suspect is, and how far its two proofs are apart.
    """

    seed: int = 0
    database: str = ""
    command: str = ""
    began: float = 0.0
    load_ended: float = 0.0
    ended: float = 0.0
    horizon: int = 0
    offset: float = 0.0
    lost_after: float = 10.0
    accepted: list[int] = []
    refused: int = 0
    unknown: int = 0
    acted: list[int] = []
    dropped: int = 0
    drops: list[Drop] = []
    torn: int = 0
    tasks: list[Task] = []
    runs: list[Run] = []
    moves: list[Move] = []
    effects: list[Effect] = []
    deaths: list[Death] = []
    processes: list[Process] = []
    faults: list[Fault] = []
    occurrences: list[Occurrence] = []
    periodic: list[Periodic] = []

    def save(self, path: Path) -> None:
        """Write all of it as JSON."""
        path.write_bytes(msgspec.json.encode(self))

    @classmethod
    def load(cls, path: Path) -> Evidence:
        """Read what :meth:`save` wrote."""
        return msgspec.json.decode(path.read_bytes(), type=cls)
