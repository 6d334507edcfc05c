"""An application that uses its doors while it is imported: its children inherit open connections to both servers."""

from __future__ import annotations

import os
import signal
import sys

import sqlalchemy as sa

from taskkit import Taskkit
from taskkit.model import ListName

kit = Taskkit()
ASK = "SELECT 0" if kit.settings.embedded_database else "SELECT CONNECTION_ID()"


def connection_id() -> int:
    with kit.center.database.engine.connect() as connection:
        return int(connection.execute(sa.text(ASK)).scalar_one())


def broker_answers() -> bool:
    assert kit.queue is not None
    return kit.queue.depth([ListName("nothing")]) == {ListName("nothing"): 0}


INHERITED = connection_id()
broker_answers()


@kit.task("own", max_retry=3, retry_delays=[0.05])
def own(value: int, end: str = "") -> dict[str, int]:
    """Uses engine and broker of the module, and answers with what is its own; some take their child along."""
    found = {"value": value, "connection": connection_id(), "inherited": INHERITED, "pid": os.getpid()}
    assert broker_answers()
    assert kit.center.read.task(kit_task()).payload == f'{{"value":{value},"end":"{end}"}}'
    if end and first_attempt():
        os.kill(os.getpid(), signal.SIGKILL) if end == "kill" else sys.exit(3)
    return found


def kit_task() -> int:
    from taskkit import current_run

    return current_run().task_id


def first_attempt() -> bool:
    from taskkit import current_run

    return current_run().attempt == 1
