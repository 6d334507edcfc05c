"""What differs between MySQL, MariaDB and SQLite: the words of a statement and the form of an instant."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, ClassVar

from taskkit.clock import EPOCH, LAST_INSTANT, utc_now

NO_DATE = "0000-"
NO_ANSWER = object()
"""Nothing that SQLite could take: the statement fails."""
MACRO = re.compile(r"\{(after|age|list_name|micros|bucket|slot|bin|digest)\(([^()]*)\)\}")
BIN_BASE = 1.05
"""Runtimes are counted in bins, each so much wider than the one before: a percentile is right to 2.5 %."""


def epoch(value: datetime) -> Decimal:
    """Seconds since 1970, exact to the microsecond."""
    return Decimal((value - EPOCH) // timedelta(microseconds=1)) / 1_000_000


def _text(value: datetime) -> str:
    """``YYYY-MM-DD HH:MM:SS.ffffff`` in UTC."""
    utc = value if value.tzinfo is UTC else value.astimezone(UTC)
    return utc.isoformat(" ", "microseconds")[:26]


def _bin(value: float | None) -> int | None:
    if value is None:
        return None
    return -1 if value < 1 else math.floor(math.log(value) / math.log(BIN_BASE))


def _digest(value: object) -> str | None:
    return None if value is None else hashlib.md5(str(value).encode(), usedforsecurity=False).hexdigest()


def limited(template: str, limit_s: float, *, mariadb: bool) -> str:
    """A SELECT that MySQL or MariaDB ends after so many seconds: errors 3024 and 1969."""
    if mariadb:
        return f"SET STATEMENT max_statement_time = {limit_s:g} FOR {template.lstrip()}"
    return template.lstrip().replace("SELECT", f"SELECT /*+ MAX_EXECUTION_TIME({limit_s * 1000:.0f}) */", 1)


class Dialect:
    """Renders the named statements; ``bind`` and ``instant`` turn aware UTC instants into SQL and back."""

    name = ""
    mark = ""
    instant_around = ""
    last = LAST_INSTANT
    words: ClassVar[dict[str, str]] = {}
    macros: ClassVar[dict[str, str]] = {}

    @classmethod
    @lru_cache(maxsize=2048)
    def render(cls, template: str) -> str:
        """Fill in the words and the macros: ``{after(seconds)}``, ``{age(instant)}``, ``{list_name(shards)}`` and so on."""
        text = MACRO.sub(lambda m: cls.macros[m[1]].replace("?", m[2]), template)
        for word, meaning in cls.words.items():
            text = text.replace("{" + word + "}", meaning)
        return text

    def bind(self, value: datetime | None) -> str | None:
        """An aware instant as the UTC text both kinds of server take."""
        return None if value is None else _text(value)

    @staticmethod
    def instant(value: object) -> datetime | None:
        """What a column of instants gave, as an aware UTC instant; MySQL's zero date is long past."""
        if value is None:
            return None
        if isinstance(value, str) and value.startswith(NO_DATE):
            return EPOCH
        read = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)

    @classmethod
    def moment(cls, value: object) -> datetime:
        """The same of a column that is never NULL, or of the clock."""
        found = cls.instant(value)
        assert found is not None  # noqa: S101 - the callers chose such a column
        return found

    def insert_instant(self, value: datetime | None) -> object:
        """An instant for the expression ``instant_around``, right under any session time zone of the caller's."""
        return self.bind(value)

    def first_id(self, lastrowid: int, rows: int) -> int:
        """The id of the first row of a multi-row INSERT."""
        raise NotImplementedError


class MySQL(Dialect):
    """MySQL 8 and 9, MariaDB 10.6 and later, in a session whose time zone is +00:00."""

    name = "mysql"
    mark = "%s"
    instant_around = "FROM_UNIXTIME(?)"
    words: ClassVar = {
        "now": "NOW(6)",
        "for_update": "FOR UPDATE",
        "skip_locked": "FOR UPDATE SKIP LOCKED",
        "or_refuse": "FOR UPDATE NOWAIT",
        "for_share": "LOCK IN SHARE MODE",
        "force_primary": "FORCE INDEX (PRIMARY)",
        "force_dispatch": "FORCE INDEX (ix_dispatch)",
        "force_finished": "FORCE INDEX (ix_run_finished)",
        "force_state": "FORCE INDEX (ix_occurrence_state)",
        "force_done": "FORCE INDEX (ix_once_done)",
        "force_place_key": "FORCE INDEX (ix_place_key)",
        "force_place_queue": "FORCE INDEX (ix_place_queue)",
        "then_join": "STRAIGHT_JOIN",
        "by_sorting": "SQL_BIG_RESULT",
        "letters": "CHAR_LENGTH",
        "over_key": "LEFT(CONCAT('over a limit: key ', limit_key), 190)",
        "over_queue": "CONCAT('over a limit: queue ', queue)",
        "insert_ignore": "INSERT IGNORE",
        "spare_dispatched": "LEFT(spare, 56)",
        "spare_claimed": "LEFT(spare, 16)",
    }
    macros: ClassVar = {
        "after": "NOW(6) + INTERVAL ? SECOND",
        "age": "TIMESTAMPDIFF(MICROSECOND, ?, NOW(6)) / 1000000",
        "list_name": "CONCAT(queue, ':', priority, IF(id % ? = 0, '', CONCAT('/', id % ?)))",
        "micros": "CAST(UNIX_TIMESTAMP(?) * 1000000 AS SIGNED)",
        "bucket": "FLOOR(UNIX_TIMESTAMP(?) / :bucket) * :bucket",
        "slot": "CAST(UNIX_TIMESTAMP(?) * 1000 AS SIGNED) DIV :slot",
        "bin": f"CASE WHEN ? < 1 THEN -1 ELSE FLOOR(LN(?) / {math.log(BIN_BASE)!r}) END",
        "digest": "MD5(CAST(? AS CHAR))",
    }

    def insert_instant(self, value: datetime | None) -> object:
        return None if value is None else epoch(value)

    def first_id(self, lastrowid: int, rows: int) -> int:
        return lastrowid


