"""What every receiver is: notices in, calls out, and a verdict on each answer; the engine alone decides when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import StrEnum
from typing import Protocol

from msgspec import Struct, structs

from taskkit.alerts import SEVERITIES, Event, Item, Notice
from taskkit.receivers.mentions import NOBODY, Mentions

ROBOT_BUDGET = 18
"""Calls in any 60 seconds: chat robots take 20 a minute."""
WORTH_SHRINKING = 1024
"""Bytes of a message below which its length is not what the other side minds."""


class ReplyVerdict(StrEnum):
    """What follows an answer."""

    SENT = "sent"
    RETRY = "retry"
    """Later, with back-off: no answer, trouble of the other side, a code that nobody knows."""
    PAUSE = "pause"
    """Nothing to this robot for ``pause_s``."""
    SHRINK = "shrink"
    """Once more and shorter."""
    PLAIN = "plain"
    """Once more as plain text."""
    NO_MENTION_ALL = "no_mention_all"
    """Once more without mentioning everybody."""
    NO_LINKS = "no_links"
    """Once more without links."""
    RESIGN = "resign"
    """Once more with a fresh timestamp."""
    MISCONFIGURED = "misconfigured"
    """Stop this receiver and tell of it through another."""
    QUOTA = "quota"
    """The month's calls are used up."""
    BROKEN = "broken"
    """The message is wrong in itself: never again; told in the log."""


Verdict = ReplyVerdict
"""The core has verdicts too, on tasks."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, judged. ``code`` is its errcode, ``http 502`` or ``timeout``; ``text`` is short and holds no secret."""

    verdict: ReplyVerdict
    code: str
    text: str = ""
    pause_s: float = 0.0


class Form(Struct, frozen=True, kw_only=True):
    """How a message is made; an answer may ask for another one."""

    plain: bool = False
    mention_all: bool = True
    links: bool = True
    limit: int | None = None
    """Bytes of the text; None is what the receiver takes."""


USUAL = Form()


def next_form(form: Form, verdict: ReplyVerdict, size: int) -> Form | None:
    """The form in which a refused message of ``size`` bytes may be tried once more at once; None when there is none.

    Shrinking that did not help is followed by plain text. A fresh timestamp needs no other form.
    """
    if verdict is Verdict.SHRINK and form.limit is None and size >= WORTH_SHRINKING:
        return structs.replace(form, limit=size // 2)
    if verdict in (Verdict.SHRINK, Verdict.PLAIN) and not form.plain:
        return structs.replace(form, plain=True)
    if verdict is Verdict.NO_MENTION_ALL and form.mention_all:
        return structs.replace(form, mention_all=False)
    if verdict is Verdict.NO_LINKS and form.links:
        return structs.replace(form, links=False)
    return None


class CallPayload(Struct, frozen=True, kw_only=True):
    """What one call carries, without address and signature: it may be stored and shown."""

    body: bytes
    kind: str
    """``markdown``, ``text``, ``file``, ``mention``, ``json`` or ``mail``."""
    file: str = ""
    """A path on this machine: uploaded first where the kind is ``file``; of a mail the one that is attached."""


Payload = CallPayload
"""The command line has payloads too, of tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What all kinds have in common; nothing in it is secret."""

    name: str
    language: str | None = None
    """None: that of the watchdog."""
    severity: str = "note"
    """The least that is told here."""
    resolved: bool = True
    """Whether the end of an alert is told."""
    fallback: bool = False
    """Whether it takes what another receiver cannot deliver."""
    timeout: float = 5.0
    """Seconds for the whole of one call."""
    mentions: Mentions = NOBODY

    def takes(self, item: Item) -> bool:
        """Whether an alert's notice is for this receiver."""
        if item.event is Event.RESOLVED and not self.resolved:
            return False
        return SEVERITIES.index(item.severity) >= SEVERITIES.index(self.severity)


class Receiver(Protocol):
    """One place where notices go."""

    @property
    def options(self) -> Options:
        """What was configured, without secrets."""

    @property
    def name(self) -> str:
        """As it is called in receivers.toml."""

    @property
    def kind(self) -> str:
        """``wecom``, ``dingtalk``, ``feishu``, ``webhook`` or ``mail``."""

    @property
    def robot(self) -> str:
        """The fingerprint of the address: receivers with the same one share its budget."""

    @property
    def budget(self) -> int | None:
        """Calls in any 60 seconds; None: as many as there are."""

    @property
    def month(self) -> int | None:
        """Calls in a calendar month; None: as many as there are."""

    def payloads(
        self, notice: Notice, form: Form = USUAL, *, language: str, zone: tzinfo
    ) -> Sequence[CallPayload]:
        """The calls that tell a notice, in their order: the message, then what its mentions and files need."""

    def send(self, payload: CallPayload, *, uuid: str, now: datetime) -> Reply:
        """Make one call. Ends within the receiver's timeout; never raises for what the other side does."""


def hearers(receivers: Sequence[Receiver], item: Item) -> list[Receiver]:
    """Those that take an alert's notice, one for each robot: what one group reads is told there once.

    Of several with one robot it is the most particular, that with the highest ``severity``, else the first.
    """
    found: dict[str, Receiver] = {}
    for one in receivers:
        known = found.get(one.robot)
        if one.options.takes(item) and (known is None or _rank(one) > _rank(known)):
            found[one.robot] = one
    return [one for one in receivers if found.get(one.robot) is one]


def _rank(receiver: Receiver) -> int:
    return SEVERITIES.index(receiver.options.severity)
