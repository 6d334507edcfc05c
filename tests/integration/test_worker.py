"""A real worker runs tasks to their ends: every end has one answer, and the story stands in SQL."""

from __future__ import annotations

import contextlib
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from taskkit import Taskkit
from taskkit.errors import ResultError
from taskkit.states import Status
from tests.naughty import naughty_strings
from tests.processes import Stack
from tests.waiting import wait_until

pytest_plugins = ["tests.stacks"]


def test_a_success_is_told_in_full(stack: Stack) -> None:
    before = stack.worker.children()
    task_id = stack.home.enqueue("echo", {"value": {"a": [1, None, "😀"]}}, trace_id="trace-1")
    task = stack.home.wait(task_id)
    (run,) = stack.home.runs(task_id)
    assert task.status is Status.SUCCESS
    assert (task.attempt, task.retry_count, task.trace_id) == (1, 0, "trace-1")
    assert (run.attempt, run.outcome.value, run.error) == (1, "success", None)
    assert run.worker_id == task.worker_id == stack.worker.id
    # its row tells of a new child with the next heartbeat, and this one may have been replaced since
    wait_until(lambda: run.pid in before or run.pid in stack.worker.children())
    assert run.dispatched_at and run.started_at
    assert task.created_at <= run.dispatched_at <= run.started_at <= run.finished_at
    assert run.runtime_ms is not None
    assert stack.home.kit.result(task_id) == {"a": [1, None, "😀"]}


def test_a_failing_task_runs_as_often_as_it_may_and_is_given_up(stack: Stack, notes: Path) -> None:
    task_id = stack.home.enqueue("fail", {"path": str(notes)})
    task = stack.home.wait(task_id)
    assert (task.status, task.retry_count, task.attempt) == (Status.GIVEN_UP, 2, 3)
    assert stack.home.outcomes(task_id) == ["failed", "failed", "failed"]
    assert notes.read_text().split() == ["1", "2", "3"]
    last = stack.home.runs(task_id)[-1]
    assert last.error == "ValueError: attempt 3 fails"
    assert 'raise ValueError(f"attempt {run.attempt} fails")' in (last.traceback or "")


def test_a_task_that_succeeds_at_the_second_attempt_runs_twice(stack: Stack, notes: Path) -> None:
    task_id = stack.home.enqueue("fail", {"path": str(notes), "succeed_at": 2}, retry_delays=[0.2])
    task = stack.home.wait(task_id)
    assert (task.status, task.retry_count) == (Status.SUCCESS, 1)
    first, second = stack.home.runs(task_id)
    assert second.started_at
    assert (second.started_at - first.finished_at).total_seconds() >= 0.2
    assert notes.read_text().split() == ["1", "2"]
    assert stack.home.kit.result(task_id) == "attempt 2"


def test_max_retry_0_runs_once(stack: Stack, notes: Path) -> None:
    task_id = stack.home.enqueue("fail", {"path": str(notes)}, max_retry=0)
    assert stack.home.wait(task_id).status is Status.GIVEN_UP
    assert notes.read_text().split() == ["1"]


def test_a_handler_says_when_it_wants_to_be_tried_again(stack: Stack, notes: Path) -> None:
    task_id = stack.home.enqueue("later", {"path": str(notes), "seconds": 0.5}, retry_delays=[60])
    task = stack.home.wait(task_id)
    assert (task.status, task.retry_count) == (Status.SUCCESS, 1)
    first, second = (float(line) for line in notes.read_text().split())
    assert second - first >= 0.5
    assert stack.home.runs(task_id)[0].error == "RetryLater: the shop is closed"


def test_a_handler_says_that_trying_again_is_no_use(stack: Stack) -> None:
    task_id = stack.home.enqueue("never", max_retry=200)
    task = stack.home.wait(task_id)
    assert (task.status, task.retry_count, task.last_result) == (
        Status.GIVEN_UP,
        0,
        "NeverRetry: no such customer",
    )
    assert stack.home.outcomes(task_id) == ["given_up"]


