"""``once``: in the caller's own transaction in SQL, and in Redis for effects that are elsewhere."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pymysql
import pytest
import redis
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from taskkit import Settings, Taskkit
from taskkit.clock import utc_now
from taskkit.coordination import MemoryTokens, Once
from taskkit.errors import BrokerUnavailable, InputError, LockError, LockLost, OnceRunning
from taskkit.testing import Sandbox
from tests.centers import sql
from tests.machine import free_port
from tests.peers import Peer
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]
GOOD = [
    "支付😀完成",
    "a{b}c",
    "%s %(a)s :b ?",
    "a" * 190,
    "支" * 190,
    "😀" * 190,
    "'; DROP TABLE task_once; --",
    "\\",
    "é",
    "e\u0301",
]
BAD = [
    ("a" * 191, "at most 190"),
    ("", "empty"),
    (" a", "white space"),
    ("a\0", "control"),
    ("\ud800", "control"),
    (7, "text"),
]


@pytest.fixture
def kit(center_url: str, redis_url: str, key_prefix: str, tmp_path: Path) -> Iterator[Taskkit]:
    opened = Taskkit(
        Settings(home=tmp_path, database_url=center_url, redis_url=redis_url, key_prefix=key_prefix)
    )
    yield opened
    opened.close()


@pytest.fixture
def engine(kit: Taskkit) -> Iterator[Engine]:
    """The application's own engine, as plain as it comes."""
    made = sa.create_engine(kit.settings.sqlalchemy_url())
    yield made
    made.dispose()


@pytest.fixture
def mariadb_kit(mariadb_center_url: str, tmp_path: Path) -> Iterator[Taskkit]:
    opened = Taskkit(Settings(home=tmp_path, database_url=mariadb_center_url))
    yield opened
    opened.close()


@contextlib.contextmanager
def session_of(kit: Taskkit, *settings: str, **options: object) -> Iterator[Connection]:
    """A connection of a program that has its own ideas of a session."""
    made = sa.create_engine(kit.settings.sqlalchemy_url(), **options)  # type: ignore[call-overload]
    with made.connect() as connection:
        for setting in settings:
            connection.exec_driver_sql(f"SET SESSION {setting}")
        connection.commit()
        yield connection
    made.dispose()


def noted(kit: Taskkit) -> list[str]:
    return [row[0] for row in sql(kit.center, "SELECT name FROM task_once ORDER BY name")]


# in SQL


def test_the_first_does_it_and_the_second_sees_that_it_was_done(kit: Taskkit, engine: Engine) -> None:
    answers = []
    for _ in range(3):
        with engine.begin() as connection:
            answers.append(kit.once(connection, "invoice-42"))
    assert answers == [True, False, False]
    assert noted(kit) == ["invoice-42"]


def test_a_second_call_in_the_same_transaction_is_not_the_first(kit: Taskkit, engine: Engine) -> None:
    with engine.begin() as connection:
        assert [kit.once(connection, "a"), kit.once(connection, "a"), kit.once(connection, "A")] == [
            True,
            False,
            True,
        ]


def test_a_rollback_takes_it_back(kit: Taskkit, engine: Engine) -> None:
    with engine.connect() as connection:
        assert kit.once(connection, "invoice-42")
        connection.rollback()
        assert kit.once(connection, "invoice-42")
        connection.commit()
    assert noted(kit) == ["invoice-42"]


def test_a_savepoint_takes_it_back(kit: Taskkit) -> None:
    made = sa.create_engine(kit.settings.sqlalchemy_url())
    with made.begin() as connection:
        if made.dialect.name == "sqlite":  # pysqlite begins at the first change only
            connection.execute(sa.text("DELETE FROM task_once"))
        with contextlib.suppress(ValueError), connection.begin_nested():
            assert kit.once(connection, "invoice-42")
            raise ValueError
        assert kit.once(connection, "invoice-42")
    made.dispose()


def test_a_session_will_do(kit: Taskkit, engine: Engine) -> None:
    with Session(engine) as session:
        assert kit.once(session, "invoice-42")
        session.commit()
        assert not kit.once(session, "invoice-42")


