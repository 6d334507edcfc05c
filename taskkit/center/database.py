"""The door to SQL: connections with their own limits, transactions, bounded repeats, and errors by class."""

from __future__ import annotations

import os
import random
import re
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from taskkit.center.dialect import Dialect, MySQL, SQLite, limited
from taskkit.center.engines import READ_ONLY, make_engine
from taskkit.center.faults import SQLITE_ADVICE, Fault, classify, explain
from taskkit.center.sessions import is_pooled, still_ours
from taskkit.clock import utc_now
from taskkit.errors import CommitUnknown, DatabaseUnavailable, InputError, StoreError

T = TypeVar("T")
ATTEMPTS = 6
LOOK_SHARE = 0.9
"""A long look may take this part of the time for which an answer is waited."""
NAMED = re.compile(r"(?<![:\w]):([a-z_]+)\b")


class Database:
    """One engine and its habits. Opens nothing until the first statement; safe across fork.

    It has at most ``pool_size`` + ``overflow`` connections; whoever needs another one waits for it.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 5,
        overflow: int = 2,
        clock: Callable[[], datetime] = utc_now,
        read_timeout: float = 60,
    ) -> None:
        self.url = _with_driver(make_url(url))
        self.sqlite = self.url.get_backend_name() == "sqlite"
        self.pooled = not self.sqlite and is_pooled(self.url)
        self.clock = clock
        self.dialect: Dialect = SQLite(clock) if self.sqlite else MySQL()
        self.counters: Counter[str] = Counter()
        self._texts: dict[str, sa.TextClause] = {}
        self._driver: dict[str, str] = {}
        self._batches: dict[str, str] = {}
        self.patience = read_timeout
        """Seconds until a server that says nothing is given up."""
        self.engine = make_engine(self.url, self.dialect, pool_size, overflow, read_timeout)
        _forget_after_fork(self.engine)

    def __repr__(self) -> str:
        return f"<Database {self.url.render_as_string(hide_password=True)}>"

    @property
    def takes_packets(self) -> bool:
        """Whether statements may go to it together, of which the first one begins the transaction."""
        return not self.sqlite and not self.pooled

    @property
    def in_use(self) -> int:
        """How many of its connections somebody is using at this moment."""
        pool: Any = self.engine.pool
        return int(pool.checkedout()) if hasattr(pool, "checkedout") else 0

    @property
    def absent(self) -> bool:
        """Whether this is an SQLite file that is not there yet; connecting would make it."""
        return self._file is not None and not self._file.exists()

    def make_folder(self) -> None:
        """Make the folder of an SQLite file, which only an upgrade may do."""
        if self._file is not None:
            _make_folder(self._file.parent)

    @property
    def _file(self) -> Path | None:
        """The SQLite file; None for a server or for memory."""
        name = self.url.database
        named = self.sqlite and name and name != ":memory:" and not name.startswith("file:")
        return Path(str(name)) if named else None

    def text(self, template: str) -> sa.TextClause:
        """The statement of ``template`` in this dialect; ``:ids`` and other plural names take lists."""
        found = self._texts.get(template)
        if found is None:
            found = sa.text(self.dialect.render(template))
            plural = [n for n in found.compile().params if n in PLURAL]
            found = found.bindparams(*[sa.bindparam(n, expanding=True) for n in plural])
            self._texts[template] = found
        return found

    def batch_text(self, template: str) -> str:
        """The statement of ``template`` with its names as the driver marks them, and ``{ids}`` for a list of numbers."""
        found = self._batches.get(template)
        if found is None:
            text = self.dialect.render(template)
            if not self.sqlite:
                text = text.replace("%", "%%")
            found = NAMED.sub(lambda m: self._mark(m[1]), text)
            self._batches[template] = found
        return found

    def _mark(self, name: str) -> str:
        if name in PLURAL:
            return f"{{{name}}}"
        return f":{name}" if self.sqlite else f"%({name})s"

    def driver_text(self, template: str) -> str:
        """The statement of ``template`` for the driver itself; ``?`` marks are in the driver's style."""
        found = self._driver.get(template)
        if found is None:
            found = self.dialect.render(template).replace("?", self.dialect.mark)
            self._driver[template] = found
        return found

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in one transaction; repeats it whole after a deadlock, a lock wait or a lost connection.

        Raises CommitUnknown when the reply to the COMMIT was lost, DatabaseUnavailable when repeats did not help.
        """
        return self._repeat(lambda: self._transaction(work))

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run ``work``, which only reads; each of its statements sees the newest committed rows."""
        return self._repeat(lambda: self._reading(work))

    def look(self, template: str, parameters: Mapping[str, Any]) -> Sequence[sa.Row[Any]]:
        """The rows of a SELECT that may take long; of ``parameters`` it takes what it names.

        The server itself ends it before we give up waiting, which the server would not notice: it would go on, and be
        asked the same again. (Not a MariaDB behind a pooler, which could take SET STATEMENT for a setting of a session.)
        """

        def work(connection: Connection) -> Sequence[sa.Row[Any]]:
            limit_s = self.patience * LOOK_SHARE
            mariadb = getattr(connection.dialect, "is_mariadb", False)
            free = self.sqlite or (mariadb and self.pooled)
            text = self.text(template if free else limited(template, limit_s, mariadb=mariadb))
            return connection.execute(text, {n: parameters[n] for n in text.compile().params}).all()

        return self.read(work)

    def now(self) -> datetime:
        """The database's clock, which decides what is due."""
        return self.dialect.moment(self.read(lambda c: c.execute(self.text("SELECT {now}")).scalar_one()))

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def _transaction(self, work: Callable[[Connection], T]) -> T:
        with self.engine.connect() as connection:
            transaction = connection.begin()
            wire: Any = connection.connection.driver_connection
            try:
                result = work(connection)
                if not self.sqlite and not self.pooled:
                    still_ours(connection)
            except BaseException as error:
                in_doubt = getattr(wire, "in_doubt", False)
                _quietly(transaction.rollback)
                self._leave(connection, error)
                if in_doubt:
                    self._raise_if_unknown(error)
                raise
            try:
                transaction.commit()
            except DBAPIError as error:
                _quietly(transaction.rollback)
                self._leave(connection, error)
                self._raise_if_unknown(error)
                raise
            return result

    def _raise_if_unknown(self, error: BaseException) -> None:
        """A COMMIT was under way when this happened."""
        if isinstance(error, DBAPIError) and classify(error, self.sqlite) is Fault.GONE:
            self.counters[Fault.GONE.value] += 1
            raise CommitUnknown(f"the reply to a COMMIT was lost: {explain(error, self.url)}") from error

    def _leave(self, connection: Connection, error: BaseException) -> None:
        """A primary that became a replica, or left its group, keeps its connections: they are not used again."""
        if classify(error, self.sqlite).elsewhere and not connection.invalidated:
            connection.invalidate()

    def _reading(self, work: Callable[[Connection], T]) -> T:
        with self.engine.connect() as connection:
            return work(connection.execution_options(**{READ_ONLY: True}))

    def _repeat(self, act: Callable[[], T]) -> T:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return act()
            except IntegrityError:
                raise
            except SQLAlchemyError as error:
                fault = classify(error, self.sqlite)
                self.counters[fault.value] += 1
                if fault is Fault.OTHER:
                    raise StoreError(explain(error, self.url)) from error
                if not fault.repeats or attempt >= fault.attempts:
                    raise fault.error(explain(error, self.url)) from error
                time.sleep(fault.pause * attempt * (0.5 + random.random()))
            except UnicodeEncodeError as error:
                raise InputError("text", "has a lone surrogate, which no database can hold") from error
            except OverflowError as error:
                if "SQLite" not in str(error):
                    raise
                raise InputError("number", f"too large, SQLite holds at most {2**63 - 1}") from error
        raise DatabaseUnavailable("unreachable")  # pragma: no cover


PLURAL = {"ids", "instants", "keys", "statuses", "states", "codes", "queues", "workers", "lists", "names"}


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise DatabaseUnavailable(
            f"database folder {folder}: cannot make it: {error.strerror}; {SQLITE_ADVICE}"
        ) from error


def _with_driver(url: URL) -> URL:
    """``mysql://`` and ``mariadb://`` mean PyMySQL."""
    return url.set(drivername="mysql+pymysql") if url.drivername in {"mysql", "mariadb"} else url


def _quietly(act: Callable[[], object]) -> None:
    """Clean up after an error that is on its way up already."""
    try:
        act()
    except SQLAlchemyError:
        return


def _forget_after_fork(engine: Engine) -> None:
    reference = weakref.ref(engine)

    def forget() -> None:
        inherited = reference()
        if inherited is not None:
            inherited.dispose(close=False)

    os.register_at_fork(after_in_child=forget)
