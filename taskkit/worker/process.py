"""The worker's process: nursery, puller, hub, writer and heartbeat, from the first row to the last."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence

import psutil

from taskkit.beats import WorkerBeat
from taskkit.center import TaskCenter
from taskkit.clock import monotonic
from taskkit.errors import BrokerUnavailable, StoreError
from taskkit.model import Ring
from taskkit.queues import Order, Queue
from taskkit.service import Stop, Ticker
from taskkit.settings import Worker
from taskkit.worker.groups import reap_adopted
from taskkit.worker.holding import Holding
from taskkit.worker.hub import Hub
from taskkit.worker.nursery_link import NurseryLink
from taskkit.worker.pool import Pool
from taskkit.worker.portions import Portions
from taskkit.worker.puller import Puller
from taskkit.worker.scaler import Scaler
from taskkit.worker.stuck import StuckExit
from taskkit.worker.tally import Tally
from taskkit.worker.verdicts import Judge
from taskkit.worker.watch import Call
from taskkit.worker.writer import Writer

log = logging.getLogger("taskkit.worker")
CANCEL_LOOK = 1.0
BIRTHS_LOOK, BIRTHS_SECONDS = 0.25, 10.0
"""A worker that starts beats that often until all its children are there, or for so long."""
HEART_SECONDS = 8.0
"""How long the heartbeat waits for an answer: a connection that died silently must not make this worker look dead."""
MEBI = 1 << 20
START_ANEW = 75
"""The exit code of a worker that was asked to start anew (EX_TEMPFAIL): whoever started it starts it again."""


class WorkerProcess:
    """One worker: runs until the stop is asked for, then hands back what it could not finish."""

    def __init__(
        self,
        worker_id: str,
        settings: Worker,
        center: TaskCenter,
        queue: Queue,
        order: Order,
        nursery: NurseryLink,
        queues: Sequence[str],
        stop: Stop,
        *extra: Ticker,
    ) -> None:
        self.id, self.settings, self.center, self.queue, self.queues, self.stop = (
            worker_id, settings, center, queue, list(queues), stop,
        )  # fmt: skip
        self.tally = Tally()
        desk = center.worker_desk(worker_id)
        self.heart = center.apart(read_timeout=HEART_SECONDS)
        self.desk = self.heart.worker_desk(worker_id)
        self.portions = Portions(
            self.heart, worker_id, self.queues, order, settings.heartbeat_s, always=settings.scales
        )
        judge = Judge({info.code: info for info in nursery.hello.handlers})
        self.writer = Writer(center, desk, self._ring, self.tally)
        self.pool = Pool(self._wake)
        self.hub = Hub(nursery, self.pool, self.writer, judge, self.tally, settings)
        self.puller = Puller(queue, desk, self.queues, self.pool, stop, self.tally)
        self.holding = Holding(self.desk, self.hub, self.puller, self.writer)
        self.beating = Call()
        self.stuck = StuckExit(
            worker_id,
            center,
            self.heart,
            self.hub,
            self.puller,
            self.writer,
            self.beating,
            self.tally,
            lambda: stop.asked,
        )
        self._done, self._beat_at, self._started = Stop(), 0.0, monotonic()
        self.starts_anew = False
        self._tickers = [Ticker("heartbeat", self.tick, self._done), *extra]
        if settings.scales:
            scaler = Scaler(self.hub, queue, self.queues, self.portions, settings)
            self._tickers.append(Ticker("scaling", scaler.tick, stop))
        self._parent = psutil.Process()
        self._watched: dict[int, psutil.Process] = {}
        stop.on_ask(self._wake)

    def run(self) -> None:
        """Work until the stop; the worker's row is committed before the first message is taken."""
        self.center.nodes.enter_worker(self._beat())
        self.portions.look()
        if self.settings.max_processes and not self.settings.scales:
            log.warning(
                "worker.max_processes = %s is not above worker.processes = %s: their number stays",
                self.settings.max_processes,
                self.settings.processes,
            )
        log.info("worker %s serves %s", self.id, ", ".join(self.queues))
        self.hub.open()
        self.writer.start()
        self.puller.start()
        for ticker in self._tickers:
            ticker.start()
        self.stuck.watcher.start()
        while not self.stop.asked:
            self.hub.turn(feeding=True)
        self._stop_in_order()

    def tick(self) -> float:
        """Beat when it is time, look for cancellations, compare with SQL; to the very end, and over one connection.

        The thread is its own, so that neither long nor stuck tasks delay the heartbeat.
        """
        if os.getpid() == 1:
            reap_adopted(self.hub.nursery.process.pid)
        if monotonic() >= self._beat_at:
            with self.beating("writing the heartbeat"):
                being_born = self._is_being_born()
                self.beat()
            every = self.settings.heartbeat_s
            self._beat_at = monotonic() + (min(every, BIRTHS_LOOK) if being_born else every)
        with self.beating("looking for cancellations in SQL"):
            self.look_for_cancels()
        with self.beating("looking what limits are set"):
            self.heart.limits.refresh()
            self.center.limits.use(self.heart.limits)
        with self.beating("looking how queues are split"):
            self.portions.look()
        with self.beating("comparing with SQL what this worker holds"):
            self.holding.look_if_due()
        return max(0.0, min(CANCEL_LOOK, self._beat_at - monotonic()))

    def beat(self) -> None:
        """Write the heartbeat."""
        beat = self._beat()
        if not self.heart.nodes.beat_worker(beat):
            log.error("this worker's row was gone; writing it again")
            self.heart.nodes.enter_worker(beat)
        if not self.stop.asked and self.heart.nodes.restart_wanted(self.id):
            log.warning(
                "this worker was asked to start anew: it stops in order, and exits with %s", START_ANEW
            )
            self.starts_anew = True
            self.stop.ask()
        self._retire_the_grown()

    def _is_being_born(self) -> bool:
        """Whether the first children are still being born: who looks is to see them as soon as they are there."""
        born = sum(slot.pid is not None for slot in list(self.hub.slots.values()))
        return born < self.settings.processes and monotonic() - self._started < BIRTHS_SECONDS

    def look_for_cancels(self) -> None:
        """Ask whether a person wants one of the tasks that this worker holds to be cancelled."""
        ids = [task.id for task in self.pool.tasks] + [given.task.id for given in self.hub.running]
        for task_id, attempt in self.desk.cancel_requested(ids):
            self.hub.cancel(task_id, attempt)

    def _stop_in_order(self) -> None:
        log.info("worker %s is stopping", self.id)
        self.pool.close()
        deadline = monotonic() + self.settings.grace_s
        while not self.puller.ended or self.hub.running or len(self.pool):
            self.hub.hand_back_unstarted()
            if monotonic() > deadline:
                self.hub.end_running()
            self.hub.turn(feeding=False)
        self.hub.hand_back_unstarted()
        self.stuck.looping = False
        self.writer.finish()
        self._done.ask()
        for ticker in self._tickers:
            ticker.join(5)
        self.stuck.watcher.end()
        self.hub.close()
        try:
            self.center.nodes.leave_worker(self.id)
        except StoreError as error:
            log.warning("could not sign off: %s", error)
        self.heart.close()
        log.info("worker %s has stopped", self.id)

    def _beat(self) -> WorkerBeat:
        tally, running = self.tally, self.hub.held
        return WorkerBeat(
            worker_id=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=",".join(self.queues),
            processes=len(self.hub.slots) or self.settings.processes,
            max_processes=self.settings.max_processes if self.settings.scales else None,
            min_processes=self.settings.processes if self.settings.scales else None,
            busy=len(running),
            processed=tally.processed,
            failed=tally.failed,
            dropped=tally.dropped,
            last_progress_at=None if tally.last_progress is None else tally.instant(tally.last_progress),
            rss_bytes=self._parent.memory_info().rss,
            cpu_percent=self._parent.cpu_percent(),
            children=[child for slot in list(self.hub.slots.values()) if (child := self._child(slot.number))],
            tasks=[
                {
                    "task_id": g.task.id,
                    "task_code": g.task.task_code,
                    "attempt": g.task.attempt,
                    "begun": begun,
                }
                for g, begun in running[:200]
            ],
            retries=sum(c.database.counters.total() for c in (self.center, self.heart)),
        )

    def _child(self, number: int) -> dict[str, object] | None:
        slot = self.hub.slots.get(number)
        if slot is None or slot.pid is None:
            return None
        try:
            process = self._watched.setdefault(slot.pid, psutil.Process(slot.pid))
            rss, cpu = process.memory_info().rss, process.cpu_percent()
        except psutil.Error:
            self._watched.pop(slot.pid, None)
            return None
        if slot.rss_at_start is None:
            slot.rss_at_start = rss
        return {
            "number": number,
            "pid": slot.pid,
            "rss_bytes": rss,
            "cpu_percent": cpu,
            "jobs": len(slot.jobs),
            "served": slot.served,
        }

    def _retire_the_grown(self) -> None:
        """A child that has grown by more than its limit is replaced when its task is done."""
        pids = {slot.pid for slot in list(self.hub.slots.values())}
        self._watched = {pid: process for pid, process in self._watched.items() if pid in pids}
        if not self.settings.max_growth_mib:
            return
        for slot in list(self.hub.slots.values()):
            child = self._child(slot.number)
            if child is None or slot.rss_at_start is None or slot.retiring:
                continue
            grown = int(str(child["rss_bytes"])) - slot.rss_at_start
            if grown > self.settings.max_growth_mib * MEBI:
                log.info("child %s has grown by %s MiB and is replaced", slot.pid, grown // MEBI)
                self.hub.retire(slot.number)

    def _wake(self) -> None:
        self.hub.wake()

    def _ring(self, ring: Ring) -> None:
        try:
            self.queue.ring(ring)
        except BrokerUnavailable as error:
            log.debug("the scheduler was not woken, it will look by itself: %s", error)
