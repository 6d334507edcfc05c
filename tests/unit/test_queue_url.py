"""Broker URLs: what is read from them, and that a wrong one is refused without showing a password."""

from __future__ import annotations

import pytest

from taskkit.errors import SettingsError
from taskkit.queues.connect import connect
from taskkit.settings.brokers import parse

TLS = {"ssl_cert_reqs": "required", "ssl_check_hostname": True}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h", {"kind": "redis", "hosts": (("h", 6379),), "username": None, "password": None}),
        ("redis://h", {"db": 0, "tls": None}),
        ("redis://h:7000/3", {"hosts": (("h", 7000),), "db": 3}),
        ("redis://h?db=4", {"db": 4}),
        ("redis://[::1]:7000", {"hosts": (("::1", 7000),)}),
        ("redis://[::1]", {"hosts": (("::1", 6379),)}),
        ("redis://:[p]@h", {"hosts": (("h", 6379),), "password": "[p]"}),
        ("redis+cluster://[::1]:1,h,[::2]", {"hosts": (("::1", 1), ("h", 6379), ("::2", 6379))}),
        ("redis://:p%40ss@h", {"username": None, "password": "p@ss"}),
        ("redis://user:p:w@h", {"username": "user", "password": "p:w"}),
        ("redis://us%3Aer:%23@h", {"username": "us:er", "password": "#"}),
        ("rediss://h", {"kind": "redis", "tls": TLS}),
        ("rediss://h?ssl_ca_certs=/ca.pem", {"tls": {**TLS, "ssl_ca_certs": "/ca.pem"}}),
        (
            "rediss://h?ssl_cert_reqs=CERT_NONE",
            {"tls": {"ssl_cert_reqs": "none", "ssl_check_hostname": False}},
        ),
        ("rediss://h?ssl_check_hostname=false", {"tls": {**TLS, "ssl_check_hostname": False}}),
        ("unix:///run/redis.sock", {"kind": "redis", "path": "/run/redis.sock", "db": 0}),
        ("unix://u:p@/a%20b.sock?db=2", {"path": "/a b.sock", "db": 2, "username": "u", "password": "p"}),
        (
            "redis+sentinel://u:p@h1:1,h2/mymaster/2",
            {
                "kind": "sentinel",
                "hosts": (("h1", 1), ("h2", 26379)),
                "master": "mymaster",
                "db": 2,
                "username": "u",
                "password": "p",
                "sentinel_password": None,
            },
        ),
        ("redis+sentinel://h/m", {"db": 0, "master": "m"}),
        (
            "redis+sentinel://h/m?sentinel_password=x&sentinel_username=y",
            {"sentinel_username": "y", "sentinel_password": "x"},
        ),
        ("rediss+sentinel://h/m/1", {"kind": "sentinel", "tls": TLS}),
        ("redis+cluster://h1,h2:7001", {"kind": "cluster", "hosts": (("h1", 6379), ("h2", 7001))}),
        ("rediss+cluster://h/0", {"kind": "cluster", "tls": TLS}),
        ("memory://", {"kind": "memory"}),
        ("memory://x", {"kind": "memory", "path": "x"}),
    ],
)
def test_a_url_is_read(url: str, expected: dict[str, object]) -> None:
    target = parse(url)
    assert {name: getattr(target, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "not a URL"),
        ("localhost:6379", "not a URL"),
        ("http://h", "http:// is no broker that taskkit knows"),
        ("mysql://u:secret@h", "mysql:// is no broker that taskkit knows"),
        ("redis://", "host is missing"),
        ("redis://:secret@", "host is missing"),
        ("redis+sentinel://h1:26379,/master/0", "host is missing"),
        ("redis+sentinel://h1:26379,h2:x/master/0", "port is not a number"),
        ("redis://u:secret@h:port", "port"),
        ("redis://u:secret@h:0", "port"),
        ("redis://u:secret@h:65536", "port"),
        ("redis://u:secret@h:-1", "port"),
        ("redis://u:sec/secret@h", "in a password write @ as %40"),
        ("redis://u:sec#secret@h", "%23"),
        ("redis://u:secret@[::1", "in a password write @ as %40"),
        ("redis+cluster://u:secret@h1,[::1", "the brackets hold no IPv6 address"),
        ("redis+cluster://u:secret@h1,::1]:7", "port is not a number"),
        ("redis+cluster://u:secret@h1,h2]:7", "the brackets hold no IPv6 address"),
        ("redis+cluster://u:secret@[h1]:7,h2", "the brackets hold no IPv6 address"),
        ("redis+cluster://u:secret@[::1]7,h2", "port is not a number"),
        ("redis://u:secret@h/abc", "database"),
        ("redis://u:secret@h/-1", "database"),
        ("redis://u:secret@h/1.5", "database"),
        ("redis://u:secret@h1,h2", "several hosts"),
        ("redis://u:secret@h?socket_timeout=60", "socket_timeout"),
        ("rediss://u:secret@h?ssl_cert_reqs=maybe", "maybe"),
        ("unix://", "three slashes"),
        ("unix://run/redis.sock", "three slashes"),
        ("unix:///", "three slashes"),
        ("redis+sentinel://u:secret@h", "master"),
        ("redis+sentinel://u:secret@h/m/x", "database"),
        ("redis+cluster://u:secret@h/3", "only database 0"),
    ],
)
def test_a_wrong_url_is_refused_by_name(url: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem) as caught:
        parse(url)
    assert "secret" not in str(caught.value)


def test_the_queue_names_the_setting_whose_url_is_wrong() -> None:
    with pytest.raises(SettingsError, match=r"^redis_url: the database is not a number"):
        connect("redis://u:secret@h/abc")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://u:secret@h:7/1", "h:7"),
        ("redis://u:secret@[::1]:7", "[::1]:7"),
        ("unix://u:secret@/run/r.sock", "/run/r.sock"),
        ("redis+sentinel://u:secret@h1,h2:2/m?sentinel_password=secret", "m by sentinels h1:26379, h2:2"),
    ],
)
def test_a_target_shows_its_address_and_no_password(url: str, address: str) -> None:
    target = parse(url)
    assert target.address == address
    assert "secret" not in repr(target)
    assert set(target.secrets) == {"secret"}
