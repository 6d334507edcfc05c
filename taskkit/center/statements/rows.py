"""One UPDATE for many rows of the task center, each with values of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def update_each(
    mysql: bool, rows: int, columns: Sequence[str], sets: Iterable[tuple[str, str]], guard: str = ""
) -> str:
    """``columns`` (``id`` is one of them) become a table ``v`` of ``rows`` rows; ``{c}`` is the task center."""
    prefix, table = ("c.", "c") if mysql else ("", "task_center")
    assigned = ", ".join(f"{prefix}{column} = {value}" for column, value in sets)
    guarded = f" AND ({guard})" if guard else ""
    if mysql:
        first = "SELECT " + ", ".join(f"? AS {name}" for name in columns)
        more = " UNION ALL SELECT " + ", ".join("?" * len(columns))
        joined = f"task_center c JOIN ({first}{more * (rows - 1)}) v ON c.id = v.id{guarded}"
        return f"UPDATE {joined} SET {assigned}".replace("{c}", table)  # noqa: S608 - marks only
    one = "(" + ", ".join("?" * len(columns)) + ")"
    values = f"WITH v({', '.join(columns)}) AS (VALUES {', '.join([one] * rows)})"
    where = f"WHERE task_center.id = v.id{guarded}"
    return f"{values} UPDATE task_center SET {assigned} FROM v {where}".replace("{c}", table)  # noqa: S608
