"""Statements that carry the values of many rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Each:
    """``head``, a row of values for each of many, ``tail``; in a derived table the first row names its columns.

    ``around`` has an expression for each value, in which ``?`` stands for it; None for the value as it is. ``alike``
    is what all rows have after their values.
    """

    head: str
    tail: str = ""
    names: Sequence[str] = ()
    around: Sequence[str | None] = ()
    alike: str = ""

    def body(self, rows: Iterable[Sequence[str]]) -> str:
        """The rows, whose values are literals or marks."""
        if self.around:
            rows = (self._wrapped(row) for row in rows)
        if not self.names:
            return ", ".join([f"({', '.join(row)}{self.alike})" for row in rows])
        first, *more = rows
        named = ", ".join([f"{value} AS {name}" for value, name in zip(first, self.names, strict=True)])
        return " UNION ALL ".join([f"SELECT {named}", *[f"SELECT {', '.join(row)}" for row in more]])

    def _wrapped(self, row: Sequence[str]) -> list[str]:
        pairs = zip(row, self.around, strict=True)
        return [v if around is None or v == "NULL" else around.replace("?", v) for v, around in pairs]


def update_each(
    mysql: bool, columns: Sequence[str], sets: Iterable[tuple[str, str]], guard: str = ""
) -> Each:
    """One UPDATE for many rows of the task center, each with values of its own.

    ``columns`` (``id`` is one of them) become a table ``v``, from which the server goes to the rows by their key: left
    to itself it reads a small task center whole, and waits for the locks of others. ``{c}`` in ``sets`` is the task
    center.
    The statement begins with UPDATE on SQLite too, whose driver counts no rows of one that begins with WITH.
    """
    prefix, table = ("c.", "c") if mysql else ("", "task_center")
    assigned = ", ".join(f"{prefix}{column} = {value}" for column, value in sets).replace("{c}", table)
    guarded = f" AND ({guard})".replace("{c}", table) if guard else ""
    if mysql:
        tail = f") v STRAIGHT_JOIN task_center c FORCE INDEX (PRIMARY) ON c.id = v.id{guarded} SET {assigned}"
        return Each("UPDATE (", tail, tuple(columns))
    named = ", ".join(f"column{number} AS {name}" for number, name in enumerate(columns, 1))
    head = f"UPDATE task_center SET {assigned} FROM (SELECT {named} FROM (VALUES "
    return Each(head, f")) AS v WHERE task_center.id = v.id{guarded}")
