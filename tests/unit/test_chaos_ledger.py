"""The ledger of the chaos run: what a kill leaves of it, and what is made of that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench.chaos import ledger
from bench.chaos.collect import effects
from bench.chaos.deaths import Deaths
from bench.chaos.evidence import Death
from bench.chaos.ledger import BIRTH, END, START, Entry, Pen
from tests.waiting import wait_until


def entry(kind: str, mono: float, pid: int = 10, extra: str = "-") -> Entry:
    return Entry(kind, mono, mono, pid, "host:1:aa", 5, 1, "fast", extra)


def test_a_line_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    pen = Pen(tmp_path / "ledger")
    before = time.monotonic()
    pen.write(START, "host:1:aa", 5, 2, "fast", "1700000000")
    (found,) = ledger.read(tmp_path / "ledger")
    assert found is not None
    assert (found.kind, found.pid, found.worker) == (START, os.getpid(), "host:1:aa")
    assert (found.task, found.attempt, found.code, found.extra) == (5, 2, "fast", "1700000000")
    assert before <= found.mono <= time.monotonic()


def test_a_torn_line_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text(
        "S 1 2 3 w 4 5 fast -\nnonsense\nS 1 2 3 w 4 x fast -\nS 1 2 3 w 4 5 fast"
    )
    assert [found is None for found in ledger.read(tmp_path / "ledger")] == [False, True, True, True]


def test_an_effect_without_an_end_lasts_until_its_child_is_dead() -> None:
    starts = [entry(START, 1.0), entry(START, 2.0, pid=11), entry(END, 3.0, pid=11, extra="ok")]
    first, second = effects(starts, [Death(10, 0.5), Death(10, 4.0), Death(10, 9.0)], 50)
    assert (first.end, first.until) == (None, 4.0)
    assert (second.end, second.until, second.how) == (3.0, 3.0, "ok")


def test_an_effect_goes_on_to_the_end_while_nobody_saw_its_child_die() -> None:
    (only,) = effects([entry(START, 1.0)], [Death(10, 0.5)], 50)
    assert only.until == 50


def test_a_death_that_was_noticed_late_counts_from_the_last_sign_of_life() -> None:
    lines = [entry(BIRTH, 0.5), entry(START, 1.0)]
    (only,) = effects(lines, [Death(10, 9.0, exact=False)], 50)
    assert only.until == 1.0


def test_one_attempt_that_starts_twice_gives_two_effects() -> None:
    lines = [entry(START, 1.0), entry(END, 2.0, extra="ok"), entry(START, 3.0), entry(END, 4.0, extra="ok")]
    assert [(e.start, e.end) for e in effects(lines, [], 50)] == [(1.0, 2.0), (3.0, 4.0)]


def test_the_death_of_a_child_is_known_at_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    code = (
        "import sys, time, pathlib; from bench.chaos.ledger import Pen; "
        "Pen(pathlib.Path(sys.argv[1])).write('B', 'w'); time.sleep(60)"
    )
    deaths = Deaths(path)
    deaths.start()
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", code, str(path)], cwd=root) as child:
        wait_until(lambda: deaths.watched == 1)
        before = time.monotonic()
        child.send_signal(signal.SIGKILL)
        child.wait()
        (found,) = wait_until(lambda: deaths.found)
    deaths.stop()
    assert (found.pid, found.exact) == (child.pid, True)
    assert found.at >= before
