"""Connections to MySQL and MariaDB; loaded with the first one, since PyMySQL is no use to SQLite."""

from __future__ import annotations

import select
import ssl
from typing import Any

import pymysql.connections
from pymysql.constants import COMMAND, CR, ER

SEPARATOR = b"; "
COMMIT = b"COMMIT"


class MySQLWire(pymysql.connections.Connection):  # type: ignore[misc]
    """A connection that saves trips, and shares with others what TLS needs, unless the URL says something of TLS.

    PyMySQL offers TLS to every server and reads all trusted certificates anew for each connection, which takes 0.06 s
    of CPU: more than all else, and paid by every process at once after an outage.

    A statement may take others along in its packet (CLIENT.MULTI_STATEMENTS): those added before it, and the COMMIT.
    The server carries them out one after another and ends with the first that fails, so that nothing is committed which
    a failure came before.
    """

    _preferred: Any = None
    _ahead: tuple[bytes, ...] = ()
    _commits = False
    _one_by_one = False
    committed = False
    """Whether the last statement took its COMMIT along, and the server has carried it out."""
    in_doubt = False
    """Whether a statement has set out with its COMMIT, and no answer to that has come."""

    def add(self, statement: str) -> None:
        """Send this ahead of the next statement; only its failure is told."""
        self._ahead += (statement.encode(self.encoding),)

    def commit_with_next(self) -> None:
        """The next statement is the last of its transaction, and takes the COMMIT along."""
        self._commits = True

    def rollback(self) -> None:
        """As PyMySQL has it; what was added and not sent is forgotten."""
        self._ahead, self._commits = (), False
        super().rollback()

    def query(self, sql: Any, unbuffered: bool = False) -> Any:
        """As PyMySQL has it; the result is that of ``sql``, whatever went along."""
        ahead, commits = self._ahead, self._commits
        self._ahead, self._commits, self.committed, self.in_doubt = (), False, False, False
        if not ahead and not commits:
            return super().query(sql, unbuffered)
        statement = sql.encode(self.encoding) if isinstance(sql, str) else sql
        self._refuse_if_cut()
        self.in_doubt = commits
        result = self._together([*ahead, statement, *([COMMIT] if commits else [])], len(ahead))
        self.in_doubt, self.committed = False, commits
        self._result, self._affected_rows = result, result.affected_rows
        return self._affected_rows

    def _together(self, statements: list[bytes], place: int) -> Any:
        """Carry these out in one trip; the result of the one at ``place``."""
        if self._one_by_one:
            return [self._alone(statement) for statement in statements][place]
        results: list[Any] = []
        self._execute_command(COMMAND.COM_QUERY, SEPARATOR.join(statements))
        try:
            while not results or results[-1].has_next:
                self._read_query_result()
                results.append(self._result)
        except pymysql.err.ProgrammingError as error:
            if results or error.args[0] != ER.PARSE_ERROR:
                raise
            # something in between takes one statement at a time, and has carried out none
            self._one_by_one = True
            return self._together(statements, place)
        results[place].has_next = None
        return results[place]

    def _alone(self, statement: bytes) -> Any:
        super().query(statement)
        return self._result

    def _refuse_if_cut(self) -> None:
        """What is sent over a connection that was cut long ago would be in doubt: whatever lies there is a farewell."""
        link = self._sock
        if link is None or isinstance(link, ssl.SSLSocket):
            return
        poll = select.poll()
        poll.register(link, select.POLLIN)
        if poll.poll(0):
            self._force_close()
            raise pymysql.err.OperationalError(CR.CR_SERVER_GONE_ERROR, "the connection was cut meanwhile")

    def _create_ssl_ctx(self, options: Any) -> Any:
        if options:
            return super()._create_ssl_ctx(options)
        if MySQLWire._preferred is None:
            MySQLWire._preferred = super()._create_ssl_ctx(options)
        return MySQLWire._preferred
