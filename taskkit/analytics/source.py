"""Where frames come from: a live database, frames in hand, or (bundle.py) a file; the same calls for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import pandas as pd

from taskkit.analytics.frames import FRAMES
from taskkit.analytics.window import Window
from taskkit.clock import as_utc
from taskkit.errors import InputError
from taskkit.hints import suggest

if TYPE_CHECKING:
    from taskkit.center import TaskCenter
    from taskkit.settings import Settings


def settings_facts(settings: Settings) -> dict[str, str]:
    """What of the settings a diagnosis must know: how often workers beat, for that is what its patience is counted in."""
    return {"worker_heartbeat_s": str(settings.worker.heartbeat_s)}


class Source(Protocol):
    """What an analysis needs: a window, the instant that counts as now, and frames by name."""

    @property
    def window(self) -> Window: ...

    @property
    def now(self) -> datetime: ...

    def frame(self, name: str) -> pd.DataFrame:
        """The frame of this name; raises InputError when there is none."""
        ...


class LiveSource:
    """Frames of a task center. Each is read once; ``now`` is the database's clock when this was made.

    ``facts`` are further rows of the frame of that name: what no table holds. Give :func:`settings_facts`, so that all
    who look judge alike.
    """

    def __init__(
        self,
        center: TaskCenter,
        window: Window | None = None,
        *,
        now: datetime | None = None,
        facts: Mapping[str, str] | None = None,
    ) -> None:
        self.center = center
        self._facts = [{"name": name, "value": value} for name, value in (facts or {}).items()]
        self.now = as_utc(now or center.now())
        self.window = window or Window.last(3600, self.now)
        self._read: dict[str, pd.DataFrame] = {}

    def frame(self, name: str) -> pd.DataFrame:
        """The frame of this name."""
        declared(name)
        if name not in self._read:
            from taskkit.center.frames import FrameSpan

            span = FrameSpan(self.window.since, self.window.until, self.now, self.window.bucket_s)
            more = self._facts if name == "facts" else []
            self._read[name] = FRAMES[name].of([*self.center.frames.rows(name, span), *more])
        return self._read[name]


class GivenSource:
    """Frames in hand; those not given are empty."""

    def __init__(
        self, window: Window, frames: Mapping[str, pd.DataFrame], now: datetime | None = None
    ) -> None:
        self.window, self.now = window, as_utc(now or window.until)
        self._frames = {declared(name): frame for name, frame in frames.items()}

    def frame(self, name: str) -> pd.DataFrame:
        """The frame of this name."""
        return self._frames[name] if declared(name) in self._frames else FRAMES[name].empty()


class QueuesOnly:
    """A source in which there are only these queues; frames that know no queue are whole."""

    def __init__(self, source: Source, queues: Sequence[str]) -> None:
        self._source, self._queues = source, list(queues)
        self.window, self.now = source.window, source.now

    def frame(self, name: str) -> pd.DataFrame:
        """The rows of these queues."""
        found = self._source.frame(name)
        return found[found["queue"].isin(self._queues)] if "queue" in found.columns else found


def declared(name: str) -> str:
    """The name, if there is such a frame."""
    if name not in FRAMES:
        raise InputError("frame", f"there is no frame {name!r}{suggest(name, FRAMES)}")
    return name