ODD = {
    "exit_0": "",
    "exit_none": "",
    "exit_3": "SystemExit: 3",
    "exit_text": "SystemExit: out of paper",
    "interrupt": "KeyboardInterrupt",
    "generator_exit": "GeneratorExit",
    "base": "BaseException: x",
    "os_exit_0": "exited with code 0 before",
    "os_exit_7": "exited with code 7 before",
    "locked": "Locked: holds a lock",
    "demanding": "Demanding: needs 1 and 2",
    "mute": r"Mute: \(its text cannot be shown: RuntimeError\)",
    "group": "BaseExceptionGroup: both",
    "bytes": r"ValueError: caf\\udce9",
    "nul": r"ValueError: a\\0b",
    "silent": "ValueError",
    "long": "ValueError: 😀+… .cut, 65548 bytes in all.",
    "recursion": "RecursionError: ",
    "segfault": r"killed by signal 11 \(SIGSEGV\)",
    "killed": r"killed by signal 9 \(SIGKILL\)",
}
DEADLY = {"os_exit_0", "os_exit_7", "segfault", "killed"}


@pytest.mark.parametrize("code", ["odd", "odd_async"])
def test_guarantee_6_sql_05_every_odd_end_of_a_handler_has_an_answer(stack: Stack, code: str) -> None:
    pid, ends = stack.worker.pid, {how: ODD[how] for how in ODD if code == "odd" or how not in DEADLY}
    ids = stack.home.enqueue_many(code, [{"how": how} for how in ends])
    after = stack.home.enqueue("echo", {"value": "still here"}, priority=9)
    for task, (how, error) in zip(stack.home.wait_all(ids), ends.items(), strict=True):
        (run,) = stack.home.runs(task.id)
        if not error:
            assert task.status is Status.SUCCESS, how
            assert task.last_result == "ok (the handler called sys.exit)"
            continue
        assert task.status is Status.GIVEN_UP, how
        assert run.outcome.value == "failed", how
        assert re.search(error, run.error or ""), (how, run.error)
        assert how in DEADLY or run.traceback, how
    assert stack.home.wait(after).status is Status.SUCCESS
    assert stack.worker.pid == pid
    assert stack.worker.popen.poll() is None


def test_text_of_any_kind_comes_back_unchanged(stack: Stack) -> None:
    texts = naughty_strings()
    ids = stack.home.enqueue_many("echo", [{"value": text} for text in texts])
    stack.home.wait_all(ids)
    assert [stack.home.kit.result(task_id) for task_id in ids] == texts


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("set", r"\$ is a set, which is not JSON"),
        ("nan", r"\$ is nan, which JSON does not have"),
        ("many", r"has 80001 bytes as JSON, more than the 65536 allowed"),
        ("self", r"nested deeper than 100 levels"),
    ],
)
def test_a_result_that_cannot_be_kept_fails_no_task(stack: Stack, kind: str, why: str) -> None:
    task_id = stack.home.enqueue("unkept", {"kind": kind})
    task = stack.home.wait(task_id)
    assert task.status is Status.SUCCESS
    assert re.search(f"^ok, but the result was not kept: result: .*{why}", task.last_result or "")
    with pytest.raises(ResultError, match=why):
        stack.home.kit.result(task_id)


def test_a_long_text_as_result_is_cut_visibly(stack: Stack) -> None:
    task_id = stack.home.enqueue("echo", {"value": {"n": 7, "text": "€" * 40_000}})
    result = stack.home.kit.result(task_id, timeout=20)
    assert result["n"] == 7
    assert re.fullmatch("€+\n… .120000 bytes in all, the middle is cut. …\n€+", result["text"])


