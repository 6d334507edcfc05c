"""The patrol: looks of rules, what follows at once from them, and how many whole rounds there were."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from taskkit.alerts import Alert, Reading
from taskkit.center import TaskCenter
from taskkit.clock import monotonic, utc_now
from taskkit.errors import StoreError
from taskkit.receivers.ping import ping
from taskkit.service import Troubles
from taskkit.settings import Settings
from taskkit.watchdog.checks import run_check
from taskkit.watchdog.engine import CheckOutcome, Engine
from taskkit.watchdog.evidence import Evidence
from taskkit.watchdog.looking import Looker
from taskkit.watchdog.place import CheckPlace, Memory, signs
from taskkit.watchdog.policy import Policy
from taskkit.watchdog.post import Post
from taskkit.watchdog.signals import Rule

log = logging.getLogger("taskkit.watchdog")
CONNECTIONS = 3
"""That are kept. While checks hang there are more, one for each rule at most, so that the other checks do not wait."""


class Patrol:
    """Looks after rules while ``works`` says so; ``policy`` is the one of the moment."""

    def __init__(
        self,
        settings: Settings,
        center: TaskCenter,
        watchdog_id: str,
        evidence: Evidence,
        policy: Callable[[], Policy],
        works: Callable[[], bool],
    ) -> None:
        self.settings, self.center, self.id, self.evidence = settings, center, watchdog_id, evidence
        self._policy, self._works = policy, works
        self.looks = center.apart(CONNECTIONS, overflow=-1)
        self.rounds = 0
        self.round_at: datetime | None = None
        self._memory = Memory()
        self._looker = Looker(self._readings)
        self._sound: dict[str, float] = {}
        self._pinged = -self.settings.watchdog.ping_every_s
        self._troubles: dict[str, Troubles] = {}

    @property
    def post(self) -> Post:
        """To whom the policy of the moment tells what."""
        return Post(self._policy().receivers, self.settings.watchdog.console_url)

    def begin_anew(self) -> None:
        """The policy has changed: a round begins."""
        self._sound.clear()

    def close(self) -> None:
        """Close the connections."""
        self.looks.close()

    def check(self, rule: Rule) -> None:
        """One look of one rule, as APScheduler calls it."""
        if not self._works():
            return
        outcome = self._looker.look(rule)
        try:
            moved = Engine(self.center, self.post).apply(rule, outcome)
        except StoreError as error:
            self._trouble(rule).met(error)
            self._sound.pop(rule.id, None)
            return
        self._trouble(rule).over()
        self._note(rule, outcome)
        self._cure(rule, moved.fired)
        for alert in moved.fired:
            if alert.severity == "critical" and rule.evidence:
                self.evidence.ask(alert, rule, self.post)

    def _cure(self, rule: Rule, fired: Sequence[Alert]) -> None:
        """Ask workers whose slots hang to start anew, if that is wanted; nothing is ended from here."""
        if rule.signal != "zombies" or not self.settings.watchdog.restart_zombies:
            return
        for alert in fired:
            if alert.object and self.center.nodes.ask_to_restart(alert.object):
                log.warning("worker %s is asked to start anew", alert.object, extra={"alert_id": alert.id})

    def _note(self, rule: Rule, outcome: CheckOutcome) -> None:
        """A round is whole when every rule has been looked after since the last one."""
        if outcome.error is not None:
            self._check_trouble(rule).met(StoreError(outcome.error))
            self._sound.pop(rule.id, None)
            return
        self._check_trouble(rule).over()
        self._sound[rule.id] = monotonic()
        if self._sound.keys() >= {one.id for one in self._policy().enabled}:
            self._sound.clear()
            self.rounds += 1
            self.round_at = utc_now()
            self._ping()

    def _ping(self) -> None:
        url = self.settings.watchdog.ping_url
        if url is None or monotonic() - self._pinged < self.settings.watchdog.ping_every_s:
            return
        self._pinged = monotonic()
        problem = ping(url)
        if problem is not None:
            log.warning("the ping after a whole round did not arrive: %s", problem)

    def _readings(self, rule: Rule) -> list[Reading]:
        place = CheckPlace(
            self.looks, self.settings, self.looks.now(), self._memory, lambda: signs(self.looks), self.id
        )
        return run_check(rule, place)

    def _trouble(self, rule: Rule) -> Troubles:
        return self._troubles.setdefault(rule.id, Troubles(f"writing what became of rule {rule.id}"))

    def _check_trouble(self, rule: Rule) -> Troubles:
        return self._troubles.setdefault(f"check {rule.id}", Troubles(f"the check of rule {rule.id}"))
