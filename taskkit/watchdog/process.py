"""The watchdog's process: APScheduler calls one job for each rule and one for each robot; of several watchdogs one works."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from taskkit.alerts import Alert, Notice, Reading
from taskkit.center import TaskCenter
from taskkit.center.alert_checks import NodeSign
from taskkit.clock import monotonic, utc_now
from taskkit.errors import SettingsError, StoreError
from taskkit.identity import new_identity
from taskkit.notices import Courier, MemoryOutbox, Troubleshooter, couriers
from taskkit.receivers.ping import ping
from taskkit.service import Stop, Ticker, Troubles
from taskkit.settings import Settings
from taskkit.watchdog.away import SqlAway
from taskkit.watchdog.checks import preload, run_check
from taskkit.watchdog.checks.stores import sql_away
from taskkit.watchdog.engine import Engine, Outcome
from taskkit.watchdog.evidence import Evidence
from taskkit.watchdog.looking import Looker
from taskkit.watchdog.place import CheckPlace, Memory
from taskkit.watchdog.policy import Policy, load_policy
from taskkit.watchdog.post import Post
from taskkit.watchdog.signals import Rule
from taskkit.watchdog.words import daily_line

log = logging.getLogger("taskkit.watchdog")
logging.getLogger("apscheduler.scheduler").setLevel(logging.ERROR)
"""It warns of each run that is left out while the one before still goes on, which is meant so."""
LEASE = "watchdog"
DELIVER_S = 1.0
PROBE_S = 1.0
LAST_S = 5.0
"""How long a watchdog that stops goes on delivering what is under way."""
CONNECTIONS = 3
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
        self.looks = center.apart(CONNECTIONS)
        self._reload = reload or (lambda: load_policy(settings))
        self._wanted_reload = threading.Event()
        self._leads_until = 0.0
        self._led = False
        self._rounds, self._sound = 0, {}  # type: ignore[var-annotated]
        self._round_at: datetime | None = None
        self._pinged = 0.0
        self._troubles: dict[str, Troubles] = {}
        self.memory = MemoryOutbox()
        self.away = SqlAway(sql_away, self.memory, self._may_tell_alone)
        self.memory_of_checks = Memory()
        self.looker = Looker(self._readings)
        self.evidence = Evidence(settings, center, options)
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
        """Read rules and receivers anew; safe in a signal handler."""
        self._wanted_reload.set()

    def run(self) -> None:
        """Watch until the stop."""
        self.center.watchdogs.enter(self.id, socket.gethostname(), os.getpid())
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
            if self._wanted_reload.is_set():
                self._wanted_reload.clear()
                self._read_policy()
        self._leave()

    def beat(self) -> float:
        """Write the heartbeat, and hold or seek the lease."""
        begun = monotonic()
        if not self.heart.watchdogs.beat(self.id, self._rounds, self._round_at):
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
            return PROBE_S
        post = self._post()
        try:
            self.probe.now()
            self.away.back(self.probe, rule, post)
        except StoreError as error:
            self.away.failed(rule, post, error, utc_now())
        return PROBE_S

    def check(self, rule: Rule) -> None:
        """One look of one rule, as APScheduler calls it."""
        if not self.leads or self.away.known:
            return
        outcome = self.looker.look(rule)
        try:
            moved = Engine(self.center, self._post()).apply(rule, outcome)
        except StoreError as error:
            self._trouble(f"rule {rule.id}").met(error)
            self._sound.pop(rule.id, None)
            return
        self._trouble(f"rule {rule.id}").over()
        self._note(rule, outcome)
        self._cure(rule, moved.fired)
        for alert in moved.fired:
            if alert.severity == "critical" and rule.evidence:
                self.evidence.ask(alert, rule, self._post())

    def _cure(self, rule: Rule, fired: Sequence[Alert]) -> None:
        """Ask workers whose slots hang to start anew, if that is wanted; nothing is ended from here."""
        if rule.signal != "zombies" or not self.settings.watchdog.restart_zombies:
            return
        for alert in fired:
            if alert.object and self.center.nodes.ask_to_restart(alert.object):
                log.warning("worker %s is asked to start anew", alert.object, extra={"alert_id": alert.id})

    def _note(self, rule: Rule, outcome: Outcome) -> None:
        """A round is whole when every rule has been looked after since the last one."""
        if outcome.error is not None:
            log.warning("the check of rule %s failed: %s", rule.id, outcome.error)
            self._sound.pop(rule.id, None)
            return
        self._sound[rule.id] = monotonic()
        if self._sound.keys() >= {one.id for one in self.policy.enabled}:
            self._sound.clear()
            self._rounds += 1
            self._round_at = utc_now()
            self._ping()

    def _ping(self) -> None:
        url = self.settings.watchdog.ping_url
        if url is None or monotonic() - self._pinged < self.settings.watchdog.ping_every_s:
            return
        self._pinged = monotonic()
        problem = ping(url)
        if problem is not None:
            log.warning("the ping after a whole round did not arrive: %s", problem)

    def deliver(self, courier: Courier) -> None:
        """Send what waits for one robot."""
        if courier.outbox is not self.memory and (not self.leads or self.away.known):
            return
        trouble = self._trouble(f"delivery to {', '.join(courier.receivers)}")
        try:
            while courier.tick() <= 0 and not self.stop.asked:
                continue
        except StoreError as error:
            trouble.met(error)
        else:
            trouble.over()

    def daily(self) -> None:
        """The line that says that the watchdog is still here; once a day however many there are."""
        if not self.leads:
            return
        today = self.center.now().date().isoformat()
        for one in self.policy.receivers:
            language = one.options.language or self.settings.watchdog.language
            subject, text = daily_line(self.center, language)
            self.center.outbox.post_notice(
                Notice(
                    uuid=f"d{today}{one.robot}"[:32],
                    receiver=one.name,
                    subject=subject,
                    text=text,
                    mentions=False,
                )
            )

    def _readings(self, rule: Rule) -> list[Reading]:
        place = CheckPlace(
            self.looks, self.settings, self.looks.now(), self.memory_of_checks, self._watchdogs, self.id
        )
        return run_check(rule, place)

    def _watchdogs(self) -> list[NodeSign]:
        return [
            NodeSign(
                row["watchdog_id"],
                row["host"],
                row["pid"],
                row["started_at"],
                row["heartbeat_at"],
                row["heartbeat_age_s"],
                row["stopped_at"],
            )
            for row in self.looks.watchdogs.all()
        ]

    def _may_tell_alone(self) -> bool:
        """While SQL is away no lease can be had: who held it last tells."""
        return self._led

    def _post(self) -> Post:
        return Post(self.policy.receivers, self.settings.watchdog.console_url)

    def _trouble(self, what: str) -> Troubles:
        return self._troubles.setdefault(what, Troubles(what))

    def _arrange(self) -> None:
        """The jobs of this policy, and of nothing else."""
        self.jobs.remove_all_jobs()
        for number, rule in enumerate(self.policy.enabled):
            self._job(f"rule {rule.id}", self.check, float(rule.every), number * STAGGER_S, rule)
        self.couriers = self._couriers()
        for courier in self.couriers:
            where = "memory" if courier.outbox is self.memory else "sql"
            self._job(f"{where} {courier.robot.robot}", self.deliver, DELIVER_S, 0.0, courier)
        at = self.settings.watchdog.daily_at
        if at is not None:
            hour, minute = at.split(":")
            self.jobs.add_job(
                self.daily,
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

    def _couriers(self) -> list[Courier]:
        options = {"language": self.settings.watchdog.language, "zone": self.settings.timezone}
        trouble = Troubleshooter(self.center.outbox, self.policy.receivers, language=options["language"])
        receivers = self.policy.receivers
        return [
            *couriers(self.center.outbox, receivers, self.id, trouble=trouble, **options),
            *couriers(self.memory, receivers, self.id, **options),
        ]

    def _read_policy(self) -> None:
        """Take the new policy, or go on with the old one and say why."""
        try:
            self.policy = self._reload()
        except SettingsError as error:
            log.error("rules and receivers stay as they were: %s", error)  # noqa: TRY400 - one line says it
            return
        self._arrange()
        self._sound.clear()
        try:
            Engine(self.center, self._post()).retire(self.policy.rules)
        except StoreError as error:
            log.warning("alerts of rules that are gone stay open: %s", error)
        log.info(
            "rules and receivers were read anew: %s rules, %s receivers",
            len(self.policy.enabled),
            len(self.policy.receivers),
        )

    def _leave(self) -> None:
        self.jobs.shutdown(wait=False)
        for ticker in self._tickers:
            ticker.join(5)
        if self.leads:
            self._deliver_rest()
        self.evidence.stop()
        try:
            self.center.nodes.drop_lease(LEASE, self.id)
            self.center.watchdogs.leave(self.id)
        except StoreError as error:
            log.warning("could not sign off: %s", error)
        for beside in (self.heart, self.probe, self.looks):
            beside.close()
        log.info("watchdog %s has stopped", self.id)

    def _deliver_rest(self) -> None:
        """What is due goes out before the end, for some seconds."""
        deadline = monotonic() + LAST_S
        for courier in self.couriers:
            try:
                while monotonic() < deadline and courier.tick() <= 0:
                    continue
            except StoreError as error:
                log.warning("what waits for %s stays in the outbox: %s", ", ".join(courier.receivers), error)
