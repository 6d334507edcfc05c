"""The watchdog's process: APScheduler calls one job for each rule and one for each robot; of several watchdogs one works."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from taskkit.center import TaskCenter
from taskkit.clock import monotonic, utc_now
from taskkit.doors import open_asker
from taskkit.errors import SettingsError, StoreError
from taskkit.identity import new_identity
from taskkit.notices import Courier, MemoryOutbox
from taskkit.service import Stop, Ticker
from taskkit.settings import Settings
from taskkit.watchdog.away import Mark, SqlAway
from taskkit.watchdog.checks import preload
from taskkit.watchdog.checks.stores import sql_away
from taskkit.watchdog.delivery import Delivery
from taskkit.watchdog.engine import Engine
from taskkit.watchdog.evidence import Evidence
from taskkit.watchdog.patrol import Patrol
from taskkit.watchdog.policy import Policy, load_policy

log = logging.getLogger("taskkit.watchdog")
logging.getLogger("apscheduler.scheduler").setLevel(logging.ERROR)
"""It warns of each run that is left out while the one before still goes on, which is meant so."""
LEASE = "watchdog"
DELIVER_S = 1.0
PROBE_S = 1.0
STAGGER_S = 0.3
"""Jobs begin so far apart, so that a start is no burst."""


class WatchdogProcess:
    """One watchdog: runs until the stop is asked for. The holder of the lease looks and tells; the others wait."""

    def __init__(
        self,
        settings: Settings,
        center: TaskCenter,
        stop: Stop,
        policy: Policy,
        reload: Callable[[], Policy] | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        self.settings, self.center, self.stop, self.policy = settings, center, stop, policy
        self.id = new_identity()
        self.heart, self.probe = center.apart(), center.apart(read_timeout=5)
        self._reload = reload or (lambda: load_policy(settings))
        self._wanted_reload = False
        self._leads_until = 0.0
        self._led: bool | None = None
        self._checked, self._to_retire = False, True
        self.memory = MemoryOutbox()
        self.mark = Mark(lambda: open_asker(settings, self.heart), self.id)
        self.away = SqlAway(sql_away, self.memory, self.mark, lambda: self._led)
        self.evidence = Evidence(settings, center, options)
        self.patrol = Patrol(settings, center, self.id, self.evidence, lambda: self.policy, self._works)
        self.delivery = Delivery(settings, center, self.memory, self.id)
        self.couriers: list[Courier] = []
        self.jobs = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(32)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        self._tickers = [Ticker("heartbeat", self.beat, stop), Ticker("look at SQL", self.look_at_sql, stop)]

    @property
    def leads(self) -> bool:
        """Whether this watchdog is the one that works."""
        return monotonic() < self._leads_until

    def ask_to_reload(self, *_: object) -> None:
        """Read rules and receivers anew; safe in a signal handler, so no lock of an event is taken."""
        self._wanted_reload = True

    def run(self) -> None:
        """Watch until the stop."""
        log.info(
            "watchdog %s is up: %s rules, receivers: %s",
            self.id,
            len(self.policy.enabled),
            ", ".join(one.name for one in self.policy.receivers)
            or "none, alerts stand in the log and in SQL only",
        )
        preload()
        self._arrange()
        self.jobs.start()
        for ticker in self._tickers:
            ticker.start()
        while not self.stop.wait(0.2):
            if self._wanted_reload:
                self._wanted_reload = False
                self._read_policy()
        self._leave()

    def beat(self) -> float:
        """Write the heartbeat, and hold or seek the lease."""
        begun = monotonic()
        if not self._checked:
            self.heart.check_schema()
            self._checked = True
        self.mark.prepare()
        if not self.heart.watchdogs.beat(self.id, self.patrol.rounds, self.patrol.round_at):
            self.heart.watchdogs.enter(self.id, socket.gethostname(), os.getpid())
        lease_s = self.settings.watchdog.lease_s
        if self.heart.nodes.take_lease(LEASE, self.id, lease_s):
            self._leads_until = begun + lease_s
            if not self._led:
                log.info("this watchdog looks and tells from now on")
                self._led = True
        else:
            self._led = False
        return min(self.settings.watchdog.heartbeat_s, lease_s / 3)

    def look_at_sql(self) -> float:
        """Whether SQL answers; when it does not, that is told without it."""
        rule = next((one for one in self.policy.enabled if one.signal == "stores"), None)
        if rule is None:
            self.away.forget()
        post = self.patrol.post
        try:
            self.probe.now()
            if rule is not None:
                self.away.back(self.probe, rule, post)
            if self._to_retire and self.leads:
                self._retire(self.probe)
        except StoreError as error:
            if rule is not None:
                self.away.failed(rule, post, error, utc_now())
        return PROBE_S

    def _works(self) -> bool:
        return self.leads and not self.away.known

    def _deliver(self, courier: Courier) -> None:
        if courier.outbox is self.memory or self._works():
            self.delivery.run(courier, self.stop)

    def _daily(self) -> None:
        if self._works():
            self.delivery.daily()

    def _arrange(self) -> None:
        """The jobs of this policy, and of nothing else."""
        self.jobs.remove_all_jobs()
        for number, rule in enumerate(self.policy.enabled):
            self._job(f"rule {rule.id}", self.patrol.check, float(rule.every), number * STAGGER_S, rule)
        self.couriers = self.delivery.couriers(self.policy.receivers)
        for courier in self.couriers:
            where = "memory" if courier.outbox is self.memory else "sql"
            self._job(f"{where} {courier.robot.robot}", self._deliver, DELIVER_S, 0.0, courier)
        at = self.settings.watchdog.daily_at
        if at is not None:
            hour, minute = at.split(":")
            self.jobs.add_job(
                self._daily,
                "cron",
                hour=int(hour),
                minute=int(minute),
                timezone=self.settings.timezone,
                id="daily",
            )
        if self.settings.watchdog.evidence_days:
            self._job("evidence", self.evidence.tidy, 3600.0, 60.0)

    def _job(
        self, name: str, act: Callable[..., object], every: float, wait: float, *arguments: object
    ) -> None:
        first = datetime.now(UTC) + timedelta(seconds=wait)
        self.jobs.add_job(act, "interval", args=arguments, seconds=every, next_run_time=first, id=name)

    def _read_policy(self) -> None:
        """Take the new policy, or go on with the old one and say why."""
        try:
            self.policy = self._reload()
        except SettingsError as error:
            log.error("rules and receivers stay as they were: %s", error)  # noqa: TRY400 - one line says it
            return
        self._arrange()
        self.patrol.begin_anew()
        self._to_retire = True
        try:
            self._retire(self.center)
        except StoreError as error:
            log.warning("alerts of rules that are gone stay open until SQL answers: %s", error)
        log.info(
            "rules and receivers were read anew: %s rules, receivers: %s",
            len(self.policy.enabled),
            ", ".join(one.name for one in self.policy.receivers) or "none",
        )

    def _retire(self, center: TaskCenter) -> None:
        Engine(center, self.patrol.post).retire(self.policy.rules)
        self._to_retire = False

    def _leave(self) -> None:
        self.jobs.shutdown(wait=False)
        for ticker in self._tickers:
            ticker.join(5)
        if self.leads:
            self.delivery.finish(self.couriers)
        self.evidence.stop()
        try:
            self.center.nodes.drop_lease(LEASE, self.id)
            self.center.watchdogs.leave(self.id)
        except StoreError as error:
            log.warning("could not sign off: %s", error)
        for beside in (self.heart, self.probe, self.patrol, self.mark):
            beside.close()
        log.info("watchdog %s has stopped", self.id)
