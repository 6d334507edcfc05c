"""Series over the time buckets of a window: nothing happened is 0, not known is a gap."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pandas as pd

from taskkit.analytics.measures import percentile
from taskkit.analytics.window import Window

Points = tuple[list[datetime], list[float]]


def buckets(window: Window) -> list[datetime]:
    """Where the buckets of a window begin; the first one may begin before it."""
    width = window.bucket_s
    first = math.floor(window.since.timestamp() / width)
    last = math.ceil(window.until.timestamp() / width)
    return [datetime.fromtimestamp(n * width, UTC) for n in range(first, last)]


def covered_s(window: Window, bucket_at: datetime) -> float:
    """How many seconds of a bucket lie in the window."""
    start = max(window.since.timestamp(), bucket_at.timestamp())
    return min(window.until.timestamp(), bucket_at.timestamp() + window.bucket_s) - start


def counts(frame: pd.DataFrame, column: str, window: Window) -> list[float]:
    """The sum of a column in each bucket."""
    sums = frame.groupby("bucket_at")[column].sum()
    return [float(sums.get(pd.Timestamp(at), 0.0)) for at in buckets(window)]


def rates(frame: pd.DataFrame, column: str, window: Window) -> list[float]:
    """The same by second of the window."""
    starts = buckets(window)
    return [n / covered_s(window, at) for at, n in zip(starts, counts(frame, column, window), strict=True)]


def percentiles(bins: pd.DataFrame, q: float) -> Points:
    """The ``q``-th percentile of each bucket that holds anything, in milliseconds."""
    found = [(at.to_pydatetime(), percentile(part, q)) for at, part in bins.groupby("bucket_at")]
    known = [(at, value) for at, value in found if value is not None]
    return [at for at, _ in known], [value for _, value in known]
