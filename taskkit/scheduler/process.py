"""The scheduler's process: dispatch in the main thread, planning and heartbeat in threads of their own."""

from __future__ import annotations

import logging
import os
import socket
from datetime import datetime

from taskkit.beats import SchedulerBeat
from taskkit.center import TaskCenter
from taskkit.clock import monotonic, seconds, utc_now
from taskkit.cron import tzdata_version
from taskkit.errors import BrokerUnavailable, StoreError
from taskkit.identity import new_identity
from taskkit.queues import Queue
from taskkit.scheduler.dispatcher import Dispatcher
from taskkit.scheduler.granting import LimitKeeper
from taskkit.scheduler.guard import WatchdogGuard
from taskkit.scheduler.lost_messages import MessageRecovery
from taskkit.scheduler.lost_workers import WorkerRecovery
from taskkit.scheduler.pruner import Pruner
from taskkit.scheduler.sampler import Sampler
from taskkit.scheduler.shards import ShardKeeper
from taskkit.service import Stop, Ticker, Troubles, carry_on
from taskkit.settings import Settings

log = logging.getLogger("taskkit.scheduler")
LEASE_SECONDS = 10.0
OTHERS_FRESH = 15.0
BESIDE = 2
"""Connections for planner, sampler, pruner, recovery and limits; with one of them the others wait behind a lock."""
COARSE_S = 0.1
"""A broker's long waits may end so many seconds late. Where something is due then, one of them ends before it."""


