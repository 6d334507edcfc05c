"""Many rows at once, in both directions: what a batch reads and what it writes costs microseconds a row, not tens.

PyMySQL takes each field of each row apart in Python. So a row of a batch leaves the server as one JSON array, which
msgspec reads; and the values of a batch go into its statement as literals, each distinct text quoted once by the
driver. SQLite's driver is written in C: there rows come and go as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from sqlalchemy.engine import Connection, CursorResult

from taskkit.center.database import Database
from taskkit.center.dialect import Dialect
from taskkit.center.statements.rows import Each

R = TypeVar("R", bound=msgspec.Struct)
Statement = tuple[str, Mapping[str, Any]]
"""A statement of a batch and its parameters."""
COLUMNS = "{columns}"
WITHOUT_PARAMETERS = {"no_parameters": True}


def run(
    connection: Connection, database: Database, template: str, parameters: Mapping[str, Any]
) -> CursorResult[Any]:
    """Run a statement of a batch; ``:ids`` and other lists of whole numbers stand in it as they are.

    SQLAlchemy would make a parameter of each number of a list, which costs more than the rest of the statement.
    """
    return connection.exec_driver_sql(*_filled(database, template, parameters))


def _filled(database: Database, template: str, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A statement with the lists in it, and the parameters that are left for the driver."""
    lists = {name: value for name, value in parameters.items() if isinstance(value, list)}
    text = database.batch_text(template)
    for name, numbers in lists.items():
        text = text.replace(f"{{{name}}}", f"({', '.join(map(str, numbers)) or 'NULL'})")
    return text, {name: value for name, value in parameters.items() if name not in lists}


def commit_with_next(connection: Connection, database: Database, ahead: Sequence[Statement] = ()) -> None:
    """The next statement takes the COMMIT of its transaction along: nothing may follow it there.

    ``ahead``: statements, as for :func:`run`, that go before it in the same packet. None of all these may wait for a
    lock: it would be committed even if its client died meanwhile. (NOWAIT sees to that for rows; while a table's definition
    changes, MySQL has them wait all the same.)
    """
    if not database.sqlite:
        wire = _wire(connection)
        mogrify = wire.cursor().mogrify
        wire.commit_with_next([mogrify(*_filled(database, *one)) for one in ahead])


def _wire(connection: Connection) -> Any:
    return connection.connection.driver_connection


def read_rows(
    connection: Connection, database: Database, template: str, kind: type[R], parameters: dict[str, Any]
) -> list[R]:
    """The rows of a SELECT whose list of columns is ``{columns}``, as records of ``kind``, a Struct array-like in JSON.

    Instants come as aware UTC instants. The names of the record's fields are those of the columns; ``now`` is the
    database's clock.
    """
    if database.sqlite:
        found = run(connection, database, template.replace(COLUMNS, _plain(kind)), parameters)
        return [_record(database, kind, row) for row in found]
    found = run(connection, database, template.replace(COLUMNS, _packed(kind)), parameters)
    rows = [row[0] for row in found]
    decode = _decoder(kind).decode
    try:
        return [decode(row) for row in rows]
    except msgspec.ValidationError:  # a zero date, or what somebody else wrote by hand
        loose = msgspec.json.decode
        return [_record(database, kind, loose(row)) for row in rows]


def write_rows(
    connection: Connection, database: Database, each: Each, rows: Sequence[Sequence[object]]
) -> CursorResult[Any]:
    """Run a statement that carries the values of many rows: whole numbers, floats, texts and None."""
    if database.sqlite:
        return write_marked(connection, database.dialect, each, rows)
    literals = _Literals(_wire(connection).escape)
    text = _whole(database.dialect, each, ([literals[value] for value in row] for row in rows))
    return connection.exec_driver_sql(text, execution_options=WITHOUT_PARAMETERS)


def write_marked(
    connection: Connection, dialect: Dialect, each: Each, rows: Sequence[Sequence[object]]
) -> CursorResult[Any]:
    """The same with a mark for each value, through whatever driver."""
    text = _whole(dialect, each, ((dialect.mark,) * len(rows[0]) for _ in rows))
    return connection.exec_driver_sql(text, tuple(value for row in rows for value in row))


def _whole(dialect: Dialect, each: Each, rows: Iterable[Sequence[str]]) -> str:
    return dialect.render(each.head) + each.body(rows) + dialect.render(each.tail)


class _Literals(dict[object, str]):
    """Values as they stand in a statement; each is quoted once. One and 1.0 are the same number to SQL as well."""

    def __init__(self, escape: Callable[[object], str]) -> None:
        super().__init__({None: "NULL"})
        self._escape = escape

    def __missing__(self, value: object) -> str:
        text = self[value] = str(value) if type(value) is int else self._escape(value)
        return text


@cache
def _decoder(kind: type[R]) -> msgspec.json.Decoder[R]:
    return msgspec.json.Decoder(kind, strict=False)


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, type], ...]:
    """Each field's column and what it holds, without the None that it may be."""
    hints = get_type_hints(kind)
    found = []
    for name in kind.__struct_fields__:
        hint = hints[name]
        plain = (
            [part for part in get_args(hint) if part is not NoneType]
            if isinstance(hint, UnionType)
            else [hint]
        )
        found.append((name, plain[0]))
    return tuple(found)


@cache
def _packed(kind: type[msgspec.Struct]) -> str:
    """One JSON array of the columns: texts in the connection's letters, instants with their zone."""
    parts = []
    for name, holds in _fields(kind):
        column = "{now}" if name == "now" else name
        if holds is str:
            column = f"CONVERT(CONCAT({column}, '') USING utf8mb4)"  # CONCAT: JSON becomes text
        elif holds is datetime:
            column = f"CONCAT({column}, 'Z')"
        parts.append(column)
    return f"JSON_ARRAY({', '.join(parts)})"


@cache
def _plain(kind: type[msgspec.Struct]) -> str:
    return ", ".join("{now} AS now" if name == "now" else name for name in kind.__struct_fields__)


def _record(database: Database, kind: type[R], row: Sequence[Any]) -> R:
    values: list[Any] = []
    for value, (_, holds) in zip(row, _fields(kind), strict=True):
        if holds is datetime:
            values.append(database.dialect.instant(value))
        else:
            values.append(bool(value) if holds is bool else value)
    return kind(*values)
