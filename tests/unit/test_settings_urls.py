"""URLs of SQL and Redis: what is accepted, what is refused and how, and that no password is ever shown."""

from __future__ import annotations

import pickle

import msgspec
import pytest
from rich.pretty import pretty_repr
from sqlalchemy.engine import make_url

from taskkit.errors import SettingsError
from taskkit.queues.connect import connect
from taskkit.settings import Settings, redact, redact_text
from taskkit.settings.brokers import parse


def refused(name: str, url: str) -> str:
    """The one line with which this URL is refused."""
    with pytest.raises(SettingsError) as caught:
        Settings.load({name: url})
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(f"environment: {name} = ")
    assert "s3cret" not in line
    return line


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mysql://u:p@h/d", "mysql+pymysql://u:p@h/d?charset=utf8mb4"),
        ("mariadb://u:p%40w@h:3307/d", "mysql+pymysql://u:p%40w@h:3307/d?charset=utf8mb4"),
        ("mysql+pymysql://u@[::1]:3306/d", "mysql+pymysql://u@[::1]:3306/d?charset=utf8mb4"),
        ("MYSQL://u@h/d?ssl_ca=/ca.pem", "mysql+pymysql://u@h/d?ssl_ca=/ca.pem&charset=utf8mb4"),
        (
            "mysql://u@h/d?charset=latin1&connect_timeout=3",
            "mysql+pymysql://u@h/d?charset=latin1&connect_timeout=3",
        ),
        ("mysql:///d?unix_socket=/s", "mysql+pymysql:///d?unix_socket=/s&charset=utf8mb4"),
        ("sqlite:////data/t.db", "sqlite:////data/t.db"),
        ("sqlite:////data/t.db?timeout=5", "sqlite:////data/t.db?timeout=5"),
        ("sqlite:////data/a#b.db", "sqlite:////data/a#b.db"),
    ],
)
def test_a_database_url_becomes_what_sqlalchemy_wants(url: str, expected: str) -> None:
    got = Settings.load({"TASKKIT_DATABASE_URL": url}).sqlalchemy_url()
    assert got == expected
    assert make_url(got).database in ("d", "/data/t.db", "/data/a#b.db")


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("postgresql://h/d", "postgresql:// is no database that taskkit knows; write mysql://"),
        ("mysql+asyncmy://u:s3cret@h/d", "the driver of mysql+asyncmy:// is not supported"),
        ("mariadb+mariadbconnector://u:s3cret@h/d", "driver"),
        ("sqlite+aiosqlite:///x", "driver"),
        ("mysql://", "host is missing"),
        ("mysql://u:s3cret@/d", "host is missing"),
        ("mysql://u:s3cret@h", "name of the database is missing"),
        ("mysql://h:port/d", "port is not a number"),
        ("mysql://h:99999/d", "port is not a number"),
        ("mysql://u:s3cret/x@h/d", "port is not a number up to 65535 (in a password write @ as %40"),
        ("mysql://u:s3cret#x@h/d", "port is not a number"),
        ("mysql://h:s3cret/d", "port is not a number"),
        ("mysql://[::1/d", "write mysql://"),
        ("mysql://u:s3cret x@h/d", "no blanks"),
        ("mysql:u:s3cret@h/d", "not a URL"),
        ("u:s3cret@h", "not a URL"),
        ("s3cret", "not a URL"),
        ("'mysql://u:s3cret@h/d'", "not a URL"),
        ("mysql://u:s3cret@h/d?serverTimezone=UTC", "unknown parameter 'serverTimezone'"),
        ("mysql://u:s3cret@h/d?ssl_verify=1", "did you mean 'ssl_verify_"),
        ("mysql://u:s3cret@h/d?pooler=session", "write pooler=transaction, or leave it out"),
        ("mysql://u:s3cret@h/d?poler=transaction", "did you mean 'pooler'"),
        ("sqlite://t.db", "three slashes"),
        ("sqlite://", "three slashes"),
        ("sqlite:///", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("sqlite:///file:x?mode=memory&uri=true", "in memory"),
    ],
)
def test_a_bad_database_url_is_refused_without_its_password(url: str, part: str) -> None:
    assert part in refused("TASKKIT_DATABASE_URL", url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://h",
        "redis://:p@h:6379/0",
        "rediss://u:p@h/3?ssl_cert_reqs=none",
        "unix:///run/redis.sock?db=1",
        "unix://:p@/run/redis.sock",
        "redis+sentinel://h1:26379,h2:26379/master/0",
        "redis+sentinel://:p@h1,[::1]:26379/master?sentinel_password=x",
        "redis+cluster://h1:7000,h2:7001",
        "rediss+sentinel://h1:26379,h2:26379/master/0",
        "rediss+cluster://h:7000",
    ],
)
def test_redis_urls_are_taken_as_they_are(url: str) -> None:
    assert Settings.load({"TASKKIT_REDIS_URL": url}).redis_url == url


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("http://h", "http:// is no broker that taskkit knows; write redis://host:6379/0"),
        ("memory://", "no broker that processes can share"),
        ("redis://:s3cret@", "host is missing"),
        ("redis://:s3cret", "port is not a number"),
        ("redis://:s3 cret@h", "no blanks"),
        ("redis+sentinel://:s3cret@h1:26379", "master's name"),
        ("redis://:s3cret@h?socket_timeout=60", "unknown parameter 'socket_timeout'"),
    ],
)
def test_a_bad_redis_url_is_refused_without_its_password(url: str, part: str) -> None:
    assert part in refused("TASKKIT_REDIS_URL", url)