class SchedulerProcess:
    """One scheduler: runs until the stop is asked for; ``extra`` tickers run beside its own.

    It has four connections to SQL, so that nothing slow holds up what must not wait: ``center``'s dispatches, one is
    for the heartbeat, and two are shared by all that may take long or wait for somebody's lock.
    """

    def __init__(
        self, settings: Settings, center: TaskCenter, queue: Queue, stop: Stop, *extra: Ticker
    ) -> None:
        self.settings, self.center, self.queue, self.stop = settings, center, queue, stop
        self.id = new_identity()
        self.heart, self.beside = center.apart(), center.apart(BESIDE)
        self.dispatcher = Dispatcher(center, queue, settings.scheduler)
        self.messages = MessageRecovery(self.beside, queue, self.id, settings.scheduler)
        self.workers = WorkerRecovery(self.beside, self.id, settings.scheduler, settings.worker.kill_grace_s)
        self._scan_troubles, self._ring_troubles = (
            Troubles("the dispatch scan"),
            Troubles("waiting for the bell"),
        )
        self._tickers = [Ticker("planner", self.plan, stop), Ticker("heartbeat", self.beat, stop)]
        self._tickers += [
            Ticker("sampler", Sampler(self.beside, queue, self.id).tick, stop),
            Ticker("pruner", Pruner(self.beside, settings.retention, self.id).tick, stop),
            Ticker("recovery of messages", self.messages.tick, stop),
            Ticker("recovery from workers", self.workers.tick, stop),
            Ticker("limits", LimitKeeper(self.beside, center, self.id).tick, stop),
            Ticker("shards", ShardKeeper(self.beside, center, queue, self.id).tick, stop),
            Ticker("guard of the watchdog", WatchdogGuard(self.beside, settings, self.id).tick, stop),
            *extra,
        ]
        self._clock_off = self._benched = False

    def run(self) -> None:
        """Dispatch until the stop."""
        self.center.nodes.enter_scheduler(self.id, socket.gethostname(), os.getpid())
        log.info("scheduler %s is up", self.id)
        for ticker in self._tickers:
            ticker.start()
        while not self.stop.asked:
            if self._benched:
                self.stop.wait(self.settings.scheduler.poll_s)
            else:
                self._wait(carry_on(self.dispatcher.scan, self._scan_troubles))
        self._leave()

    def plan(self) -> float:
        """Plan periodic tasks if this scheduler has the lease, which only saves doing it twice."""
        if self.beside.nodes.take_lease("planner", self.id, LEASE_SECONDS):
            lists, _ = self.beside.dispatch.due_lists()
            self.beside.plan.adopt(lists)
            self.beside.plan.sweep()
        return self.settings.scheduler.plan_every_s

    def beat(self) -> float:
        """Write the heartbeat, with the offset of this node's clock from the database's."""
        database, offset = self._measure_clock()
        if offset is not None:
            self._watch_clock(offset)
        counters = self.dispatcher.counters
        scanned = counters.scanned
        beat = SchedulerBeat(
            scheduler_id=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            dispatched=counters.dispatched,
            scans=counters.scans,
            last_scan_at=None if scanned is None else database - seconds(monotonic() - scanned),
            clock_offset_ms=None if offset is None else round(offset, 3),
            tzdata_version=tzdata_version(),
            retries=sum(c.database.counters.total() for c in (self.center, self.heart, self.beside)),
        )
        if not self.heart.nodes.beat_scheduler(beat):
            self.heart.nodes.enter_scheduler(self.id, beat.host, beat.pid)
        return self.settings.scheduler.heartbeat_s

    def _wait(self, rest: float) -> None:
        """Rest, or until a producer rings; without a broker the scan goes on by the clock alone."""
        if rest <= 0 or self.stop.asked:
            return
        poll = self.settings.scheduler.poll_s
        if COARSE_S < rest < poll:
            rest -= COARSE_S
        try:
            ring = self.queue.wait_ring(min(rest, poll))
            if ring is not None:
                self.dispatcher.look_anew(ring)
        except BrokerUnavailable as error:
            self._ring_troubles.met(error)
            self.stop.wait(rest)
        else:
            self._ring_troubles.over()

    def _measure_clock(self) -> tuple[datetime, float | None]:
        """The database's clock, and the milliseconds by which ours is ahead; None when the answer took too long."""
        begun, before = monotonic(), utc_now()
        database = self.heart.now()
        took = monotonic() - begun
        if took * 1000 > self.settings.scheduler.clock_limit_ms:
            return database, None
        return database, (before + seconds(took / 2) - database).total_seconds() * 1000

    def _watch_clock(self, offset_ms: float) -> None:
        """A clock that is off harms nothing by itself, since the database's decides; but it should not be trusted."""
        limit = self.settings.scheduler.clock_limit_ms
        off = abs(offset_ms) > limit
        benched = off and self._another_is_right(limit)
        if (off, benched) != (self._clock_off, self._benched):
            doing = (
                "another scheduler dispatches meanwhile"
                if benched
                else "no other has a better one: dispatching goes on"
            )
            if off:
                log.error(
                    "this node's clock is %.0f ms off the database's: set it right; %s", offset_ms, doing
                )
            else:
                log.warning("this node's clock is right again; dispatching")
        self._clock_off, self._benched = off, benched

    def _another_is_right(self, limit: float) -> bool:
        """Whether another scheduler lives and scans whose clock is within the limit."""
        return any(
            row["scheduler_id"] != self.id
            and row["heartbeat_age_s"] < OTHERS_FRESH
            and row["scan_age_s"] is not None
            and row["scan_age_s"] < OTHERS_FRESH
            and row["clock_offset_ms"] is not None
            and abs(row["clock_offset_ms"]) <= limit
            for row in self.heart.nodes.schedulers()
        )

    def _leave(self) -> None:
        for ticker in self._tickers:
            ticker.join(5)
        try:
            for lease in ("planner", "sampler", "pruner", "recovery", "deaths", "limits", "shards", "guard"):
                self.center.nodes.drop_lease(lease, self.id)
            self.center.nodes.leave_scheduler(self.id)
        except StoreError as error:
            log.warning("could not sign off: %s", error)
        for beside in (self.heart, self.beside):
            beside.close()
        log.info("scheduler %s has stopped", self.id)
