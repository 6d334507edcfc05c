"""Reading a row of the task center as the attempt that somebody claimed."""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import Row

from taskkit.center.dialect import Dialect
from taskkit.model import Claimed

FIELDS = frozenset(Claimed.__struct_fields__)
INSTANTS = ("dispatched_at", "claimed_at", "occurrence_at")


def claimed(dialect: Dialect, row: Row[Any]) -> Claimed:
    """The attempt of a row that has all columns of :class:`Claimed`; what it has besides is left out."""
    values = {name: value for name, value in row._mapping.items() if name in FIELDS}
    values |= {name: dialect.instant(values[name]) for name in INSTANTS}
    return Claimed(**{**values, "suspect": bool(row.suspect)})
