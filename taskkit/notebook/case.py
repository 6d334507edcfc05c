"""A case: the window that a notebook looks at, from a bundle or from the live installation; it shows what it is."""

from __future__ import annotations

import html
from datetime import datetime
from typing import TYPE_CHECKING

import pandas as pd

from taskkit.analytics import Bundle, LiveSource, Source, Window, settings_facts
from taskkit.clock import parse_instant, parse_span, seconds
from taskkit.errors import InputError, NotFound

if TYPE_CHECKING:
    from taskkit.kit import Taskkit
    from taskkit.settings import Settings

Moment = str | datetime | None
"""An aware instant, or its text, or (since) an age such as 1h; nothing means the default."""
LAST_HOUR = "1h"


class Case:
    """A source of frames that shows its window and where it is from."""

    def __init__(self, source: Source, window: Window, place: str) -> None:
        self.source, self.window, self.place = source, window, place

    @property
    def now(self) -> datetime:
        """The instant that counts as now."""
        return self.source.now

    def frame(self, name: str) -> pd.DataFrame:
        """The frame of this name."""
        return self.source.frame(name)

    def __str__(self) -> str:
        since, until, now = (
            pd.Timestamp(at).tz_convert(self.window.zone).isoformat(" ", "seconds")
            for at in (self.window.since, self.window.until, self.now)
        )
        return f"{since} … {until} ({self.window.zone}), as it was at {now}; from {self.place}"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p>"


def open_case(
    bundle: str = "",
    since: Moment = LAST_HOUR,
    until: Moment = None,
    zone: str = "",
    *,
    kit: Taskkit | None = None,
) -> Case:
    """A bundle when one is named, which brings its window; else that window of the live installation."""
    if bundle:
        opened = Bundle(bundle)
        window = Window(opened.window.since, opened.window.until, zone or opened.window.zone)
        return Case(opened, window, f"the bundle {opened.path.name}")
    if kit is None:
        from taskkit import Taskkit

        kit = Taskkit()
        must_exist(kit.settings)
    now = kit.center.now()
    window = window_of(since, until, now, zone or kit.settings.timezone)
    source = LiveSource(kit.center, window, now=now, facts=settings_facts(kit.settings))
    return Case(source, window, "the live installation")


def must_exist(settings: Settings) -> None:
    """Raise NotFound where nothing was ever started: looking makes no installation."""
    if settings.embedded_database and not (settings.home / "taskkit.db").exists():
        raise NotFound(f"nothing is installed in {settings.home}: name a bundle, or set TASKKIT_DATABASE_URL")


def window_of(since: Moment, until: Moment, now: datetime, zone: str) -> Window:
    """The window that these words mean; raises InputError that names the word."""
    end = now if until in (None, "") else _instant("until", until)
    start = since or LAST_HOUR
    if isinstance(start, str):
        try:
            return Window(end - seconds(parse_span(start)), end, zone)
        except ValueError:
            start = _instant("since", start)
    return Window(start, end, zone)


def _instant(name: str, value: Moment) -> datetime:
    if isinstance(value, datetime):
        return value
    try:
        return parse_instant(str(value))
    except (ValueError, OverflowError) as error:
        raise InputError(
            name, f"{value!r} is neither an age (90s, 15m, 2h, 7d) nor an instant (2026-03-01T09:00:00+08:00)"
        ) from error
