"""The courier of one robot: takes what waits, calls, and does what the answer demands. Nothing is lost on the way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from taskkit.alerts import Notice, Posting
from taskkit.center.outbox import Robot, RobotStanding, TakenNotice, WaitingNotice, month_of
from taskkit.clock import monotonic, utc_now
from taskkit.errors import StoreError
from taskkit.notices.choosing import choose
from taskkit.receivers.protocol import USUAL, CallPayload, Form, Receiver, Reply, Verdict, next_form
from taskkit.zone import load_zone

log = logging.getLogger("taskkit.notices")
BACK_OFF = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0)
"""Seconds before a notice that did not arrive is tried again; the last one repeats."""
MISCONFIGURED_S = 3600.0
"""How long a receiver that is configured wrongly is left alone before the next notice tries it again."""
ESCALATE_S = 150.0
"""Where so much of a pause is left, critical alerts go by another receiver as well."""
FAILS_TOLD = 3
MONTH_TOLD = 0.8
CALLS = 3
"""What one message may need: itself, once more in another form, and a mention or a file."""


class Outbox(Protocol):
    """Where notices wait: SQL, or memory while SQL is away."""

    def post(self, postings: Sequence[Posting]) -> None: ...
    def post_notice(self, notice: Notice, severity: str = "warning") -> None: ...
    def waiting(self, receivers: Sequence[str]) -> list[WaitingNotice]: ...
    def standing(self, robot: Robot) -> RobotStanding: ...
    def take(
        self, robot: Robot, chosen: Sequence[WaitingNotice], merged: Notice, holder: str
    ) -> TakenNotice | None: ...
    def called(
        self, call_id: int, kind: str, verdict: str, code: str, reply: str, took_ms: float
    ) -> None: ...
    def sent(
        self, taken: TakenNotice, robot: Robot, made: int, code: str, reply: str, month: str
    ) -> None: ...
    def again(self, taken: TakenNotice, wait_s: float, code: str, reply: str) -> None: ...
    def refused(self, taken: TakenNotice, code: str, reply: str) -> None: ...
    def pause(self, robot: Robot, pause_s: float, reason: str, *, misconfigured: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class ReceiverTrouble:
    """What a courier could not do itself: told by other receivers, with these alerts."""

    receiver: Receiver
    reason: str
    notices: tuple[Notice, ...] = ()
    key: str = ""
    """Two troubles with one key are told once."""
    stopped: bool = True
    """Whether it does not take messages, or only soon will not."""


class Courier:
    """Delivers to all receivers that share one robot, one call at a time."""

    def __init__(
        self,
        outbox: Outbox,
        receivers: Sequence[Receiver],
        holder: str,
        *,
        language: str = "en",
        zone: str = "UTC",
        clock: Callable[[], datetime] = utc_now,
        trouble: Callable[[ReceiverTrouble], None] = lambda _: None,
    ) -> None:
        self.outbox, self.holder, self.clock = outbox, holder, clock
        self.language, self.zone, self.trouble = language, load_zone(zone), trouble
        self.receivers = {one.name: one for one in receivers}
        first = receivers[0]
        self.robot = Robot(first.robot, tuple(self.receivers), first.budget, calls=CALLS)

    def tick(self) -> float:
        """Send at most one message; returns the seconds to rest, 0 when more may be waiting."""
        waiting = self.outbox.waiting(self.robot.receivers)
        if not waiting:
            return 1.0
        standing = self.outbox.standing(self.robot)
        self._escalate(waiting, standing)
        choice = choose(waiting, standing, self.robot)
        if choice.notice is None:
            return min(choice.wait_s, 1.0)
        taken = self.outbox.take(self.robot, choice.chosen, choice.notice, self.holder)
        if taken is None:
            return 1.0
        self._deliver(taken)
        return 0.0

    def _escalate(self, waiting: Sequence[WaitingNotice], standing: RobotStanding) -> None:
        """What is critical, or stands behind a receiver that is configured wrongly, goes by another one too."""
        if standing.misconfigured:
            left = [one.notice for one in waiting if one.notice.items]
        elif standing.pause_s >= ESCALATE_S:
            left = [one.notice for one in waiting if one.notice.items and one.notice.severity == "critical"]
        else:
            return
        if left:
            receiver = self.receivers[left[0].receiver]
            self._pass_on(ReceiverTrouble(receiver, standing.reason or "", tuple(left)))

    def _pass_on(self, trouble: ReceiverTrouble) -> bool:
        """Whether it was passed on, or there was nobody to pass it on to; where SQL does not take it, it waits here."""
        try:
            self.trouble(trouble)
        except StoreError as error:
            log.warning("what receiver %s cannot take waits: %s", trouble.receiver.name, error)
            return False
        return True

    def _deliver(self, taken: TakenNotice) -> None:
        receiver = self.receivers[taken.notice.receiver]
        calls = list(taken.calls)
        try:
            form, reply, made = self._call_main(receiver, taken, calls)
        except StoreError:
            raise
        except Exception as error:  # a fault of ours, in one message: the next one must not wait for it
            log.exception("notice %s could not be made for receiver %s", taken.id, receiver.name)
            self._failed(receiver, taken, Reply(Verdict.BROKEN, "error", type(error).__name__))
            return
        if reply.verdict is Verdict.SENT:
            made += self._call_rest(receiver, taken, form, calls)
            self.outbox.sent(taken, self.robot, made, reply.code, reply.text, month_of(self.clock()))
            self._count(receiver)
        else:
            self._failed(receiver, taken, reply)

    def _call_main(self, receiver: Receiver, taken: TakenNotice, calls: list[int]) -> tuple[Form, Reply, int]:
        """The message itself, in other forms as its answers demand while there are calls for it."""
        form, made, resigned = USUAL, 0, False
        while True:
            payload = self._payloads(receiver, taken, form)[0]
            reply = self._call(receiver, taken, payload, calls.pop(0))
            made += 1
            again = reply.verdict is Verdict.RESIGN and not resigned
            other = form if again else next_form(form, reply.verdict, len(payload.body))
            if other is None or not calls:
                return form, reply, made
            form, resigned = other, resigned or again

    def _call_rest(self, receiver: Receiver, taken: TakenNotice, form: Form, calls: list[int]) -> int:
        """What a message needs besides: mentions, a file. The message has arrived, so their failure is only told."""
        made = 0
        for payload in self._payloads(receiver, taken, form)[1:]:
            if not calls:
                log.warning("receiver %s: no call is left for its %s", receiver.name, payload.kind)
                break
            reply = self._call(receiver, taken, payload, calls.pop(0))
            made += 1
            if reply.verdict is Verdict.PAUSE:
                self.outbox.pause(self.robot, reply.pause_s, f"{reply.code} {reply.text}")
                break
        return made

    def _count(self, receiver: Receiver) -> None:
        """Say through another receiver when most of a month's calls are used up."""
        if receiver.month is None:
            return
        used = self.outbox.standing(self.robot).month_calls
        if used >= receiver.month * MONTH_TOLD:
            reason = f"{used} of {receiver.month} calls of {month_of(self.clock())} are used"
            key = f"{self.robot.robot}:quota:{month_of(self.clock())}"
            self._pass_on(ReceiverTrouble(receiver, reason, key=key, stopped=False))

    def _payloads(self, receiver: Receiver, taken: TakenNotice, form: Form) -> Sequence[CallPayload]:
        language = receiver.options.language or self.language
        return receiver.payloads(taken.notice, form, language=language, zone=self.zone)

    def _call(self, receiver: Receiver, taken: TakenNotice, payload: CallPayload, call_id: int) -> Reply:
        began = monotonic()
        reply = receiver.send(payload, uuid=taken.notice.uuid, now=self.clock())
        took_ms = (monotonic() - began) * 1000
        self.outbox.called(call_id, payload.kind, reply.verdict.value, reply.code, reply.text, took_ms)
        told = {
            "receiver": receiver.name,
            "kind": payload.kind,
            "code": reply.code,
            "took_ms": round(took_ms, 1),
        }
        if reply.verdict is Verdict.SENT:
            log.info("told %s (%s)", receiver.name, payload.kind, extra=told)
        else:
            log.warning(
                "receiver %s did not take a %s: %s %s (%s)",
                receiver.name,
                payload.kind,
                reply.code,
                reply.text,
                reply.verdict.value,
                extra=told,
            )
        return reply

    def _failed(self, receiver: Receiver, taken: TakenNotice, reply: Reply) -> None:
        reason = f"{reply.code} {reply.text}".strip()
        verdict = reply.verdict
        if verdict in (Verdict.MISCONFIGURED, Verdict.QUOTA):
            wait = reply.pause_s or MISCONFIGURED_S
            self.outbox.pause(self.robot, wait, reason, misconfigured=True)
            self.outbox.again(taken, 0.0, reply.code, reply.text)
            self._pass_on(
                ReceiverTrouble(receiver, reason, (taken.notice,), f"{self.robot.robot}:{reply.code}")
            )
        elif verdict is Verdict.PAUSE:
            self.outbox.pause(self.robot, reply.pause_s, reason)
            self.outbox.again(taken, 0.0, reply.code, reply.text)
        elif verdict is Verdict.RETRY:
            wait = BACK_OFF[min(taken.attempts, len(BACK_OFF)) - 1]
            self.outbox.again(taken, max(wait, reply.pause_s), reply.code, reply.text)
            if taken.attempts >= FAILS_TOLD:
                self._pass_on(ReceiverTrouble(receiver, reason, (taken.notice,), f"{self.robot.robot}:down"))
        else:
            self._refused(receiver, taken, reply, reason)

    def _refused(self, receiver: Receiver, taken: TakenNotice, reply: Reply, reason: str) -> None:
        """Broken, or refused in every form there is: it ends here when others have it, and not before."""
        trouble = ReceiverTrouble(receiver, reason, (taken.notice,), f"{self.robot.robot}:{reply.code}")
        if self._pass_on(trouble):
            log.error("receiver %s refuses notice %s for good: %s", receiver.name, taken.id, reason)
            self.outbox.refused(taken, reply.code, reply.text)
        else:
            self.outbox.again(taken, BACK_OFF[0], reply.code, reply.text)


def couriers(outbox: Outbox, receivers: Sequence[Receiver], holder: str, **options: object) -> list[Courier]:
    """One courier for each robot."""
    robots: dict[str, list[Receiver]] = {}
    for one in receivers:
        robots.setdefault(one.robot, []).append(one)
    return [Courier(outbox, same, holder, **options) for same in robots.values()]  # type: ignore[arg-type]
