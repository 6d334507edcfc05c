"""``python -m tests.fast_worker``: a worker whose looks and time limits are short, as FAST_* of the environment say."""

from __future__ import annotations

import os

from taskkit.center import TaskCenter
from taskkit.center.database import Database
from taskkit.worker import holding
from taskkit.worker.__main__ import main

if "FAST_LOOK_S" in os.environ:
    holding.LOOK_SECONDS = float(os.environ["FAST_LOOK_S"])
if "FAST_READ_S" in os.environ:
    for kind in (Database, TaskCenter):
        kind.__init__.__kwdefaults__["read_timeout"] = float(os.environ["FAST_READ_S"])  # type: ignore[misc]
if "FAST_LOCK_S" in os.environ:
    from taskkit.center import sessions

    sessions.MYSQL_SESSION = tuple(
        text.replace(
            "innodb_lock_wait_timeout = 10", f"innodb_lock_wait_timeout = {os.environ['FAST_LOCK_S']}"
        )
        for text in sessions.MYSQL_SESSION
    )
    sessions.MYSQL_EXPECTED["innodb_lock_wait_timeout"] = os.environ["FAST_LOCK_S"]

if __name__ == "__main__":
    main()
