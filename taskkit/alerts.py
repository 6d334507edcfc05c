"""The nouns of alerting: what a check read, an alert and its life, a notice on its way to people. Frozen records."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from taskkit.showing import Shows

SEVERITIES = ("note", "warning", "critical")
LANGUAGES = ("en", "zh")


class AlertState(StrEnum):
    """pending → firing → resolved; a pending alert that clears was none."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


class Event(StrEnum):
    """What a notice tells of an alert."""

    FIRING = "firing"
    REPEAT = "repeat"
    RESOLVED = "resolved"
    EVIDENCE = "evidence"
    """The executed notebook of an alert that was told before."""


class ReadLevel(StrEnum):
    """What a check found of an object: over its limit, under it, between the two marks, or nothing to judge by."""

    BREACH = "breach"
    BETWEEN = "between"
    CLEAR = "clear"
    NO_DATA = "no_data"


class Said(Struct, frozen=True, kw_only=True):
    """What an alert says in one language. Plain text: nothing in it is escaped for any receiver yet."""

    title: str
    text: str = ""
    figures: tuple[tuple[str, str], ...] = ()
    """Name and value with its unit: those that show it, three where there are three."""
    forecast: tuple[tuple[str, str], ...] = ()
    actions: tuple[tuple[str, str], ...] = ()
    """What to do and the exact command, the smallest step first."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one check found of one object (a queue, a worker, a code; "" is the installation as a whole)."""

    object: str
    level: ReadLevel
    cause: str = ""
    value: float | None = None
    unit: str = ""
    severity: str | None = None
    """In place of the rule's own."""
    said: dict[str, Said] = field(default_factory=dict)
    """By language; where nothing is wrong there may be none, or what the end of an alert means."""
    since: datetime | None = None
    """Since when it has been so, where the check knows better than the watchdog that just came to look."""


@dataclass(frozen=True, slots=True)
class Alert(Shows):
    """One row of ``task_alert``: something that is or was wrong, of one rule and object, from breach to end."""

    id: int
    rule: str
    object: str
    state: AlertState
    severity: str
    cause: str
    value: float | None
    unit: str
    said: dict[str, Said]
    since: datetime
    """The first breach."""
    breach_at: datetime
    """The latest look that found it over its lower mark."""
    firing_at: datetime | None = None
    told_at: datetime | None = None
    """When it was last put into the outbox as firing or repeated; None: nobody was told."""
    resolved_at: datetime | None = None
    flaps: int = 0
    """How often it went under its limit and came back while it fired."""
    under_at: datetime | None = None
    """Since when it has been under its limit while it fires; None: it is over it."""
    inhibited_by: str | None = None
    """The rule whose alert explains this one, and which nobody is told of therefore."""
    silence_id: int | None = None
    acked_at: datetime | None = None
    acked_by: str | None = None


class Item(Struct, frozen=True, kw_only=True):
    """One alert in a notice, as it is told: complete, so that a message can be made while SQL is away."""

    alert_id: int
    event: Event
    rule: str
    object: str
    severity: str
    since: datetime
    at: datetime
    """When the event was."""
    said: dict[str, Said]
    cause: str = ""
    runbook: str = ""
    """A path in the repository or a URL."""
    link: str = ""
    """To the console or to the executed notebook; "" where there is none."""
    file: str = ""
    """The executed notebook on the disk of the watchdog; "" where there is none."""
    host: str = ""
    """On which host the file lies."""
    command: str = ""
    """Makes the file anew."""
    flaps: int = 0


class Notice(Struct, frozen=True, kw_only=True):
    """What goes to one receiver in one message; with more than one item it is a digest."""

    uuid: str
    """The idempotency key (DingTalk's msgUuid): the same for every attempt."""
    receiver: str
    items: tuple[Item, ...] = ()
    subject: str = ""
    """For what is no alert: a test message, a receiver that is misconfigured, the daily line. Then there are no items."""
    text: str = ""
    mentions: bool = True
    """Of what is no alert: whether people are called by it; the daily line calls nobody."""

    @property
    def severity(self) -> str:
        """The worst of what still fires, or of all."""
        rank = SEVERITIES.index
        live = [item.severity for item in self.items if item.event is not Event.RESOLVED]
        return max(live or [item.severity for item in self.items] or ["note"], key=rank)


@dataclass(frozen=True, slots=True)
class Posting:
    """An item for a receiver's outbox: it waits for others of its group before it goes."""

    receiver: str
    item: Item
    group: str = ""
    wait_s: float = 0.0
    """The first of a group waits so long for others."""


@dataclass(frozen=True, slots=True)
class AlertChange:
    """A step of an alert's life with what is told of it, written together or not at all.

    ``before`` None: a new alert; ``after`` None: a pending alert that was none. Items of a new alert have the id 0.
    """

    before: Alert | None
    after: Alert | None
    postings: tuple[Posting, ...] = ()


@dataclass(frozen=True, slots=True)
class Silence(Shows):
    """A promise not to tell: of a rule and of objects (``*`` as in file names; None is all), until an instant."""

    id: int
    rule: str | None
    object: str | None
    starts_at: datetime
    ends_at: datetime
    author: str
    reason: str
