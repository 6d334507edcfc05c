"""The application of the process tests: handlers that work, fail, wait, fork and end in every odd way."""

from __future__ import annotations

import asyncio
import collections
import hashlib
import itertools
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from taskkit import NeverRetry, RetryLater, RunContext, Taskkit, current_run
from taskkit.errors import InputError
from tests.sample_ends import ODD

kit = Taskkit()
log = logging.getLogger("sample")
DEADLINE_S = 30.0


def note(path: str, *words: object) -> None:
    """One line into a file, whole even when several processes write."""
    with Path(path).open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


@kit.around
def remember(run: RunContext) -> Iterator[None]:
    """Tells of the runs of ``hooked``, before and after."""
    if run.task_code != "hooked":
        yield
        return
    log.info("before %s", run.task_id)
    try:
        yield
    except ValueError:
        log.info("after, failed")
        raise
    log.info("after, done")


@kit.task("hooked", max_retry=0)
def hooked(fail: bool = False) -> str:
    if fail:
        raise ValueError("as wished")
    return "hooked"


@kit.task("echo")
def echo(value: Any = None) -> Any:
    return value


@kit.task("report")
def report(times: int) -> None:
    for n in range(times):
        current_run().progress(n / times, "x" * 100)


@kit.task("fork", max_retry=0)
def fork(leave: bool) -> str:
    """Forks; the copy leaves by sys.exit, or returns as the original does."""
    if os.fork() == 0:
        if leave:
            sys.exit(0)
        return "the copy"
    time.sleep(0.1)
    return "the original"


@kit.task("about")
def about(seconds: float = 0) -> dict[str, Any]:
    """What a handler may know of its run; it says how far it is, and waits."""
    run = current_run()
    run.progress(0.4, "nearly half \ud800")
    time.sleep(seconds)
    return {
        "task_id": run.task_id,
        "attempt": run.attempt,
        "trace_id": run.trace_id,
        "left_s": (run.deadline - run.deadline.now(run.deadline.tzinfo)).total_seconds(),
        "pid": os.getpid(),
    }


@kit.task("mark")
def mark(path: str, text: str = "") -> None:
    note(path, current_run().task_id, current_run().attempt, text)


@kit.task("fail", max_retry=2, retry_delays=[0.05], jitter=0)
def fail(path: str, succeed_at: int = 99) -> str:
    run = current_run()
    note(path, run.attempt)
    if run.attempt < succeed_at:
        raise ValueError(f"attempt {run.attempt} fails")
    return f"attempt {run.attempt}"


@kit.task("mendable", max_retry=0)
def mendable(path: str, cause: str) -> str:
    """Fails until its file says that its cause is mended."""
    if cause not in Path(path).read_text().split():
        raise ConnectionError(f"the {cause} did not answer for task {current_run().task_id}")
    return f"the {cause} answered"


@kit.task("later", max_retry=2)
def later(path: str, seconds: float = 0.3) -> str:
    run = current_run()
    note(path, time.time())
    if run.attempt == 1:
        raise RetryLater(seconds, "the shop is closed")
    return "open"


@kit.task("never")
def never() -> NoReturn:
    raise NeverRetry("no such customer")


@kit.task("speak")
def speak(text: str) -> None:
    log.warning("spoken: %s", text)
    current_run().log.info("by the run's own log")


@kit.task("speak_async")
async def speak_async(text: str) -> None:
    await asyncio.sleep(0.01)
    log.warning("spoken: %s", text)


@kit.task("unkept")
def unkept(kind: str) -> Any:
    """Results that cannot be kept."""
    kinds: dict[str, Any] = {"set": {1, 2}, "nan": float("nan"), "many": [1234567] * 10_000, "self": None}
    if kind == "self":
        kinds["self"] = [1]
        kinds["self"].append(kinds["self"])
    return kinds[kind]


@kit.task("nap", timeout=30)
def nap(seconds: float, path: str | None = None) -> str:
    """A plain handler that can be interrupted."""
    if path:
        note(path, current_run().task_id, current_run().attempt, os.getpid(), "begun")
    time.sleep(seconds)
    return "slept"


@kit.task("nap_async", timeout=30)
async def nap_async(seconds: float, path: str | None = None) -> str:
    if path:
        note(path, current_run().task_id, current_run().attempt, os.getpid(), "begun")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        if path:
            note(path, "cancelled")
        raise
    return "slept"


@kit.task("stubborn_async", timeout=30)
async def stubborn_async(path: str) -> None:
    """Blocks its event loop, so that it cannot be cancelled."""
    note(path, "begun")
    await asyncio.sleep(0)
    time.sleep(60)


def together(folder: str, n: int) -> bool:
    Path(folder, str(current_run().task_id)).touch()
    return len(list(Path(folder).iterdir())) >= n


@kit.task("meet")
def meet(folder: str, n: int) -> bool:
    """Succeeds when ``n`` of them run at the same time."""
    return wait_for(lambda: together(folder, n))


@kit.task("stand")
def stand(folder: str, n: int) -> bool:
    """The same; a code of its own, so that no worker knows how long it takes."""
    return meet(folder, n)


