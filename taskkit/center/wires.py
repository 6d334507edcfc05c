"""Connections to MySQL and MariaDB; loaded with the first one, since PyMySQL is no use to SQLite."""

from __future__ import annotations

from typing import Any

import pymysql.connections


class MySQLWire(pymysql.connections.Connection):  # type: ignore[misc]
    """A connection that shares with others what TLS needs, unless the URL says something of TLS.

    PyMySQL offers TLS to every server and reads all trusted certificates anew for each connection, which takes 0.06 s
    of CPU: more than all else, and paid by every process at once after an outage.
    """

    _preferred: Any = None

    def _create_ssl_ctx(self, options: Any) -> Any:
        if options:
            return super()._create_ssl_ctx(options)
        if MySQLWire._preferred is None:
            MySQLWire._preferred = super()._create_ssl_ctx(options)
        return MySQLWire._preferred
