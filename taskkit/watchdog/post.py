"""From the step of an alert to the postings that tell it: whom, in which group, with which runbook and link. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from taskkit.alerts import Alert, Event, Item, Posting
from taskkit.receivers.protocol import Receiver, hearers
from taskkit.watchdog.signals import Rule


class Post:
    """The receivers there are, and where links lead."""

    def __init__(self, receivers: Sequence[Receiver], console_url: str | None = None) -> None:
        self.receivers, self.console_url = receivers, console_url

    def postings(
        self,
        alert: Alert,
        event: Event | None,
        rule: Rule,
        now: datetime,
        *,
        file: str = "",
        told: Collection[str] = (),
    ) -> tuple[Posting, ...]:
        """One for each receiver that the rule names, or that was ``told`` of it before, and that takes this severity.

        Of receivers with one robot one is told.
        """
        if event is None:
            return ()
        item = self.item(alert, event, rule, now, file)
        wait = float(rule.group_wait) if event is not Event.EVIDENCE else 0.0
        named = [
            one
            for one in self.receivers
            if not rule.receivers or one.name in rule.receivers or one.name in told
        ]
        group = f"{rule.group}:{_direction(event)}"
        return tuple(Posting(one.name, item, group, wait) for one in hearers(named, item))

    def item(self, alert: Alert, event: Event, rule: Rule, now: datetime, file: str = "") -> Item:
        """The alert as it is told."""
        return Item(
            alert_id=alert.id,
            event=event,
            rule=alert.rule,
            object=alert.object,
            severity=alert.severity,
            since=alert.since,
            at=now,
            said=alert.said,
            cause=alert.cause,
            runbook=rule.runbook,
            link=f"{self.console_url.rstrip('/')}/alerts/{alert.id}" if self.console_url and alert.id else "",
            file=file,
            flaps=alert.flaps,
        )


def _direction(event: Event) -> str:
    """What begins and what ends do not stand in one message unless they have to."""
    return "end" if event is Event.RESOLVED else event.value
