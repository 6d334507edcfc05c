"""Transactions that are open on a server, and what InnoDB keeps because of them; for doctor, which judges it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from taskkit.center.statements import sql_facts as sql

Ask = Callable[[str], Sequence[Any] | None]
"""The rows of a statement; None where the account may not ask it, or the server does not know it."""
LETTERS = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"", re.DOTALL)
STATEMENT_LETTERS = 120


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The one that has been open for longest; ``statement`` is what it does, or did last, as far as the server tells."""

    thread: int
    age_s: float
    user: str = ""
    host: str = ""
    isolation: str = ""
    statement: str = ""
    idle: bool = False
    rows_locked: int = 0
    rows_changed: int = 0

    @property
    def keeps_old_rows(self) -> bool:
        """Whether InnoDB must keep what others have changed since, in case it reads it."""
        return not (self.idle and self.isolation in {"READ COMMITTED", "READ UNCOMMITTED"})


@dataclass(frozen=True, slots=True)
class TransactionFacts:
    """``told`` is False where PROCESS is lacking; ``history`` is how many changes wait to be purged."""

    told: bool = False
    longest: OpenTransaction | None = None
    history: int | None = None


def read_transactions(ask: Ask) -> TransactionFacts:
    """Ask the server; what it does not tell is absent."""
    rows = ask(sql.TRANSACTIONS)
    return TransactionFacts(rows is not None, _longest(rows[0], ask) if rows else None, _history(ask))


def _longest(row: Any, ask: Ask) -> OpenTransaction:
    thread = int(row.thread)
    listed = next((one for one in ask(sql.PROCESSES) or () if int(one[0]) == thread), None)
    idle = not row.statement
    return OpenTransaction(
        thread,
        float(row.age_s or 0),
        user=str(listed[1]) if listed else "",
        host=str(listed[2]).rpartition(":")[0] or str(listed[2]) if listed else "",
        isolation=str(row.isolation or "").upper().replace("-", " "),
        statement=_shown(str(row.statement or _last_statement(thread, ask))),
        idle=idle,
        rows_locked=int(row.rows_locked or 0),
        rows_changed=int(row.rows_changed or 0),
    )


def _last_statement(thread: int, ask: Ask) -> str:
    """What an idle one did last, where the server keeps that (performance_schema)."""
    rows = ask(sql.LAST_STATEMENT.format(thread=thread)) or ()
    return next((str(row[0]) for row in rows if row[0]), "")


def _shown(statement: str) -> str:
    """A statement without the texts in it, which are somebody's data."""
    text = " ".join(LETTERS.sub("'…'", statement).split())
    return text if len(text) <= STATEMENT_LETTERS else text[: STATEMENT_LETTERS - 1] + "…"


def _history(ask: Ask) -> int | None:
    """MariaDB tells it to everybody, MySQL to those who have PROCESS."""
    rows = ask(sql.HISTORY) or ask(sql.HISTORY_STATUS)
    return int(rows[0][-1]) if rows else None
