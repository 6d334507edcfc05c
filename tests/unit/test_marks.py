"""Shared memory between parent and child: what was begun was not taken back, and the other way round."""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from taskkit.worker.marks import Marks

ROOT = Path(__file__).parents[2]
ROUNDS = 100
JOBS = 200


@pytest.fixture
def marks() -> Iterator[Marks]:
    found = Marks.create(3)
    yield found
    found.close()


def test_a_start_and_an_end_are_seen_by_the_other_side(marks: Marks) -> None:
    other = Marks(os.dup(marks.fd))
    assert other.slots == 3
    assert other.running(1) == (0, 0.0)
    assert marks.begin(5, 1, 12.5)
    assert other.running(1) == (5, 12.5)
    assert (other.begun(), other.running(0)[0]) == (5, 0)
    marks.end(1)
    assert other.running(1)[0] == 0
    assert other.begun() == 5
    other.close()


def test_what_was_taken_back_does_not_begin(marks: Marks) -> None:
    assert marks.begin(1, 0, 1.0)
    assert marks.revoke(4) == 1
    assert not any(marks.begin(seq, 0, 1.0) for seq in (2, 3, 4))
    assert marks.begun() == 1
    assert marks.begin(5, 0, 1.0)
    assert marks.revoke(9) == 5


def serve(descriptor: int) -> None:
    """The other process: for each round's marks begin jobs 1 … JOBS until one was taken back, and tell the last."""
    told = socket.socket(fileno=descriptor)
    while (received := socket.recv_fds(told, 1, 1))[1]:
        marks, last = Marks(received[1][0]), 0
        told.send(b"go")
        for seq in range(1, JOBS + 1):
            if not marks.begin(seq, 0, 0.0):
                break
            last = seq
            marks.end(0)
        told.send(str(last).encode())
        marks.close()


def hold(descriptor: int) -> None:
    """The other process: stop in the middle of a begin."""
    told = socket.socket(fileno=descriptor)
    marks = Marks(socket.recv_fds(told, 1, 1)[1][0])
    marks.begin(1, 2, 1.0)
    fcntl.lockf(marks.fd, fcntl.LOCK_EX, 8)
    told.send(b"go")
    time.sleep(60)


@contextmanager
def another(code: str) -> Iterator[tuple[socket.socket, subprocess.Popen[bytes]]]:
    """A process that runs ``code``, where ``fd`` is its end of the socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [
            sys.executable,
            "-c",
            f"from tests.unit.test_marks import *; fd = {theirs.fileno()}; {code}",
        ]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=ROOT)
        theirs.close()
        yield ours, process
    process.wait()


def test_begin_and_take_back_exclude_each_other_between_two_processes() -> None:
    """Each job is begun by the child or taken back by the parent, never both and never neither."""
    rng, seen = random.Random(3), set()
    with another("serve(fd)") as (ours, process):
        for number in itertools.count(1):
            marks = Marks.create(1)
            socket.send_fds(ours, [b"x"], [marks.fd])
            assert ours.recv(2) == b"go"
            for _ in range(rng.randrange(400 * number)):
                pass
            begun = marks.revoke(JOBS)
            assert int(ours.recv(10)) == begun
            seen.add(begun)
            marks.close()
            if number >= ROUNDS and len(seen) > 3:  # the race was run at many points
                break
    assert process.returncode == 0


def test_a_child_that_dies_within_begin_holds_nobody_up(marks: Marks) -> None:
    with another("hold(fd)") as (ours, process):
        socket.send_fds(ours, [b"x"], [marks.fd])
        assert ours.recv(2) == b"go"
        process.kill()
        assert marks.revoke(9) == 1
