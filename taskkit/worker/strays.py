"""Processes that handlers left behind, in groups of their own too: known by the mark of their child, and ended.

A child writes its mark into its environment, which programs inherit, and into the name of its shared memory, which
forked copies keep mapped. Read from /proc, so on Linux only; elsewhere a process that leaves its group is not found.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from taskkit.worker.groups import end_group

VARIABLE = "_TASKKIT_CHILD"
PATIENCE = 2.0
LOOKS, LOOK_S = 15, 0.002
"""How often, and after how long a pause, a process is looked at that shows no environment; some have none."""
PROC = Path("/proc")
MEMORY = "taskkit-marks-"
_mapped = re.compile(rb"/memfd:" + MEMORY.encode() + rb"(\S+) \(deleted\)")


def mark_of(worker_id: str, number: int) -> str:
    """The mark of a worker's child, which no other child has ever had."""
    return f"{worker_id}#{number}"


def bear(mark: str) -> None:
    """In a child: have everything that is started from here bear its mark."""
    os.environ[VARIABLE] = mark


def found_mark(pid: int) -> str | None:
    """The mark that a process bears; None when it has none or cannot be looked at."""
    with contextlib.suppress(OSError):
        if mapped := _mapped.search((PROC / str(pid) / "maps").read_bytes()):
            return mapped[1].decode()
        for entry in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name == VARIABLE.encode():
                return value.decode(errors="replace")
    return None


def settled_mark(pid: int) -> str | None:
    """The same of one that has just been forked: in the middle of its exec nothing can be read of it for a moment."""
    for _ in range(LOOKS):
        mark = found_mark(pid)
        if mark is not None or _shows_itself(pid):
            return mark
        time.sleep(LOOK_S)
    return None


def _shows_itself(pid: int) -> bool:
    """Whether it has an environment, or is over: a zombie, or gone."""
    try:
        environment, about = (
            (PROC / str(pid) / "environ").read_bytes(),
            (PROC / str(pid) / "stat").read_text(),
        )
    except OSError:
        return True
    return bool(environment) or about.rpartition(")")[2].split()[0] in {"Z", "X"}


def end_adopted(worker_id: str, living: Mapping[int, int], patience: float = PATIENCE) -> None:
    """In the nursery: end the processes it has adopted from children that are gone; ``living`` are pid → number.

    One that bears no mark any more is ended as soon as no child lives that could have started it.
    """
    _end(lambda: _adopted(worker_id, living), patience)


def end_orphans(worker_id: str, groups: Iterable[int], patience: float = PATIENCE) -> None:
    """In the parent, when the nursery is gone: end its children's groups, and all that bears a mark of this worker."""
    groups = list(groups)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    _end(lambda: _marked(worker_id), patience)
    for group in groups:
        end_group(group, patience)


def _end(find: Callable[[], Iterable[int]], patience: float) -> None:
    """Kill what is found until nothing is: what a killed one had started comes to us in its turn."""
    deadline = time.monotonic() + patience
    while (found := list(find())) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
        for pid in found:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _adopted(worker_id: str, living: Mapping[int, int]) -> Iterator[int]:
    strangers = [pid for pid in _children() if pid not in living]
    if not strangers:
        return
    marks = {mark_of(worker_id, number) for number in living.values()}
    births = [_birth(pid) for pid in living]
    for pid in strangers:
        mark = settled_mark(pid)
        ours = mark is not None and mark.startswith(mark_of(worker_id, 0)[:-1])
        if mark in marks or (not ours and any(born <= _birth(pid) for born in births)):
            continue
        yield pid


def _marked(worker_id: str) -> Iterator[int]:
    beginning = mark_of(worker_id, 0)[:-1]
    me, ours = os.getpid(), _birth(os.getpid())
    for entry in PROC.glob("[0-9]*"):
        pid = int(entry.name)
        if (
            pid == me or _birth(pid) < ours
        ):  # we map all marks ourselves; what is older than we are bears none
            continue
        if (found_mark(pid) or "").startswith(beginning):
            yield pid


def _children() -> list[int]:
    """The children of this process, which has one thread: those it forked, and those it adopted."""
    me = os.getpid()
    try:
        return [int(word) for word in (PROC / f"{me}/task/{me}/children").read_text().split()]
    except OSError:  # a kernel without that file
        pids = [int(entry.name) for entry in PROC.glob("[0-9]*")]
        return [pid for pid in pids if _field(pid, 1) == me]


def _birth(pid: int) -> int:
    """When a process started, in ticks since the machine did."""
    return _field(pid, 19)


def _field(pid: int, number: int) -> int:
    """A field of /proc/PID/stat, counted after the name; 0 when there is no such process."""
    with contextlib.suppress(OSError, IndexError):
        return int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[number])
    return 0
