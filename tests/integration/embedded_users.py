"""Processes that use the embedded server, for test_embedded.py: one that obeys its stdin, and a crowd."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import psutil

from taskkit.embedded import Embedded
from taskkit.embedded.valkey import Server, ask


def obey(home: Path) -> None:
    """Do what the lines of stdin say and answer each with one line."""
    users = [Embedded(home), Embedded(home)]
    for line in sys.stdin:
        word, _, number = line.strip().partition(" ")
        user = users[int(number or 0)]
        answer = {"fork": forked, "hold": held}.get(word) or getattr(Embedded, word)
        print(answer(user), flush=True)


def forked(user: Embedded) -> str:
    """A child that ends as Python programs do; the server must survive it."""
    pid = os.fork()
    if not pid:
        assert not user.joined
        sys.exit(0)
    return str(os.waitpid(pid, 0)[1])


def held(user: Embedded) -> str:
    """The pid of a child that does nothing until it is killed."""
    pid = os.fork()
    if not pid:
        signal.pause()
    return str(pid)


def crowd(home: Path, people: int, rounds: int, deadly: bool) -> int:
    """Many processes that join, use and leave at once; returns how many met something wrong."""
    record_starts(home)
    pids = [person(home, rounds, deadly) for _ in range(people)]
    return sum(os.waitpid(pid, 0)[1] not in ((0, signal.SIGKILL) if deadly else (0,)) for pid in pids)


def person(home: Path, rounds: int, deadly: bool) -> int:
    pid = os.fork()
    if not pid:
        code = 1
        try:
            random.seed(os.getpid())
            code = sum(not one_visit(home, deadly) for _ in range(rounds))
        finally:
            os._exit(code)
    return pid


def one_visit(home: Path, deadly: bool) -> bool:
    """Join, ask the server something for a moment, leave; or be killed somewhere on the way."""
    if deadly and random.random() < 0.3:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.03))
    user = Embedded(home)
    user.join()
    pongs = []
    for _ in range(random.randrange(1, 4)):
        pongs.append(ask(home / "valkey.sock", b"PING"))
        time.sleep(random.uniform(0, 0.002))
    user.leave()
    return set(pongs) == {b"+PONG\r\n"}


def record_starts(home: Path) -> None:
    """Write down every start, and an accusation when another server of this folder lives at that moment."""
    launch = Server.launch

    def recorded(self: Server, command: list[str]) -> str:
        text = "two servers\n" if servers(home) else "start\n"
        with (home / "starts").open("a") as file:
            file.write(text)
        return launch(self, command)

    Server.launch = recorded  # type: ignore[method-assign]


def servers(home: Path) -> list[int]:
    """The living servers of this folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or ())
        if f"unixsocket:{home}/" in line and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


def left_in(home: Path) -> list[str]:
    """What the last user left behind beside lock files and the log: a server, a socket; or which of those is missing."""
    kept = {"valkey.alive", "valkey.users", "valkey.start", "valkey.log"}
    return [f"server {pid}" for pid in servers(home)] + sorted(
        {path.name for path in home.iterdir()} - {"starts"} ^ kept
    )


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    if sys.argv[1] == "obey":
        obey(folder)
    else:
        sys.exit(crowd(folder, int(sys.argv[3]), int(sys.argv[4]), sys.argv[1] == "deadly"))
