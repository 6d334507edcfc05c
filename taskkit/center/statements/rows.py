"""One UPDATE for many rows of the task center, each with values of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def update_each(
    mysql: bool, rows: int, columns: Sequence[str], sets: Iterable[tuple[str, str]], guard: str = ""
) -> str:
    """``columns`` (``id`` is one of them) become a table ``v`` of ``rows`` rows; ``{c}`` is the task center.

    The statement begins with UPDATE on SQLite too, whose driver counts no rows of one that begins with WITH.
    """
    prefix, table = ("c.", "c") if mysql else ("", "task_center")
    assigned = ", ".join(f"{prefix}{column} = {value}" for column, value in sets)
    guarded = f" AND ({guard})" if guard else ""
    if mysql:
        first = "SELECT " + ", ".join(f"? AS {name}" for name in columns)
        more = " UNION ALL SELECT " + ", ".join("?" * len(columns))
        joined = f"task_center c JOIN ({first}{more * (rows - 1)}) v ON c.id = v.id{guarded}"
        return f"UPDATE {joined} SET {assigned}".replace("{c}", table)
    one = "(" + ", ".join("?" * len(columns)) + ")"
    named = ", ".join(f"column{number} AS {name}" for number, name in enumerate(columns, 1))
    values = f"(SELECT {named} FROM (VALUES {', '.join([one] * rows)})) AS v"
    where = f"WHERE task_center.id = v.id{guarded}"
    return f"UPDATE task_center SET {assigned} FROM {values} {where}".replace("{c}", table)
