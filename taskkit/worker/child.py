"""A child: takes jobs from its parent's pipe, runs handlers, and nothing else. It knows neither SQL nor Redis."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import FrameType
from typing import Any

import msgspec

from taskkit.clock import monotonic, parse_instant, utc_now
from taskkit.context import RunContext
from taskkit.errors import Interrupted
from taskkit.kit import Taskkit
from taskkit.states import Outcome
from taskkit.texts import encodable
from taskkit.worker import frames
from taskkit.worker.frames import (
    Cancel,
    ChildJob,
    Done,
    EnqueueAnswer,
    ExitWhenIdle,
    Progress,
    RunJobs,
)
from taskkit.worker.marks import Marks
from taskkit.worker.perform import Ended, perform, perform_async
from taskkit.worker.pipe_producer import PipeProducer

log = logging.getLogger("taskkit.child")
HANDLERS_CONNECTIONS = 1, 2
"""A child opens no connection by itself. For handlers that use the kit's task center it keeps one; two more come and go."""


class Child:
    """One child process, from fork to exit."""

    def __init__(self, kit: Taskkit, sock: socket.socket, marks: Marks) -> None:
        self.kit, self.sock, self.marks = kit, sock, marks
        self.max_result = kit.settings.max_result_bytes
        self._unpacker = frames.Unpacker()
        self._inbox: deque[Any] = deque()
        self._answers: deque[EnqueueAnswer] = deque()
        self._sending, self._asking, self._mail = threading.Lock(), threading.Lock(), threading.Condition()
        self._reading = False
        self.pid, self._pipe = os.getpid(), os.fstat(sock.fileno()).st_ino
        self._busy = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._async: dict[int, asyncio.Task[None]] = {}
        self._cancelled: dict[int, str] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._starting, self._waiting = threading.Lock(), deque[ChildJob]()
        self._under_way, self._at_once = 0, 1
        kit.producer, kit.connections = PipeProducer(kit, self.ask), HANDLERS_CONNECTIONS

    def run(self) -> None:
        """Serve until the parent says so or is gone."""
        signal.signal(signal.SIGTERM, self._interrupt)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            frame = self._next()
            if isinstance(frame, RunJobs):
                self._run_jobs(frame)
            elif isinstance(frame, Cancel):
                self._cancel(frame)
            elif isinstance(frame, ExitWhenIdle):
                return

    def send(self, frame: msgspec.Struct) -> None:
        """Send a frame to the parent; a process that a handler forked has no say, and without a parent all ends.

        So it does when a handler has closed the pipe, whose descriptor may be something else of the handler's by now.
        """
        if os.getpid() != self.pid:
            return
        try:
            with self._sending:
                if os.fstat(self.sock.fileno()).st_ino != self._pipe:
                    os._exit(1)
                self.sock.sendall(frames.pack(frame))
        except OSError:
            os._exit(1)

    def ask(self, frame: msgspec.Struct) -> EnqueueAnswer:
        """Send a frame and wait for its answer, in any thread; jobs that arrive meanwhile wait."""
        with self._asking:
            self.send(frame)
            self._receive_until(self._answers)
            return self._answers.popleft()

    def _next(self) -> Any:
        self._receive_until(self._inbox)
        return self._inbox.popleft()

    def _receive_until(self, box: deque[Any]) -> None:
        """Read the pipe until something is in ``box``; one thread reads at a time, the others wait for what it finds."""
        with self._mail:
            while not box:
                if self._reading:
                    self._mail.wait()
                else:
                    self._receive()

    def _receive(self) -> None:
        """Read once and sort what came; the mail is locked, except while the parent is waited for."""
        self._reading = True
        self._mail.release()
        try:
            data = frames.receive(self.sock)
        finally:
            self._mail.acquire()
            self._reading = False
            self._mail.notify_all()
        if data == b"":
            os._exit(0)
        for body in self._unpacker.feed(data or b""):
            frame = frames.to_child.decode(body)
            if isinstance(frame, EnqueueAnswer):
                self._answers.append(frame)
            else:
                self._inbox.append(frame)

    def _run_jobs(self, frame: RunJobs) -> None:
        """Run plain jobs here, one after another; others begin in their order as places free, if not taken back."""
        self._at_once = frame.at_once
        for job in frame.jobs:
            if job.mode == "sync":
                started = monotonic()
                if self.marks.begin(job.seq, job.slot, started):
                    self._run_interruptibly(self.kit.registry[job.code], job, started)
            else:
                self._waiting.append(job)
        if frame.jobs[0].mode == "async":
            self._event_loop().call_soon_threadsafe(self._begin_from_loop)
        else:
            self._begin_from_thread()

    def _next_to_begin(self) -> tuple[ChildJob, float] | None:
        """The next job that waits, marked as begun; None when there is none, or no place."""
        with self._starting:
            while self._waiting and self._under_way < self._at_once:
                job, started = self._waiting.popleft(), monotonic()
                if self.marks.begin(job.seq, job.slot, started):
                    self._under_way += 1
                    return job, started
        return None

    def _begin_from_thread(self) -> None:
        self._begin(lambda job, started: self._event_loop().call_soon_threadsafe(self._start, job, started))

    def _begin_from_loop(self) -> None:
        self._begin(self._start)

    def _begin(self, start: Callable[[ChildJob, float], object]) -> None:
        """Begin what waits. Whoever frees a place may find jobs of another mode, as the parent heard of its end before."""
        while (found := self._next_to_begin()) is not None:
            if found[0].mode == "async":
                start(*found)
            else:
                self._thread_pool().submit(self._run_plain, *found)

    def _start(self, job: ChildJob, started: float) -> None:
        """In the event loop."""
        self._async[job.seq] = self._event_loop().create_task(self._run_async(job, started))

    def _free_place(self) -> None:
        with self._starting:
            self._under_way -= 1

    def _run_interruptibly(self, handler: Any, job: ChildJob, started: float) -> None:
        self._busy = True
        try:
            ended = perform(
                handler, self._context(job), job.payload, self.kit.registry.hooks, self.max_result
            )
        except Interrupted:
            os._exit(128 + signal.SIGTERM)
        finally:
            self._busy = False
        self._end(job, started, ended)

    def _run_plain(self, job: ChildJob, started: float) -> None:
        handler, hooks = self.kit.registry[job.code], self.kit.registry.hooks
        try:
            ended = perform(handler, self._context(job), job.payload, hooks, self.max_result)
            self._end(job, started, ended)
        finally:
            self._free_place()
            self._begin_from_thread()

    async def _run_async(self, job: ChildJob, started: float) -> None:
        handler, hooks = self.kit.registry[job.code], self.kit.registry.hooks
        try:
            ended = await perform_async(handler, self._context(job), job.payload, hooks, self.max_result)
        except asyncio.CancelledError:
            ended = Ended(Outcome.FAILED, error="CancelledError: the async handler was cancelled")
        finally:
            self._async.pop(job.seq, None)
        asked = self._cancelled.pop(job.seq, None)
        if asked is not None and ended.outcome is not Outcome.SUCCESS:
            ended = replace(ended, outcome=Outcome(asked))
        try:
            self._end(job, started, ended)
        finally:
            self._free_place()
            self._begin_from_loop()

    def _end(self, job: ChildJob, started: float, ended: Ended) -> None:
        now = monotonic()
        self._leave_if_copied()
        self.marks.end(job.slot)
        self.send(
            Done(
                job.seq,
                ended.outcome.value,
                started,
                now,
                ended.result,
                ended.line,
                ended.error,
                ended.traceback,
                ended.delay,
            )
        )

    def _leave_if_copied(self) -> None:
        """A process that the handler forked and that returned here as well: only the original answers and goes on."""
        if os.getpid() != self.pid:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            os._exit(0)

    def _context(self, job: ChildJob) -> RunContext:
        return RunContext(
            task_id=job.task_id,
            task_code=job.code,
            attempt=job.attempt,
            queue=job.queue,
            deadline=utc_now() + timedelta(seconds=job.timeout),
            trace_id=job.trace_id,
            occurrence_at=parse_instant(job.occurrence_at) if job.occurrence_at else None,
            report=partial(self._progress, job.seq),
        )

    def _progress(self, seq: int, fraction: float, text: str) -> None:
        self.send(Progress(seq, fraction, encodable(text)))

    def _cancel(self, frame: Cancel) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._cancel_in_loop, frame)

    def _cancel_in_loop(self, frame: Cancel) -> None:
        """After the first step of the task, as one that is cancelled before it never runs, and says nothing."""
        task = self._async.get(frame.seq)
        if task is not None:
            self._cancelled[frame.seq] = frame.outcome
            self._event_loop().call_soon(task.cancel)

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """SIGTERM from the parent: the handler in the main thread is told; a child without one just goes."""
        if not self._busy:
            os._exit(128 + signal.SIGTERM)
        raise Interrupted("the time limit is over, or the task was cancelled")

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(
                target=self._turn_loop, args=[self._loop], name="async handlers", daemon=True
            ).start()
        return self._loop

    def _turn_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Without its loop (a handler closed its descriptors) no async handler of this child comes to an end."""
        try:
            loop.run_forever()
        except BaseException:  # noqa: BLE001 - whatever it was, the parent speaks for this child
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)

    def _thread_pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._at_once, "handlers")
        return self._pool
