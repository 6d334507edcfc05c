"""The drivers whose raw speed is compared, behind one face."""

from __future__ import annotations

import asyncio


class Sync:
    """A DB-API driver, autocommit off."""

    def __init__(self, module: str, port: int):
        driver = __import__(module)
        self.connection = driver.connect(
            host="127.0.0.1", port=port, user="bench", password="bench", database="bench", autocommit=False
        )
        self.cursor = self.connection.cursor()

    def execute(self, sql: str, args=None) -> int:
        """Run one statement; return the affected rows."""
        return self.cursor.execute(sql, args)

    def executemany(self, sql: str, args) -> int:
        """Run one statement with many arguments."""
        return self.cursor.executemany(sql, args)

    def rows(self, sql: str):
        """Run a query and fetch all rows."""
        self.cursor.execute(sql)
        return self.cursor.fetchall()

    def commit(self) -> None:
        """Commit."""
        self.connection.commit()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class Asyncmy:
    """asyncmy behind the same calls, one event loop turn a call."""

    def __init__(self, port: int):
        import asyncmy

        self.loop = asyncio.new_event_loop()
        self.run = self.loop.run_until_complete
        self.connection = self.run(
            asyncmy.connect(
                host="127.0.0.1",
                port=port,
                user="bench",
                password="bench",
                database="bench",
                autocommit=False,
            )
        )
        self.cursor = self.connection.cursor()

    def execute(self, sql: str, args=None) -> int:
        """Run one statement; return the affected rows."""
        return self.run(self.cursor.execute(sql, args))

    def executemany(self, sql: str, args) -> int:
        """Run one statement with many arguments."""
        return self.run(self.cursor.executemany(sql, args))

    def rows(self, sql: str):
        """Run a query and fetch all rows."""
        self.execute(sql)
        return self.run(self.cursor.fetchall())

    def commit(self) -> None:
        """Commit."""
        self.run(self.connection.commit())

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
        self.loop.close()


def connect(driver: str, port: int):
    """Open a connection with the named driver."""
    return (
        Asyncmy(port) if driver == "asyncmy" else Sync({"mysqlclient": "MySQLdb"}.get(driver, driver), port)
    )
