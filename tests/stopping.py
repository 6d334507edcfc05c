"""A scheduler that is stopped (SIGSTOP) exactly between its look at what is due and its claim."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from tests.processes import Installation

STOPPING = """
import os, signal, sys
from taskkit.center.dispatch import DispatchDesk
from taskkit.scheduler.__main__ import main

claim = DispatchDesk.claim

def claim_after_a_stop(self, ids):
    DispatchDesk.claim = claim
    print("stopping", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    return claim(self, ids)

DispatchDesk.claim = claim_after_a_stop
main(standalone_mode=True)
"""


class Stopping:
    """Stops itself before its first claim, until it is told to go on; killed at the end of the block."""

    def __init__(self, home: Installation) -> None:
        self.home = home
        with (home.folder / "stopping.out").open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", STOPPING], env=home.environment, cwd=home.folder, stdout=out
            )

    def stands_still(self) -> bool:
        """Whether it has come to its first claim and is stopped there."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"

    def go_on(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def row(self) -> dict[str, Any]:
        """Its row in SQL."""
        rows = self.home.kit.center.nodes.schedulers()
        return next(row for row in rows if row["pid"] == self.process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
