"""How a connection is made: to a server, to the master that the sentinels name, or to a node of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from taskkit.identity import connection_name
from taskkit.queues.trouble import REPLY_ERRORS, NoMaster
from taskkit.settings.brokers import Target, host_port

CONNECT_S = 1.0
REPLY_S = 2.0


class Link(Protocol):
    """What is used of redis-py's connection."""

    def connect(self) -> None: ...
    def disconnect(self) -> None: ...
    def send_command(self, *args: str | bytes | int) -> None: ...
    def pack_commands(self, commands: Sequence[tuple[str | bytes | int, ...]]) -> list[bytes]: ...
    def send_packed_command(self, command: list[bytes], check_health: bool = True) -> None: ...
    def can_read(self, timeout: float) -> bool: ...
    def read_response(self, *, disconnect_on_error: bool = True) -> Any: ...


Dial = Callable[[], Link]
_tcp = cast(Callable[..., Link], redis.Connection)
_tls = cast(Callable[..., Link], redis.SSLConnection)
_unix = cast(Callable[..., Link], redis.UnixDomainSocketConnection)


def dialler(target: Target, connect_s: float = CONNECT_S, reply_s: float = REPLY_S) -> Dial:
    """A function that opens a new connection to what the URL names; it raises RedisError or OSError."""
    options = _options(target, connect_s, reply_s)
    if target.kind == "sentinel":
        return lambda: _open_master(target, options)
    if target.path:
        return lambda: _opened(_unix(path=target.path, **options))
    return node_dialler(target, *target.hosts[0], connect_s, reply_s)


def node_dialler(
    target: Target, host: str, port: int, connect_s: float = CONNECT_S, reply_s: float = REPLY_S
) -> Dial:
    """The same for one host, with the account and TLS of the URL."""
    options = _options(target, connect_s, reply_s)
    return lambda: _opened(_connection(target, host, port, options))


def _options(target: Target, connect_s: float, reply_s: float) -> dict[str, Any]:
    """Nothing is left to redis-py's defaults: its time-outs differ by version and its re-sends double messages."""
    return {
        "db": target.db,
        "username": target.username,
        "password": target.password,
        "socket_connect_timeout": connect_s,
        "socket_timeout": reply_s,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_timeout": False,
        "health_check_interval": 0,
        "protocol": 2,
        "decode_responses": False,
    }


def _connection(target: Target, host: str, port: int, options: dict[str, Any]) -> Link:
    if target.tls is not None:
        return _tls(host=host, port=port, socket_keepalive=True, **options, **target.tls)
    return _tcp(host=host, port=port, socket_keepalive=True, **options)


def _opened(link: Link) -> Link:
    """Connect and say who we are; an account that may not is let in without a name."""
    link.connect()
    try:
        link.send_command("CLIENT", "SETNAME", connection_name())
        link.read_response()
    except REPLY_ERRORS:
        return link
    except BaseException:
        link.disconnect()
        raise
    return link


def _open_master(target: Target, options: dict[str, Any]) -> Link:
    """Ask one sentinel after the other, and make sure that what it names is a master."""
    answers: list[str] = []
    for sentinel in target.hosts:
        try:
            master = _ask(target, *sentinel, options)
            if master is not None:
                return _checked_master(target, *master, options)
            answers.append(f"{host_port(*sentinel)}: knows no master {target.master!r}")
        except (redis.RedisError, OSError) as error:
            answers.append(f"{host_port(*sentinel)}: {error}")
    raise NoMaster(f"has no master that can be reached ({'; '.join(answers)})")


def _ask(target: Target, host: str, port: int, options: dict[str, Any]) -> tuple[str, int] | None:
    account = {"db": 0, "username": target.sentinel_username, "password": target.sentinel_password}
    link = _opened(_connection(target, host, port, options | account))
    try:
        link.send_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", target.master)
        reply = link.read_response()
    finally:
        link.disconnect()
    return None if reply is None else (reply[0].decode(), int(reply[1]))


def _checked_master(target: Target, host: str, port: int, options: dict[str, Any]) -> Link:
    """During a failover the sentinels still name the old master, which then says that it is a replica."""
    link = _opened(_connection(target, host, port, options))
    try:
        link.send_command("ROLE")
        role = link.read_response()[0]
    except redis.ResponseError:  # the account may not ask; pushes to a replica are refused anyway
        return link
    if role != b"master":
        link.disconnect()
        raise NoMaster(f"{host_port(host, port)} is a replica now, a failover is under way")
    return link
