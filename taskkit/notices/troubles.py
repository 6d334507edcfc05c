"""A receiver that does not work is told of through another one, and so is what it should have told."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from taskkit.alerts import Notice, Posting
from taskkit.center.outbox import OutboxDesk
from taskkit.clock import utc_now
from taskkit.notices.courier import ReceiverTrouble
from taskkit.receivers.protocol import Receiver

log = logging.getLogger("taskkit.notices")
WORDS = {
    ("en", True): (
        "receiver {name} does not take messages",
        "The answer was: {reason}. What it should have told comes here.",
    ),
    ("zh", True): ("接收器 {name} 收不到消息", "返回: {reason}。它本该收到的告警改发到这里。"),
    ("en", False): ("receiver {name} will soon take no more messages", "{reason}."),
    ("zh", False): ("接收器 {name} 的消息额度即将用完", "{reason}。"),
}
"""By language, and whether it takes none now."""


class Troubleshooter:
    """Passes a courier's troubles on to the first other receiver that takes over for others."""

    def __init__(
        self,
        outbox: OutboxDesk,
        receivers: Sequence[Receiver],
        *,
        language: str = "en",
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.outbox, self.receivers, self.language, self.clock = outbox, receivers, language, clock

    def __call__(self, trouble: ReceiverTrouble) -> None:
        """Tell another receiver, once for each key and day, and post what was to be told there as well; raises StoreError."""
        other = self._other(trouble.receiver)
        if other is None:
            if trouble.key:
                log.error("receiver %s: %s; there is no other to tell", trouble.receiver.name, trouble.reason)
            return
        if trouble.key:
            self.outbox.post_notice(self._told(trouble, other))
        self._pass_on(trouble, other)

    def _other(self, receiver: Receiver) -> Receiver | None:
        stopped = {
            robot for robot, row in self.outbox.robots().items() if row["misconfigured"] or row["pause_s"]
        }
        others = (
            one
            for one in self.receivers
            if one.options.fallback and one.robot != receiver.robot and one.robot not in stopped
        )
        return next(others, None)

    def _told(self, trouble: ReceiverTrouble, other: Receiver) -> Notice:
        title, text = WORDS[other.options.language or self.language, trouble.stopped]
        name = trouble.receiver.name
        day = self.clock().date().isoformat() if trouble.stopped else ""
        key = hashlib.sha256(f"{trouble.key}:{day}:{other.name}".encode()).hexdigest()[:32]
        return Notice(
            uuid=key,
            receiver=other.name,
            subject=title.format(name=name),
            text=text.format(reason=trouble.reason or "?"),
        )

    def _pass_on(self, trouble: ReceiverTrouble, other: Receiver) -> None:
        postings = [Posting(other.name, item) for notice in trouble.notices for item in notice.items]
        known = self.outbox.known([(one.item.alert_id, one.item.event.value) for one in postings], other.name)
        new = [one for one in postings if (one.item.alert_id, one.item.event.value) not in known]
        if new:
            self.outbox.post(new)
