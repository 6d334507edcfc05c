"""Other processes that hold locks: each obeys one line at a time, and answers with one.

As a program (``python -m tests.peers FLAVOUR NAME TTL``) it reads its settings from the environment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import sqlalchemy as sa

from taskkit import Settings, Taskkit
from taskkit.coordination import DistributedLock
from taskkit.errors import LockError

ROOT = Path(__file__).parents[1]
FLAVOURS = ("sql", "redis")


def lock_of(kit: Taskkit, flavour: str, name: str, **options: object) -> DistributedLock:
    """A lock of this flavour."""
    make = kit.lock if flavour == "sql" else kit.redis_lock
    return make(name, **options)  # type: ignore[arg-type]


class Peer:
    """A process with a lock of its own."""

    def __init__(self, settings: Settings, flavour: str, name: str, ttl: float) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TASKKIT_")}
        environment |= {
            "PYTHONPATH": str(ROOT),
            "TASKKIT_HOME": str(settings.home),
            "TASKKIT_DATABASE_URL": settings.database_url or "",
            "TASKKIT_REDIS_URL": settings.redis_url or "",
            "TASKKIT_KEY_PREFIX": settings.key_prefix or "",
        }
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "tests.peers", flavour, name, str(ttl)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ready = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def tell(self, *words: object) -> None:
        """Send an order without waiting for its answer."""
        assert self.popen.stdin is not None
        self.popen.stdin.write(" ".join(map(str, words)) + "\n")
        self.popen.stdin.flush()

    def hear(self) -> str:
        """The next answer."""
        assert self.popen.stdout is not None
        if not self._ready:
            self._ready = self.popen.stdout.readline() == "ready\n"
            assert self._ready
        return self.popen.stdout.readline().rstrip("\n")

    def ask(self, *words: object) -> str:
        """Send an order; its answer."""
        self.tell(*words)
        return self.hear()

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self.signal(signal.SIGKILL)
        self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def add_slowly(lock: DistributedLock, path: str, times: int) -> str:
    """Add 1 to the number in a file, as only one at a time may."""
    for _ in range(times):
        with lock:
            found = int(Path(path).read_text())
            time.sleep(0.002)
            Path(path).write_text(str(found + 1))
    return "added"


def once(kit: Taskkit, key: str) -> str:
    """Whether we were first, with the effect in the same transaction."""
    engine = sa.create_engine(kit.settings.sqlalchemy_url())
    with engine.begin() as connection:
        first = kit.once(connection, key)
        if first:
            time.sleep(0.05)
            connection.execute(sa.text("INSERT INTO effects (name) VALUES (:key)"), {"key": key})
    engine.dispose()
    return str(first)


def obey(kit: Taskkit, lock: DistributedLock, word: str, *more: str) -> str:
    orders = {
        "acquire": lambda: str(lock.acquire(timeout=float(more[0]))),
        "fence": lambda: str(lock.fence),
        "release": lambda: str(lock.release()),
        "check": lambda: str(lock.check()),
        "add": lambda: add_slowly(lock, more[0], int(more[1])),
        "once": lambda: once(kit, more[0]),
        "begin": lambda: str(kit.redis_once(more[0], life=float(more[1])).__enter__().first),
    }
    try:
        return orders[word]()
    except LockError as error:
        return type(error).__name__


def main() -> None:
    flavour, name, ttl = sys.argv[1:]
    kit = Taskkit()
    lock = lock_of(kit, flavour, name, ttl=float(ttl))
    print("ready", flush=True)
    for line in sys.stdin:
        print(obey(kit, lock, *line.split()), flush=True)


if __name__ == "__main__":
    main()
