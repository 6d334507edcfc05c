"""The built-in handler ``shell`` keeps bounded output, waits for nothing but its program, leaves nothing."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from taskkit.errors import Interrupted
from taskkit.results import encode_result
from taskkit.worker.builtin import CommandFailed, shell
from tests.pids import alive
from tests.waiting import wait_until


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Raise Interrupted in this thread, as the worker's child does when a time limit is over."""

    def interrupt(*_: object) -> None:
        raise Interrupted("time is over")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_bytes_of_no_meaning_are_shown_and_json_can_hold_them() -> None:
    output = shell(
        argv=[sys.executable, "-c", r"import os; os.write(1, b'a\xff\xe4\xb8\xad\xed\xa0\x80\0')"]
    )["output"]
    assert output == "a\\xff中\\xed\\xa0\\x80\0"
    json.dumps(output).encode()


def test_long_output_keeps_head_and_tail_and_shows_the_cut() -> None:
    result = shell(command="seq 100000", output_limit=100)
    lines = result["output"].splitlines()
    assert result["cut"]
    assert (lines[0], lines[-1]) == ("1", "100000")
    assert "… [the middle of 588895 bytes is cut] …" in lines
    assert not shell(command="printf %0100d 0", output_limit=100)["cut"]
    assert shell(command="printf 12345", output_limit=1)["output"].split("\n")[-1] == "5"
    assert "[the middle of 5 bytes is cut]" in shell(command="printf 12345", output_limit=0)["output"]


@pytest.mark.parametrize("program", ["yes", "cat /dev/zero", "cat /dev/urandom", "yes '\"'", "yes 😀"])
def test_a_result_of_any_content_fits_what_is_kept_of_results(program: str) -> None:
    result = shell(command=f"{program} | head -c 200000")
    kept, _ = encode_result(result, 65_536)
    assert json.loads(kept or "null") == result


def test_a_cut_falls_between_characters() -> None:
    program = "import sys; sys.stdout.reconfigure(encoding='utf-8'); print('中' * 1000, end='')"
    for limit in range(20, 26):
        output = shell(argv=[sys.executable, "-c", program], output_limit=limit)["output"]
        assert set(output.partition("\n")[0]) == set(output.rpartition("\n")[2]) == {"中"}


def test_a_hundred_megabytes_of_output_cost_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = shell(command="yes | head -c 100000000")
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (result["cut"], result["output"].endswith("y\n")) == (True, True)
    assert len(encode_result(result, 65_536)[0] or "") > 60_000
    assert grown_kib < 20_000


def test_a_background_process_that_holds_the_pipe_is_not_waited_for() -> None:
    started = time.monotonic()
    result = shell(command="sleep 60 & echo $!; exit 0")
    pid = int(result["output"])
    try:
        assert time.monotonic() - started < 30
        assert alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_background_process_that_writes_without_end_is_not_waited_for(tmp_path: Path) -> None:
    started = time.monotonic()
    assert shell(command=f"yes & echo $! > {tmp_path}/pid; exit 3", expect=[3], output_limit=1000)["cut"]
    assert time.monotonic() - started < 30
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not alive(pid))


def test_what_a_program_said_last_is_not_lost() -> None:
    for _ in range(20):
        assert shell(command="printf %060000d 1; printf end")["output"].endswith("1end")


def test_a_program_that_closes_its_output_is_waited_for() -> None:
    assert shell(command="exec >&- 2>&-; sleep 0.2; exit 3", expect=[3])["runtime_ms"] >= 200


def test_an_interruption_ends_the_program_and_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with pytest.raises(Interrupted), interrupted_after(0.4):
        shell(command=f"sleep 60 & echo $! $$ > {pids}; wait; sleep 60")
    assert not any(alive(int(pid)) for pid in pids.read_text().split())


def test_an_interruption_ends_a_program_that_ignores_the_polite_signal(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    started = time.monotonic()
    with pytest.raises(Interrupted), interrupted_after(0.4):
        shell(command=f"trap '' TERM; echo $$ > {pids}; while :; do sleep 0.1; done")
    assert time.monotonic() - started < 30
    assert not alive(int(pids.read_text()))


def test_a_program_may_clean_up_when_interrupted(tmp_path: Path) -> None:
    with pytest.raises(Interrupted), interrupted_after(0.4):
        shell(command="trap 'echo bye > bye; exit' TERM; while :; do sleep 0.05; done", cwd=str(tmp_path))
    assert (tmp_path / "bye").read_text() == "bye\n"


def test_no_descriptor_and_no_child_is_left() -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  pathlib would hold one open
    others = psutil.Process().children()
    for payload in ({"command": "cat", "stdin": "x" * 100_000}, {"argv": ["no-such"]}, {"command": "exit 3"}):
        with pytest.raises(CommandFailed) if payload.get("stdin") is None else interrupted_after(9):
            shell(**payload)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert [child for child in psutil.Process().children() if child not in others] == []


def test_many_threads_run_programs_at_once() -> None:
    outputs: list[str] = []
    threads = [
        threading.Thread(
            target=lambda n=n: outputs.append(shell(command=f"cat; echo {n}", stdin="x" * 50_000)["output"])
        )
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(output.lstrip("x") for output in outputs) == [f"{n}\n" for n in range(8)]


def test_importing_the_handlers_loads_nothing_heavy() -> None:
    code = "import sys, taskkit.worker.builtin; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"httpx", "asyncio", "psutil", "redis", "sqlalchemy", "croniter"} & set(done.stdout.split())
