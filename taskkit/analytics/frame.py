"""What a frame is: a name, and columns with dtype, unit and meaning; rows become a DataFrame that keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from taskkit.errors import InputError

INSTANT = "datetime64[us, UTC]"
COUNT = "Int64"
PLAIN = {"at": INSTANT, "n": "int64", "N": COUNT, "f": "float64", "w": "object"}
"""What the letters of :func:`columns` stand for."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``unit`` is empty for names, counts of what the name says, and instants (UTC)."""

    name: str
    dtype: str
    meaning: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """A named question; ``name`` is that of its statement in the task center, and of its file in a bundle."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """The names of its columns, in order."""
        return [column.name for column in self.columns]

    def empty(self) -> pd.DataFrame:
        """No rows, with all columns and dtypes."""
        return self.of([])

    def of(self, rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
        """The rows as a DataFrame; what a row does not tell is missing, never 0."""
        given = list(rows)
        series = {c.name: _series(c.dtype, [row.get(c.name) for row in given]) for c in self.columns}
        return pd.DataFrame(series, columns=self.names)

    def restored(self, read: pd.DataFrame) -> pd.DataFrame:
        """What a file gave, with columns and dtypes as declared; raises InputError when a column is not there."""
        absent = [column for column in self.names if column not in read.columns]
        if absent:
            raise InputError(
                "bundle", f"the frame {self.name} lacks {', '.join(absent)}; another taskkit wrote it"
            )
        return pd.DataFrame({c.name: _cast(c.dtype, read[c.name]) for c in self.columns}, columns=self.names)


def _cast(dtype: str, series: pd.Series[Any]) -> pd.Series[Any]:
    if dtype != "object":
        return series.astype(dtype)
    return pd.Series([None if _missing(value) else value for value in series], dtype="object")


def _series(dtype: str, values: list[Any]) -> pd.Series[Any]:
    if dtype == INSTANT:
        return pd.Series(pd.to_datetime([_moment(v) for v in values], utc=True)).astype(INSTANT)
    if dtype == "float64":
        return pd.Series([float("nan") if _missing(v) else float(v) for v in values], dtype="float64")
    if dtype == "int64":
        return pd.Series([0 if _missing(v) else int(v) for v in values], dtype="int64")
    if dtype == COUNT:
        return pd.Series([pd.NA if _missing(v) else int(v) for v in values], dtype=COUNT)
    return pd.Series([None if _missing(v) else str(v) for v in values], dtype="object")


def _moment(value: Any) -> Any:
    """An instant; a number is seconds since 1970, as buckets come from SQL."""
    if _missing(value):
        return pd.NaT
    if isinstance(value, int | float) or value.__class__.__name__ == "Decimal":
        return pd.Timestamp(int(value), unit="s", tz="UTC")
    return pd.Timestamp(value)


def _missing(value: Any) -> bool:
    return value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and value != value)  # noqa: PLR0124 - NaN alone differs from itself


def frame(name: str, meaning: str, text: str) -> Frame:
    """A declaration from a table of lines ``column | letter | unit | meaning``."""
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.strip()]
    return Frame(name, meaning, tuple(Column(n, PLAIN[kind], told, unit) for n, kind, unit, told in rows))