def test_processes_that_race_have_the_effect_once(kit: Taskkit, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE IF EXISTS effects"))
        connection.execute(sa.text("CREATE TABLE effects (name VARCHAR(190))"))
    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(kit.settings, "sql", "unused", 5)) for _ in range(3)]
        for number in range(4):
            for peer in peers:
                peer.tell("once", f"invoice-{number}")
            assert sorted(peer.hear() for peer in peers) == ["False", "False", "True"]
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT COUNT(*) FROM effects")).scalar() == 4


@pytest.mark.parametrize(
    "isolation", ["REPEATABLE READ", "READ COMMITTED", "READ UNCOMMITTED", "SERIALIZABLE"]
)
@pytest.mark.parametrize("commit", [True, False])
def test_one_that_comes_meanwhile_waits_for_the_end_of_the_first(
    mariadb_kit: Taskkit, isolation: str, commit: bool
) -> None:
    """After a commit it sees that it was done; after a rollback it is the first."""
    with (
        session_of(mariadb_kit, isolation_level=isolation) as one,
        session_of(mariadb_kit, isolation_level=isolation) as two,
        ThreadPoolExecutor() as pool,
    ):
        two.exec_driver_sql("SELECT COUNT(*) FROM task_center").all()  # its snapshot is older than the commit
        assert mariadb_kit.once(one, "invoice-42")
        second = pool.submit(mariadb_kit.once, two, "invoice-42")
        wait_until(lambda: _waiting(mariadb_kit))
        one.commit() if commit else one.rollback()
        assert second.result(20) is not commit
        two.commit()


def _waiting(kit: Taskkit) -> bool:
    """Whether a connection has been at an INSERT into task_once for a while."""
    found = sql(kit.center, "SHOW FULL PROCESSLIST")
    return any("INSERT INTO task_once" in str(row[7]) and row[4] == "Query" for row in found)


def test_on_sqlite_the_second_waits_as_well(sqlite_center_url: str, tmp_path: Path) -> None:
    kit = Taskkit(Settings(home=tmp_path, database_url=sqlite_center_url))
    with session_of(kit) as one, session_of(kit) as two, ThreadPoolExecutor() as pool:
        assert kit.once(one, "invoice-42")
        second = pool.submit(kit.once, two, "invoice-42")
        with pytest.raises(TimeoutError):
            second.result(0.3)
        one.commit()
        assert second.result(20) is False
    kit.close()


def test_rule_23_errors_on_a_connection_of_the_callers_go_up(mariadb_kit: Taskkit) -> None:
    with session_of(mariadb_kit) as one, session_of(mariadb_kit, "innodb_lock_wait_timeout = 1") as two:
        assert mariadb_kit.once(one, "invoice-42")
        with pytest.raises(OperationalError, match="1205"):
            mariadb_kit.once(two, "invoice-42")
        two.rollback()
        one.commit()
        assert mariadb_kit.once(two, "invoice-42") is False


@pytest.mark.parametrize("zone", ["+08:00", "-11:00", "SYSTEM"])
def test_the_instant_is_right_whatever_the_sessions_time_zone(mariadb_kit: Taskkit, zone: str) -> None:
    with session_of(mariadb_kit, f"time_zone = '{zone}'") as connection:
        mariadb_kit.once(connection, "invoice-42")
        connection.commit()
    ((age,),) = sql(mariadb_kit.center, "SELECT {age(done_at)} FROM task_once")
    assert 0 <= age < 60


def test_the_instant_on_sqlite_is_in_the_form_of_all_others(sqlite_center_url: str, tmp_path: Path) -> None:
    kit = Taskkit(Settings(home=tmp_path, database_url=sqlite_center_url))
    with session_of(kit) as connection:
        kit.once(connection, "invoice-42")
        connection.commit()
    ((text,),) = sql(kit.center, "SELECT done_at FROM task_once")
    at = kit.center.database.dialect.instant(text)
    assert at is not None
    assert abs(utc_now() - at) < timedelta(seconds=60)
    kit.close()


