"""What an account may do, read from SHOW GRANTS; the lines themselves hold password hashes and are never kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

ALL = "ALL PRIVILEGES"
_GRANT = re.compile(
    r"GRANT (?P<what>.+?) ON (?:(?:TABLE|FUNCTION|PROCEDURE) )?(?P<where>\S+|`.+?`\.\S+) TO ", re.IGNORECASE
)
_ROLE = re.compile(r"GRANT [`'\w].* TO ", re.IGNORECASE)
_COLUMNS = re.compile(r"\w[\w ]*\([^)]*\),? ?")


@dataclass(frozen=True, slots=True)
class Grants:
    """Privileges on the server, on the database, and by table; ``complete`` is False where a role may add some."""

    server: frozenset[str] = frozenset()
    database: frozenset[str] = frozenset()
    tables: Mapping[str, frozenset[str]] = field(default_factory=dict)
    complete: bool = True

    def has(self, privilege: str, table: str | None = None) -> bool:
        """Whether the account has it: on one table, or with None on the server."""
        held = (
            self.server
            if table is None
            else self.server | self.database | self.tables.get(table, frozenset())
        )
        return privilege in held or ALL in held


def read_grants(lines: Iterable[str], database: str) -> Grants:
    """The privileges that matter for this database."""
    server: set[str] = set()
    whole: set[str] = set()
    tables: dict[str, frozenset[str]] = {}
    complete = True
    for line in lines:
        found = _GRANT.match(line)
        if found is None:
            complete = complete and not (_ROLE.match(line) or line.upper().startswith("REVOKE"))
            continue
        held = _privileges(found["what"])
        schema, _, table = _place(found["where"])
        if (schema, table) == ("*", "*"):
            server |= held
        elif table == "*" and _covers(schema, database):
            whole |= held
        elif schema == database:
            tables[table] = tables.get(table, frozenset()) | held
    return Grants(frozenset(server), frozenset(whole), tables, complete)


def _privileges(text: str) -> frozenset[str]:
    """Those on whole tables; one on some columns only is none."""
    whole = _COLUMNS.sub("", text)
    return frozenset(word.strip().upper() for word in whole.split(",") if word.strip())


def _place(text: str) -> tuple[str, str, str]:
    schema, dot, table = re.sub(
        r"`((?:[^`]|``)*)`", lambda m: m[1].replace("``", "`").replace(".", "\0"), text
    ).partition(".")
    return schema.replace("\0", "."), dot, table.replace("\0", ".")


def _covers(pattern: str, database: str) -> bool:
    """A database's name in a grant is a pattern of LIKE."""
    parts = re.findall(r"\\.|.", pattern)
    words = {"%": ".*", "_": "."}
    expression = "".join(words.get(part) or re.escape(part.removeprefix("\\") or part) for part in parts)
    return re.fullmatch(expression, database, re.DOTALL) is not None
