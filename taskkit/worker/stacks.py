"""Where the processes of a worker stand: their stacks, had even while they are in C code or do not answer."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import traceback

from taskkit.clock import monotonic
from taskkit.worker.marks import unnamed_file

SIGNAL = int(signal.SIGRTMIN) + 11 if hasattr(signal, "SIGRTMIN") else int(signal.SIGUSR2)
"""A signal that programs do not use: it makes a nursery or a child write its stacks, whatever it is doing."""
LOOK = 0.05


def answer_into(fd: int) -> None:
    """In a nursery or a child: write the stacks of all threads to ``fd`` whenever they are asked for."""
    faulthandler.register(SIGNAL, file=fd, all_threads=True, chain=False)


class StackFile:
    """The parent's end of such a file; one for each process."""

    def __init__(self) -> None:
        self.fd = unnamed_file("taskkit-stacks")

    def ask(self, pid: int, ancestor: int) -> bool:
        """Ask a process for its stacks; False when it is no longer there, below ``ancestor``."""
        import psutil  # not at the top: the nursery needs this module, and never asks

        with contextlib.suppress(psutil.Error, OSError):
            os.ftruncate(self.fd, 0)
            os.lseek(self.fd, 0, os.SEEK_SET)
            if psutil.Process(pid).ppid() == ancestor:
                os.kill(pid, SIGNAL)
                return True
        return False

    def read(self) -> str:
        """What has been written since the last :meth:`ask`; nothing when its process has ended meanwhile."""
        with contextlib.suppress(OSError):
            return self._written()
        return ""

    def _written(self) -> str:
        return os.pread(self.fd, os.fstat(self.fd).st_size, 0).decode(errors="replace")

    def close(self) -> None:
        """Release the descriptor."""
        os.close(self.fd)


def own_stacks() -> str:
    """The stacks of all threads of this process."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    told = [
        f"Thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    ]
    return "\n".join(told)


def stacks_of(processes: dict[str, tuple[StackFile, int, int]], seconds: float) -> dict[str, str]:
    """The stacks of processes, each given as file, pid and its parent's pid; waits for them at most so long."""
    asked = [name for name, (file, pid, parent) in processes.items() if file.ask(pid, parent)]
    found = dict.fromkeys(processes, "")
    deadline = monotonic() + seconds
    while asked and monotonic() < deadline:
        threading.Event().wait(LOOK)
        for name in list(asked):
            said = processes[name][0].read()
            if said and said == found[name]:
                asked.remove(name)
            found[name] = said
    return {name: said or "(it did not say where it is)" for name, said in found.items()}
