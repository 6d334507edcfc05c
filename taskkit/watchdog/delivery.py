"""Delivery: a courier for each robot and outbox, the daily line, and the last seconds of a watchdog that stops."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from taskkit.alerts import Notice
from taskkit.center import TaskCenter
from taskkit.clock import monotonic
from taskkit.errors import StoreError
from taskkit.notices import Courier, MemoryOutbox, Troubleshooter, couriers
from taskkit.receivers.protocol import Receiver
from taskkit.service import Stop, Troubles
from taskkit.settings import Settings
from taskkit.watchdog.daily import daily_line
from taskkit.zone import load_zone

log = logging.getLogger("taskkit.watchdog")
LAST_S = 5.0
"""How long a watchdog that stops goes on delivering what is under way."""


class Delivery:
    """Sends what waits in SQL while this watchdog works, and what waits in memory whenever there is something."""

    def __init__(self, settings: Settings, center: TaskCenter, memory: MemoryOutbox, holder: str) -> None:
        self.settings, self.center, self.memory, self.holder = settings, center, memory, holder
        self.receivers: Sequence[Receiver] = ()
        self._troubles: dict[str, Troubles] = {}

    def couriers(self, receivers: Sequence[Receiver]) -> list[Courier]:
        """One for each robot and outbox."""
        self.receivers = receivers
        options = {"language": self.settings.watchdog.language, "zone": self.settings.timezone}
        trouble = Troubleshooter(self.center.outbox, receivers, language=options["language"])
        return [
            *couriers(self.center.outbox, receivers, self.holder, trouble=trouble, **options),
            *couriers(self.memory, receivers, self.holder, **options),
        ]

    def run(self, courier: Courier, stop: Stop) -> None:
        """Send all that is due for one robot."""
        what = f"delivery to {', '.join(courier.receivers)}"
        trouble = self._troubles.setdefault(what, Troubles(what))
        try:
            while courier.tick() <= 0 and not stop.asked:
                continue
        except StoreError as error:
            trouble.met(error)
        else:
            trouble.over()

    def finish(self, found: Sequence[Courier]) -> None:
        """What is due goes out before the end, for some seconds."""
        deadline = monotonic() + LAST_S
        for courier in found:
            try:
                while monotonic() < deadline and courier.tick() <= 0:
                    continue
            except StoreError as error:
                log.warning("what waits for %s stays in the outbox: %s", ", ".join(courier.receivers), error)

    def daily(self) -> None:
        """The line that says that the watchdog is still here; once a local day however many there are."""
        today = self.center.now().astimezone(load_zone(self.settings.timezone)).date().isoformat()
        for one in self.receivers:
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