class SQLite(Dialect):
    """SQLite 3.35 and later; our own connections have the functions ``taskkit_*``."""

    name = "sqlite"
    mark = "?"
    instant_around = "?"
    last = datetime(9999, 12, 31, tzinfo=UTC)
    words: ClassVar = {
        "now": "taskkit_now()",
        "for_update": "",
        "skip_locked": "",
        "or_refuse": "",
        "for_share": "",
        "force_primary": "",
        "force_dispatch": "INDEXED BY ix_dispatch",
        "force_finished": "INDEXED BY ix_run_finished",
        "force_state": "INDEXED BY ix_occurrence_state",
        "force_done": "INDEXED BY ix_once_done",
        "force_place_key": "INDEXED BY ix_place_key",
        "force_place_queue": "INDEXED BY ix_place_queue",
        "then_join": "CROSS JOIN",
        "by_sorting": "",
        "letters": "LENGTH",
        "over_key": "substr('over a limit: key ' || limit_key, 1, 190)",
        "over_queue": "'over a limit: queue ' || queue",
        "insert_ignore": "INSERT OR IGNORE",
        "spare_dispatched": "NULL",
        "spare_claimed": "NULL",
    }
    macros: ClassVar = {
        "after": "taskkit_after(?)",
        "age": "taskkit_age(?)",
        "list_name": "queue || ':' || priority || CASE WHEN id % ? = 0 THEN '' ELSE '/' || (id % ?) END",
        "micros": "taskkit_micros(?)",
        "bucket": "taskkit_micros(?) / 1000000 / :bucket * :bucket",
        "slot": "taskkit_micros(?) / 1000 / :slot",
        "bin": "taskkit_bin(?)",
        "digest": "taskkit_digest(?)",
    }

    def __init__(self, clock: Callable[[], datetime] = utc_now) -> None:
        self.clock = clock

    def first_id(self, lastrowid: int, rows: int) -> int:
        return lastrowid - rows + 1


class StatementClock:
    """The SQL functions of one connection to SQLite, whose clock stands still within a statement, as the servers' does.

    The clock is the machine's, or the one a test moves; whoever executes a statement calls :meth:`begin` before.
    """

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self.clock = clock
        self.raised: BaseException | None = None
        """What one of the functions raised in this statement; SQLite says only that one did."""
        self._now: datetime | None = None

    def begin(self) -> None:
        """A statement begins."""
        self._now = self.raised = None

    def functions(self) -> dict[str, tuple[int, Callable[..., object]]]:
        """Their names, numbers of arguments, and what they do."""
        return {
            "taskkit_now": (0, partial(self._noting(lambda _: _text(self._read())), None)),
            "taskkit_after": (1, self._noting(self._after)),
            "taskkit_age": (1, self._noting(self._age)),
            "taskkit_micros": (1, self._noting(self._micros)),
            "taskkit_bin": (1, self._noting(_bin)),
            "taskkit_digest": (1, self._noting(_digest)),
        }

    def _noting(self, function: Callable[[Any], object]) -> Callable[[Any], object]:
        """``function`` for SQLite; what it raises is noted, and what a signal's handler raises as it begins.

        Python sees to signals where code begins or goes on. Where a function begins, no ``try`` of its own is in force
        yet; where a generator goes on, the one around its ``yield`` is.
        """

        def run() -> Generator[object, Any, None]:
            answer: object = None
            while True:
                try:
                    while True:
                        answer = function((yield answer))
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001 - raised again by who ran the statement, which fails
                    self.raised, answer = error, NO_ANSWER

        running = run()
        next(running)
        return running.send

    def _read(self) -> datetime:
        if self._now is None:
            self._now = self.clock()
        return self._now

    def _after(self, seconds: float | None) -> str | None:
        return None if seconds is None else _text(self._read() + timedelta(seconds=seconds))

    def _micros(self, value: str | None) -> int | None:
        then = Dialect.instant(value)
        return None if then is None else (then - EPOCH) // timedelta(microseconds=1)

    def _age(self, value: str | None) -> float | None:
        then = Dialect.instant(value)
        return None if then is None else (self._read() - then).total_seconds()


class ForeignSQLite(SQLite):
    """SQLite through a connection of the caller's, which has none of our functions."""

    words: ClassVar = {**SQLite.words, "now": "strftime('%Y-%m-%d %H:%M:%f', 'now')"}
    macros: ClassVar = {**SQLite.macros, "after": "strftime('%Y-%m-%d %H:%M:%f', 'now', ? || ' seconds')"}
