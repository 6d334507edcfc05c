"""How records show themselves in a notebook: their fields as a small table, without those that say nothing."""

from __future__ import annotations

import dataclasses
import html
from datetime import datetime
from enum import Enum

from taskkit.texts import cut, harmless

MOST_BYTES = 2000


class Shows:
    """Gives a dataclass its look in Jupyter."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        values = [(field.name, getattr(self, field.name)) for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        rows = "".join(_row(name, value) for name, value in values if value not in (None, ""))
        return f"<table><caption>{type(self).__name__}</caption>{rows}</table>"


def _row(name: str, value: object) -> str:
    cells = "".join(
        f'<td style="text-align:left">{html.escape(text)}</td>'
        for text in (name.replace("_", " "), _told(value))
    )
    return f"<tr>{cells}</tr>"


def _told(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat(" ", "milliseconds")
    if isinstance(value, Enum):
        return value.name.lower().replace("_", " ")
    return cut(harmless(str(value), keep="\n\t"), MOST_BYTES)
