"""Connections to MySQL and MariaDB; loaded with the first one, since PyMySQL is no use to SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymysql.connections
from pymysql.constants import COMMAND, ER

COMMIT = b"COMMIT"


class MySQLWire(pymysql.connections.Connection):  # type: ignore[misc]
    """A connection that saves trips, and shares with others what TLS needs, unless the URL says something of TLS.

    PyMySQL offers TLS to every server and reads all trusted certificates anew for each connection, which takes 0.06 s
    of CPU: more than all else, and paid by every process at once after an outage.

    The last statement of a transaction may take the COMMIT along in its packet (CLIENT_MULTI_STATEMENTS), and others
    before it. The server carries them out one after the other, and nothing after a statement that failed.
    """

    _preferred: Any = None
    _commits = False
    _ahead: Sequence[str] = ()
    _one_by_one = False
    committed = False
    """Whether the last statement took its COMMIT along, and the server has carried it out."""
    in_doubt = False
    """Whether a statement has set out with its COMMIT, and no answer to that has come."""

    def commit_with_next(self, ahead: Sequence[str] = ()) -> None:
        """The next statement is the last of its transaction, and takes the COMMIT along; those ``ahead`` go before it.

        None of them may wait for a lock: it would be committed after the death of its client.
        """
        self._commits, self._ahead = True, ahead

    def commit(self) -> None:
        """As PyMySQL has it; no statement follows that could take a COMMIT along."""
        self._commits = False
        super().commit()

    def rollback(self) -> None:
        """The same."""
        self._commits = self.in_doubt = False
        super().rollback()

    def query(self, sql: Any, unbuffered: bool = False) -> Any:
        """As PyMySQL has it; the result is that of ``sql``, whatever goes before it and whether or not a COMMIT follows."""
        commits, self._commits, self.committed, self.in_doubt = self._commits, False, False, False
        if not commits:
            return super().query(sql, unbuffered)
        statements = [
            text.encode(self.encoding) if isinstance(text, str) else text for text in (*self._ahead, sql)
        ]
        self.in_doubt = True
        result = self._apart(statements) if self._one_by_one else self._together(statements)
        self.in_doubt, self.committed = False, True
        self._result, self._affected_rows = result, result.affected_rows
        return self._affected_rows

    def _together(self, statements: Sequence[bytes]) -> Any:
        """The result of the last of these, all of which were carried out and committed in one trip."""
        self._execute_command(COMMAND.COM_QUERY, b"; ".join([*statements, COMMIT]))
        try:
            self._read_query_result()
        except pymysql.err.ProgrammingError as error:
            if error.args[0] != ER.PARSE_ERROR:
                raise
            self._one_by_one = True  # something in between takes one statement at a time
            return self._apart(statements)
        results = [self._result]
        while self._result.has_next:
            self._read_query_result()
            results.append(self._result)
        results[-2].has_next = None
        return results[-2]

    def _apart(self, statements: Sequence[bytes]) -> Any:
        for statement in statements:
            super().query(statement)
        result = self._result
        super().query(COMMIT)
        return result

    def _create_ssl_ctx(self, options: Any) -> Any:
        if options:
            return super()._create_ssl_ctx(options)
        if MySQLWire._preferred is None:
            MySQLWire._preferred = super()._create_ssl_ctx(options)
        return MySQLWire._preferred
