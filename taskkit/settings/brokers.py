"""A broker's URL, read strictly and only here, for settings and queues alike; nothing ever shows a password."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Any, NoReturn
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from taskkit.errors import SettingsError
from taskkit.hints import suggest
from taskkit.settings.urls import ESCAPED, NO_PORT, check_form

REDIS_PORT = 6379
SENTINEL_PORT = 26379
FORM = (
    "redis://host:6379/0, rediss://…, unix:///path/to/socket, "
    "redis+sentinel://host1:26379,host2:26379/master/0 or redis+cluster://host1:6379,host2:6379 "
    "(rediss+sentinel://, rediss+cluster:// with TLS)"
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a broker is and how to be let in."""

    kind: str
    hosts: tuple[tuple[str, int], ...] = ()
    path: str = ""
    db: int = 0
    master: str = ""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    tls: dict[str, Any] | None = None

    @property
    def address(self) -> str:
        """The address as messages show it: ``10.0.0.5:6379``, a socket's path, or the master's name."""
        hosts = ", ".join(host_port(*host) for host in self.hosts)
        return f"{self.master} by sentinels {hosts}" if self.master else self.path or hosts

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not stand in any message."""
        return tuple(word for word in (self.password, self.sentinel_password) if word)


def host_port(host: str, port: int) -> str:
    """``10.0.0.5:6379`` or ``[::1]:6379``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse(url: str) -> Target:
    """Read a broker's URL; raises SettingsError that says what is wrong and what to write."""
    check_form(url, FORM)
    parts = _split(url)
    if parts.scheme not in _BUILDERS:
        _refuse(f"{parts.scheme}:// is no broker that taskkit knows", f"write {FORM}")
    if parts.fragment:
        _refuse("there is a '#' in it", "write %23 where the password has one")
    return _BUILDERS[parts.scheme](parts, _options(parts))


def _split(url: str) -> SplitResult:
    """The parts of a URL that may name several hosts: what urlsplit makes of brackets among them depends on its version."""
    scheme, _, rest = url.partition("://")
    netloc = re.split("[/?#]", rest, maxsplit=1)[0]
    return urlsplit(f"{scheme}://-{rest[len(netloc) :]}")._replace(netloc=netloc)


def check_redis_url(url: str) -> None:
    """Raise SettingsError, saying what to write, unless processes can share this broker."""
    if parse(url).kind == "memory":
        _refuse("memory:// is no broker that processes can share", f"write {FORM}")


def _redis(parts: SplitResult, options: dict[str, str]) -> Target:
    hosts = _hosts(parts, REDIS_PORT)
    if len(hosts) > 1:
        _refuse("it has several hosts", "write redis+sentinel:// or redis+cluster:// for more than one")
    return Target("redis", hosts, db=_db(parts.path, options), **_account(parts, options))


def _unix(parts: SplitResult, options: dict[str, str]) -> Target:
    if parts.netloc.rpartition("@")[2] or len(parts.path) < 2:
        _refuse("the socket's path is missing", "write unix:///run/redis/redis.sock?db=0, with three slashes")
    return Target("redis", path=unquote(parts.path), db=_db("", options), **_account(parts, options))


def _sentinel(parts: SplitResult, options: dict[str, str]) -> Target:
    master, _, db = parts.path.strip("/").partition("/")
    if not master:
        _refuse(
            "the master's name is missing", "write redis+sentinel://host1:26379,host2:26379/master-name/0"
        )
    return Target(
        "sentinel",
        _hosts(parts, SENTINEL_PORT),
        db=_db(db, options),
        master=unquote(master),
        sentinel_username=options.get("sentinel_username"),
        sentinel_password=options.get("sentinel_password"),
        **_account(parts, options),
    )


def _cluster(parts: SplitResult, options: dict[str, str]) -> Target:
    if _db(parts.path, options):
        _refuse("it names a database", "leave the number out: a cluster has only database 0")
    return Target("cluster", _hosts(parts, REDIS_PORT), **_account(parts, options))


def _memory(parts: SplitResult, _options: dict[str, str]) -> Target:
    return Target("memory", path=parts.netloc + parts.path)


_BUILDERS: dict[str, Callable[[SplitResult, dict[str, str]], Target]] = {
    "redis": _redis,
    "rediss": _redis,
    "unix": _unix,
    "redis+sentinel": _sentinel,
    "rediss+sentinel": _sentinel,
    "redis+cluster": _cluster,
    "rediss+cluster": _cluster,
    "memory": _memory,
}


def _hosts(parts: SplitResult, default_port: int) -> tuple[tuple[str, int], ...]:
    text = parts.netloc.rpartition("@")[2]
    return tuple(_host(part, default_port) for part in text.split(","))


def _host(text: str, default_port: int) -> tuple[str, int]:
    host, colon, port = text.partition(":")
    if in_brackets := text.startswith("[") and "]" in text:
        host, _, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
    if in_brackets != _is_ip6(host) or "]" in host or "[" in host:
        _refuse(
            f"the brackets hold no IPv6 address ({ESCAPED})",
            "write [::1]:6379, and other hosts without brackets",
        )
    port = port or str(default_port)
    if colon not in {"", ":"} or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        _refuse(f"{NO_PORT} ({ESCAPED})", f"write {FORM}")
    if not host:
        _refuse("a host is missing", f"write {FORM}")
    return host, int(port)


def _is_ip6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def _db(path: str, options: dict[str, str]) -> int:
    text = path.strip("/") or options.get("db", "0")
    if not (text.isascii() and text.isdigit()):
        _refuse("the database is not a number", "write /0 at its end")
    return int(text)


def _account(parts: SplitResult, options: dict[str, str]) -> dict[str, Any]:
    userinfo = parts.netloc.rpartition("@")[0]
    username, _, password = userinfo.partition(":")
    return {
        "username": unquote(username) or None,
        "password": unquote(password) or None,
        "tls": _tls(options) if parts.scheme.startswith("rediss") else None,
    }


_TLS_FILES = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile")
_OPTIONS = {
    "db",
    "sentinel_username",
    "sentinel_password",
    "ssl_cert_reqs",
    "ssl_check_hostname",
    *_TLS_FILES,
}


def _options(parts: SplitResult) -> dict[str, str]:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in _OPTIONS:
            _refuse(
                f"unknown parameter {name!r} in the URL",
                f"known are {', '.join(sorted(_OPTIONS))}{suggest(name, _OPTIONS)}",
            )
    return options


def _tls(options: dict[str, str]) -> dict[str, Any]:
    check = options.get("ssl_cert_reqs", "required").lower().removeprefix("cert_")
    if check not in {"none", "optional", "required"}:
        _refuse(f"ssl_cert_reqs is {check!r}", "write none, optional or required")
    by_name = options.get("ssl_check_hostname", "true").lower() not in {"0", "false", "no"}
    files = {name: options[name] for name in _TLS_FILES if name in options}
    return {"ssl_cert_reqs": check, "ssl_check_hostname": by_name and check != "none", **files}


def _refuse(problem: str, advice: str) -> NoReturn:
    raise SettingsError(f"{problem}; {advice}")