@pytest.mark.parametrize("mode", ["", "STRICT_ALL_TABLES"])
def test_a_character_set_that_loses_letters_never_makes_two_keys_one(mariadb_kit: Taskkit, mode: str) -> None:
    with session_of(mariadb_kit, f"sql_mode = '{mode}'", "character_set_client = utf8mb3") as connection:
        assert mariadb_kit.once(connection, "plain")
        for key in ("paid 😀", "paid 😁"):
            with pytest.raises((InputError, OperationalError), match=r"character set|Incorrect|Invalid"):
                mariadb_kit.once(connection, key)
            connection.rollback()
    assert noted(mariadb_kit) == []


def test_a_connection_that_commits_by_itself_is_refused(kit: Taskkit) -> None:
    with (
        session_of(kit, isolation_level="AUTOCOMMIT") as connection,
        pytest.raises(InputError, match="AUTOCOMMIT"),
    ):
        kit.once(connection, "invoice-42")
    assert noted(kit) == []


def test_a_driver_that_does_not_tell_that_it_commits_by_itself_is_found_out(
    mariadb_kit: Taskkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session_of(mariadb_kit, isolation_level="AUTOCOMMIT") as connection:
        monkeypatch.setattr(pymysql.connections.Connection, "get_autocommit", lambda _: False)
        with pytest.raises(InputError, match="AUTOCOMMIT"):
            mariadb_kit.once(connection, "invoice-42")
    assert noted(mariadb_kit) == []


@pytest.mark.parametrize(("mode", "refused"), [(True, True), (False, False), (-1, False)])
def test_the_autocommit_of_sqlite_from_python_3_12_on_is_seen(
    sqlite_center_url: str, tmp_path: Path, mode: int, refused: bool
) -> None:
    class Newer(sqlite3.Connection):
        autocommit = mode

    kit = Taskkit(Settings(home=tmp_path, database_url=sqlite_center_url))
    with session_of(kit, connect_args={"factory": Newer}) as connection:
        if refused:
            with pytest.raises(InputError, match="AUTOCOMMIT"):
                kit.once(connection, "invoice-42")
            connection.exec_driver_sql("BEGIN")
        assert kit.once(connection, "invoice-42")
    kit.close()


def test_what_is_no_connection_is_refused(kit: Taskkit) -> None:
    with pytest.raises(InputError, match="connection: must be a SQLAlchemy Connection or Session, not str"):
        kit.once("sqlite://", "invoice-42")


def test_it_opens_nothing_of_ours(kit: Taskkit, engine: Engine) -> None:
    with engine.begin() as connection:
        assert kit.once(connection, "invoice-42")
    assert kit._center is None


@pytest.mark.parametrize("key", GOOD, ids=ascii)
def test_a_key_may_be_any_text(kit: Taskkit, engine: Engine, key: str) -> None:
    for expected in (True, False):
        with engine.begin() as connection:
            assert kit.once(connection, key) is expected
        with kit.redis_once(key) as once:
            assert once.first is expected
    assert noted(kit) == [key]


@pytest.mark.parametrize(("key", "problem"), BAD)
def test_a_key_that_does_not_fit_is_refused(kit: Taskkit, engine: Engine, key: str, problem: str) -> None:
    with pytest.raises(InputError, match=f"key: .*{problem}"), engine.connect() as connection:
        kit.once(connection, key)
    with pytest.raises(InputError, match=f"key: .*{problem}"):
        kit.redis_once(key)


# in Redis


@pytest.fixture
def redis_kit(redis_url: str, key_prefix: str, tmp_path: Path) -> Iterator[Taskkit]:
    opened = Taskkit(Settings(home=tmp_path, redis_url=redis_url, key_prefix=key_prefix))
    yield opened
    opened.close()


def stored(kit: Taskkit) -> dict[str, tuple[str, int]]:
    """Our keys with their values and the milliseconds they still have; the server has others' as well."""
    own = f"{kit.settings.key_prefix}*"
    with redis.Redis.from_url(str(kit.settings.redis_url)) as client:
        return {
            key.decode(): ((client.get(key) or b"").decode(), client.pttl(key)) for key in client.keys(own)
        }


def flush(kit: Taskkit) -> None:
    with redis.Redis.from_url(str(kit.settings.redis_url)) as client:
        client.flushall()


def test_in_redis_it_is_running_then_done_then_forgotten(redis_kit: Taskkit, key_prefix: str) -> None:
    key = f"{key_prefix}task:once:{{invoice-42}}"
    with redis_kit.redis_once("invoice-42", keep=3, life=20) as once:
        assert once
        value, left = stored(redis_kit)[key]
        assert value.startswith("running:")
        assert 15_000 < left <= 20_000
        once.check()
    value, left = stored(redis_kit)[key]
    assert (value[:5], 0 < left <= 3000) == ("done:", True)
    wait_until(lambda: stored(redis_kit) == {})
    with redis_kit.redis_once("invoice-42") as once:
        assert once.first


def test_in_redis_the_second_sees_that_it_was_done(redis_kit: Taskkit) -> None:
    with redis_kit.redis_once("invoice-42"):
        pass
    with redis_kit.redis_once("invoice-42") as once:
        assert not once
        with pytest.raises(LockError, match="is not running here"):
            once.check()


def test_in_redis_a_body_that_fails_frees_the_key(redis_kit: Taskkit) -> None:
    with pytest.raises(ValueError, match="mine"), redis_kit.redis_once("invoice-42"):
        raise ValueError("mine")
    assert stored(redis_kit) == {}
    with redis_kit.redis_once("invoice-42") as once:
        assert once.first


def test_in_redis_nobody_takes_running_for_done(redis_kit: Taskkit) -> None:
    with redis_kit.redis_once("invoice-42"):
        with (
            pytest.raises(OnceRunning, match="somebody is doing it right now"),
            redis_kit.redis_once("invoice-42"),
        ):
            pass
        with pytest.raises(OnceRunning), redis_kit.redis_once("invoice-42", timeout=0.2):
            pass
    assert OnceRunning.can_retry


def test_in_redis_one_that_waits_sees_it_done(redis_kit: Taskkit) -> None:
    def second() -> bool:
        with redis_kit.redis_once("invoice-42", timeout=20) as once:
            return once.first

    with ThreadPoolExecutor() as pool:
        with redis_kit.redis_once("invoice-42"):
            waits = pool.submit(second)
            with pytest.raises(TimeoutError):
                waits.result(0.3)
        assert waits.result(20) is False


def test_in_redis_a_long_body_stays_running(redis_kit: Taskkit) -> None:
    """Longer than its life."""
    with redis_kit.redis_once("invoice-42", life=3) as once:
        with pytest.raises(OnceRunning), redis_kit.redis_once("invoice-42", timeout=4):
            pass
        once.check()


def test_in_redis_the_death_of_its_owner_frees_the_key(redis_kit: Taskkit) -> None:
    redis_kit.center.upgrade_schema()
    settings = Settings(
        home=redis_kit.settings.home,
        database_url=redis_kit.settings.sqlalchemy_url(),
        redis_url=redis_kit.settings.redis_url,
        key_prefix=redis_kit.settings.key_prefix,
    )
    with Peer(settings, "redis", "unused", 5) as peer:
        assert peer.ask("begin", "invoice-42", 1) == "True"
        peer.signal(signal.SIGKILL)
        with redis_kit.redis_once("invoice-42", timeout=20) as once:
            assert once.first


def test_in_redis_a_flush_in_the_middle_is_made_good_where_nobody_else_began(redis_kit: Taskkit) -> None:
    with redis_kit.redis_once("invoice-42"):
        flush(redis_kit)
    assert [value[:5] for value, _ in stored(redis_kit).values()] == ["done:"]


def test_in_redis_it_learns_that_somebody_else_began_as_well(redis_kit: Taskkit) -> None:
    with (
        pytest.raises(LockLost, match="somebody else began it"),
        redis_kit.redis_once("invoice-42", life=0.6) as one,
    ):
        flush(redis_kit)
        two = redis_kit.redis_once("invoice-42").__enter__()
        wait_until(lambda: _lost(one))
    two.check()
    two.__exit__(None, None, None)


def _lost(once: Once) -> bool:
    try:
        once.check()
    except LockLost:
        return True
    return False


def test_in_redis_what_was_done_stays_done_for_its_handler_while_redis_is_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An error would have the handler do it again."""

    class Away(MemoryTokens):
        def swap(self, key: bytes, token: str, other: str, life: float) -> bool:
            raise BrokerUnavailable("away")

    with Once(lambda: (Away(), str.encode), "invoice-42"):
        pass
    assert "once invoice-42 was done, but that is not noted: away" in caplog.text


class Cut(MemoryTokens):
    """Loses one reply to the mark that says done: after it was carried out, or before it got there."""

    def __init__(self, *, carried_out: bool, meanwhile: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.carried_out, self.meanwhile, self.cuts = carried_out, meanwhile, 1

    def swap(self, key: bytes, token: str, other: str, life: float) -> bool:
        if token == other or not self.cuts:
            return super().swap(key, token, other, life)
        self.cuts -= 1
        if self.carried_out:
            assert super().swap(key, token, other, life)
        self.meanwhile()
        raise BrokerUnavailable("cut")


@pytest.mark.parametrize("carried_out", [True, False])
def test_in_redis_a_lost_reply_to_the_mark_is_no_loss(carried_out: bool) -> None:
    tokens = Cut(carried_out=carried_out)
    with Once(lambda: (tokens, str.encode), "invoice-42") as once:
        assert once.first
    assert not tokens.cuts
    with Once(lambda: (tokens, str.encode), "invoice-42") as once:
        assert not once.first


def test_in_redis_what_somebody_else_has_done_is_not_taken_for_our_own_mark() -> None:
    """Our mark never got there, and our life ended: the other one began, and was done, as well."""

    def other() -> None:
        tokens.drop(b"invoice-42", str(tokens.read(b"invoice-42")))
        with Once(lambda: (tokens, str.encode), "invoice-42") as once:
            assert once.first

    tokens = Cut(carried_out=False, meanwhile=other)
    with (
        pytest.raises(LockLost, match="somebody else began it"),
        Once(lambda: (tokens, str.encode), "invoice-42"),
    ):
        pass


def test_in_redis_a_server_that_is_away_is_an_error_before_anything_is_done(tmp_path: Path) -> None:
    kit = Taskkit(Settings(home=tmp_path, redis_url=f"redis://:s3cret@127.0.0.1:{free_port()}/0"))
    with pytest.raises(BrokerUnavailable) as caught, kit.redis_once("invoice-42"):
        pytest.fail("must not get here")
    assert "s3cret" not in f"{caught.value} {kit!r} {kit.redis_once('invoice-42')!r}"
    kit.close()


def test_in_redis_it_is_used_inside_its_with_statement(redis_kit: Taskkit) -> None:
    once = redis_kit.redis_once("invoice-42")
    with pytest.raises(LockError, match="inside of its with statement"):
        bool(once)
    with once, pytest.raises(LockError, match="entered already"):
        once.__enter__()


@pytest.mark.parametrize(
    ("field", "value"), [("keep", 0), ("life", 0), ("life", 1e9), ("timeout", -1), ("keep", "1")]
)
def test_a_number_that_makes_no_sense_is_refused(field: str, value: object) -> None:
    with pytest.raises(InputError, match=f"{field}: must be"):
        Taskkit(Settings()).redis_once("invoice-42", **{field: value})  # type: ignore[arg-type]


def test_in_the_sandbox_it_works_without_a_server() -> None:
    kit = Taskkit(Settings())

    @kit.task("charge")
    def charge() -> bool:
        with kit.redis_once("invoice-42") as once:
            return once.first

    for _ in range(2):  # each sandbox begins anew
        with Sandbox(kit) as box:
            ids = [charge.enqueue(), charge.enqueue()]
            box.run()
            assert [box.result(task_id) for task_id in ids] == [True, False]