@kit.task("meet_blocking", blocking=True)
def meet_blocking(folder: str, n: int) -> bool:
    return wait_for(lambda: together(folder, n))


@kit.task("meet_async")
async def meet_async(folder: str, n: int) -> bool:
    deadline = time.monotonic() + DEADLINE_S
    while not together(folder, n):
        if time.monotonic() > deadline:
            raise TimeoutError("alone")
        await asyncio.sleep(0.01)
    return True


def wait_for(met: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + DEADLINE_S
    while not met():
        if time.monotonic() > deadline:
            raise TimeoutError("alone")
        time.sleep(0.01)
    return True


@kit.task("spin")
def spin() -> None:
    """A loop in C that no Python signal handler interrupts."""
    collections.deque(itertools.repeat(0), maxlen=0)


@kit.task("burn", timeout=300)
def burn(seconds: float) -> int:
    """Busy in C for so long, a second at a time: Python's signal handlers run rarely."""
    rounds, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        hashlib.pbkdf2_hmac("sha256", b"a", b"b", 500_000)
        rounds += 1
    return rounds


@kit.task("swallow")
def swallow(path: str) -> str:
    """Swallows every interruption."""
    note(path, "begun")
    for _ in range(100):
        try:
            time.sleep(60)
        except BaseException:  # noqa: S112
            continue
    return "never"


@kit.task("spawn")
def spawn(path: str, wait: bool = True) -> None:
    """A shell with a child of its own, which keeps stdout open."""
    process = subprocess.Popen(["sh", "-c", 'sleep 1000 & echo $! >> "$0"; wait', path])
    note(path, process.pid)
    wait_for(lambda: len(Path(path).read_text().split()) >= 2)
    if wait:
        process.wait()


@kit.task("whoami")
def whoami() -> int:
    return os.getpid()


@kit.task("odd", max_retry=0)
def odd(how: str) -> Any:
    return ODD[how]()


@kit.task("odd_async", max_retry=0)
async def odd_async(how: str) -> Any:
    await asyncio.sleep(0)
    return ODD[how]()


@kit.task("reads")
def reads(task_id: int) -> int:
    """Uses the kit's own doors from within a child, as a module global."""
    return kit.center.read.task(task_id).id


# enqueuing from within


@kit.task("follow")
def follow(path: str) -> list[int]:
    """One, many, and one with a unique key twice."""
    one = mark.enqueue(path=path, text="one")
    many = kit.producer.enqueue_many([{"code": "mark", "payload": {"path": path, "text": "many"}}] * 3)
    key = f"follow-{one}"
    keyed = [mark.options(unique_key=key, delay=3600).enqueue(path=path) for _ in range(2)]
    return [one, *many, *keyed]


@kit.task("follow_in_threads", timeout=10)
def follow_in_threads(path: str, n: int = 4) -> list[int]:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda i=i: found.append(mark.enqueue(path=path, text=str(i))))
        for i in range(n)
    ]
    for thread in threads:
        thread.start()
    found.append(mark.enqueue(path=path, text="main"))
    for thread in threads:
        thread.join()
    return found


@kit.task("follow_blocking", timeout=10, blocking=True)
def follow_blocking(path: str) -> int:
    return mark.enqueue(path=path, text="blocking")


@kit.task("follow_async", timeout=10)
async def follow_async(path: str) -> list[int]:
    first = mark.enqueue(path=path, text="in the loop")
    second = await asyncio.to_thread(mark.enqueue, path=path, text="in a thread")
    return [first, second]


@kit.task("follow_in_fork", timeout=10)
def follow_in_fork(path: str) -> int:
    """A process that the handler forks may enqueue as well, without breaking the handler's own pipe."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            mark.enqueue(path=path, text="forked")
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return mark.enqueue(path=path, text="by the handler")


@kit.task("refused")
def refused(path: str) -> list[list[str]]:
    """What bad input raises in here: class, field, text."""
    tries: list[Callable[[], Any]] = [
        lambda: mark.options(priority=10).enqueue(path=path),
        lambda: mark.enqueue(path={1, 2}),  # type: ignore[arg-type]
        lambda: mark.enqueue(file=path),  # type: ignore[call-arg]
        lambda: kit.producer.enqueue("mark", {"path": path}, cron="99 * * * *"),
        lambda: kit.producer.enqueue("mark", {"path": path}, at=datetime(2040, 1, 1, tzinfo=UTC)),
    ]
    found = []
    for attempt in tries:
        try:
            attempt()
        except InputError as error:
            found.append([type(error).__name__, error.field, str(error)])
        else:
            found.append(["", "", "was taken"])
    return found


@kit.task("joined", max_retry=0)
def joined(path: str, commit: bool) -> int:
    """Enqueues within a transaction of the handler's own."""
    with kit.center.database.engine.connect() as connection:
        task_id = mark.options(connection=connection).enqueue(path=path)
        if commit:
            connection.commit()
        else:
            connection.rollback()
    return task_id


@kit.task("enqueue_keyed", timeout=60)
def enqueue_keyed(path: str, key: str) -> int:
    return mark.options(unique_key=key).enqueue(path=path)