def test_a_handler_knows_its_run_and_says_how_far_it_is(stack: Stack) -> None:
    task_id = stack.home.enqueue("about", {"seconds": 1.5}, timeout=40)
    wait_until(lambda: stack.home.task(task_id).progress)
    task = stack.home.task(task_id)
    assert task.status is Status.RUNNING
    assert task.progress == pytest.approx(0.4)
    assert task.progress_text == "nearly half \\ud800"
    about = stack.home.kit.result(task_id, timeout=20)
    assert (about["task_id"], about["attempt"], about["trace_id"]) == (task_id, 1, task.trace_id)
    assert 30 < about["left_s"] <= 40
    assert about["pid"] == stack.home.runs(task_id)[0].pid


def test_hooks_stand_around_every_run_and_see_its_failure(stack: Stack) -> None:
    good, bad = stack.home.enqueue("hooked"), stack.home.enqueue("hooked", {"fail": True})
    assert stack.home.wait(good).status is Status.SUCCESS
    assert stack.home.wait(bad).status is Status.GIVEN_UP
    assert [line["message"] for line in _said(stack, good)] == [f"before {good}", "after, done"]
    assert [line["message"] for line in _said(stack, bad)] == [f"before {bad}", "after, failed"]


def _said(stack: Stack, task_id: int) -> list[dict[str, Any]]:
    return stack.worker.lines(logger="sample", task_id=task_id)


@pytest.mark.parametrize("code", ["speak", "speak_async"])
def test_every_line_of_a_run_carries_the_task(stack: Stack, code: str) -> None:
    ids = [stack.home.enqueue(code, {"text": f"n{n}"}) for n in range(5)]
    for n, task in enumerate(stack.home.wait_all(ids)):
        (line,) = _said(stack, task.id)
        assert line["message"] == f"spoken: n{n}"
        fields = {key: line[key] for key in ("task_code", "attempt", "trace_id", "worker")}
        assert fields == {
            "task_code": code,
            "attempt": 1,
            "trace_id": task.trace_id,
            "worker": stack.worker.id,
        }
        assert bool(stack.worker.lines(logger=f"task.{code}", task_id=task.id)) == (code == "speak")
        ended = wait_until(partial(stack.worker.lines, task_id=task.id, outcome="success"))
        assert ended[0]["attempt"] == 1


def test_a_code_without_a_handler_is_tried_again_and_names_it(stack: Stack) -> None:
    task_id = stack.home.enqueue("unheard_of", queue="echo", max_retry=1, retry_delays=[0.05])
    task = stack.home.wait(task_id)
    assert (task.status, task.retry_count) == (Status.GIVEN_UP, 1)
    assert stack.home.outcomes(task_id) == ["failed", "failed"]
    assert "no handler is registered for the code 'unheard_of'" in (task.last_result or "")


@pytest.mark.parametrize("payload", [{"wrong": 1}, {}, {"path": "x", "more": None}])
def test_a_payload_that_does_not_fit_fails_by_name(stack: Stack, payload: dict[str, Any]) -> None:
    """A producer that does not know the handler cannot check."""
    with contextlib.closing(Taskkit(stack.home.settings)) as stranger:
        task_id = stranger.producer.enqueue("mark", payload, max_retry=0)
    task = stack.home.wait(task_id)
    assert task.status is Status.GIVEN_UP
    assert re.match(r"PayloadError: payload: does not fit mark: ", task.last_result or "")


@pytest.mark.parametrize(("code", "n"), [("meet", 2), ("meet_blocking", 4), ("meet_async", 40)])
def test_handlers_run_side_by_side(stack: Stack, tmp_path: Path, code: str, n: int) -> None:
    folder = tmp_path / "meeting"
    folder.mkdir()
    ids = stack.home.enqueue_many(code, [{"folder": str(folder), "n": n}] * n, max_retry=0)
    assert {task.status for task in stack.home.wait_all(ids)} == {Status.SUCCESS}


def test_the_doors_of_the_kit_open_in_a_child(stack: Stack) -> None:
    target = stack.home.enqueue("echo")
    ids = stack.home.enqueue_many("reads", [{"task_id": target}] * 20)
    stack.home.wait_all(ids)
    assert {stack.home.kit.result(task_id) for task_id in ids} == {target}