@pytest.mark.parametrize(
    ("url", "kind", "hosts"),
    [
        ("redis://h", "redis", 1),
        ("redis://u:p@h:7000/3", "redis", 1),
        ("REDIS://h", "redis", 1),
        ("rediss://h:7000", "redis", 1),
        ("unix:///run/redis.sock?db=1", "redis", 0),
        ("redis+sentinel://h1/m", "sentinel", 1),
        ("redis+sentinel://:p@h1:1,[::1]:2,h3/m/2", "sentinel", 3),
        ("rediss+sentinel://h1,h2/m/1", "sentinel", 2),
        ("redis+cluster://h1", "cluster", 1),
        ("redis+cluster://h1:7000,h2:7001,[::1]", "cluster", 3),
        ("rediss+cluster://h1,h2/0", "cluster", 2),
    ],
)
def test_what_settings_accept_the_queue_connects_to(url: str, kind: str, hosts: int) -> None:
    settings = Settings.load({"TASKKIT_REDIS_URL": url})
    assert settings.redis_url == url
    target = parse(url)
    assert (target.kind, len(target.hosts)) == (kind, hosts)
    connect(url).close()


@pytest.mark.parametrize("url", ["redis://", "http://h", "redis://h1,h2", "redis+cluster://h/3", "unix://x"])
def test_what_settings_refuse_the_queue_refuses_in_the_same_words(url: str) -> None:
    with pytest.raises(SettingsError) as by_settings:
        Settings.load({"TASKKIT_REDIS_URL": url})
    with pytest.raises(SettingsError) as by_queue:
        connect(url)
    assert str(by_settings.value).endswith(str(by_queue.value).removeprefix("redis_url: "))


# ---- secrets


def test_a_password_is_never_shown() -> None:
    settings = Settings.load(
        {
            "TASKKIT_DATABASE_URL": "mysql://root:s3cret@db/x?ssl_key_password=s3cret",
            "TASKKIT_REDIS_URL": "redis+sentinel://:s3cret@cache/m?sentinel_password=s3cret",
        }
    )
    shown = [repr(settings), str(settings), f"{settings}", repr([settings]), pretty_repr(settings)]
    shown.append(str(settings.shown()))
    assert [text for text in shown if "s3cret" in text or "root:***@db" not in text] == []
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 - our own bytes


def test_shown_holds_every_setting_as_plain_json() -> None:
    shown = Settings.load({"TASKKIT_QUEUES": "a"}).shown()
    assert msgspec.json.decode(msgspec.json.encode(shown)) == shown
    assert {"home", "worker.processes", "scheduler.window"} <= set(shown)
    assert shown["queues"] == ["a"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mysql://root:pw@db/x", "mysql://root:***@db/x"),
        ("mysql://root:p@w/d#?@db/x", "mysql://root:***@db/x"),
        ("mysql://root:p w@db/x", "mysql://root:***@db/x"),
        ("redis://:pw@h:6379/0", "redis://:***@h:6379/0"),
        ("redis://h:6379/0", "redis://h:6379/0"),
        ("redis+sentinel://h1:1,h2:2/m", "redis+sentinel://h1:1,h2:2/m"),
        ("redis://:pw", "redis://:***"),
        ("https://h/send?key=abc&x=1", "https://h/send?key=***&x=1"),
        ("https://h/send?access_token=abc", "https://h/send?access_token=***"),
        ("sqlite:////data/t.db", "sqlite:////data/t.db"),
        ("unix:///a/b.sock", "unix:///a/b.sock"),
        ("root:pw@db", "***"),
    ],
)
def test_redact_shows_a_url_without_its_secrets(url: str, shown: str) -> None:
    assert redact(url) == shown


def test_redact_text_leaves_other_words_alone() -> None:
    text = "at 12:30 a@b said redis://u:pw@h/0 is down, see https://x/y?token=abc"
    assert redact_text(text) == "at 12:30 a@b said redis://u:***@h/0 is down, see https://x/y?token=***"
    assert redact_text("no url: a:b@c") == "no url: a:b@c"
