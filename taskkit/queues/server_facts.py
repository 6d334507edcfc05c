"""What a Redis server says of itself: read with INFO and CONFIG GET, absent where that is forbidden."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from taskkit.queues.trouble import Trouble
from taskkit.queues.wire import Command

Exchange = Callable[[Sequence[Command]], list[Any]]


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Facts of one server; None where it did not tell.

    ``persistence`` is none, rdb, aof or rdb+aof; ``saving`` says whether it worked last.
    """

    product: str = "redis"
    version: str | None = None
    lmpop: bool | None = None
    persistence: str | None = None
    maxmemory_policy: str | None = None
    maxmemory: int | None = None
    used_memory: int | None = None
    clients: int | None = None
    maxclients: int | None = None
    role: str | None = None
    uptime_s: int | None = None
    saving: bool | None = None
    evicted: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Its masters by address, how many slots nobody owns, and which masters have no replica."""

    masters: Mapping[str, ServerFacts] = field(default_factory=dict)
    uncovered: int = 0
    alone: tuple[str, ...] = ()


def read_facts(exchange: Exchange) -> ServerFacts:
    """Ask the server; raises BrokerUnavailable only when it cannot be reached."""
    info, lmpop, *settings = exchange(
        [("INFO",), ("COMMAND", "INFO", "LMPOP"), *(("CONFIG", "GET", name) for name in _SETTINGS)]
    )
    if isinstance(info, Trouble) and info.code in {"CONNECT", "TIMEOUT", "CUT", "CLOSED"}:
        raise info.raised()
    said = _parse_info(info)
    config = {name: _setting(reply) for name, reply in zip(_SETTINGS, settings, strict=True)}
    return ServerFacts(
        product=said.get("server_name", "redis"),
        version=said.get("valkey_version", said.get("redis_version")),
        lmpop=_has_lmpop(lmpop, said),
        persistence=_persistence(said, config["save"]),
        maxmemory_policy=said.get("maxmemory_policy", config["maxmemory-policy"]),
        maxmemory=_number(said.get("maxmemory")),
        used_memory=_number(said.get("used_memory")),
        clients=_number(said.get("connected_clients")),
        maxclients=_number(said.get("maxclients", config["maxclients"])),
        role=said.get("role"),
        uptime_s=_number(said.get("uptime_in_seconds")),
        saving=_saving(said),
        evicted=_number(said.get("evicted_keys")),
    )


_SETTINGS = ("save", "maxmemory-policy", "maxclients")


def _parse_info(reply: Any) -> dict[str, str]:
    if not isinstance(reply, bytes):
        return {}
    lines = (line.partition(":") for line in reply.decode("utf-8", "replace").splitlines())
    return {key: value for key, colon, value in lines if colon}


def _setting(reply: Any) -> str | None:
    if not isinstance(reply, list) or len(reply) != 2:
        return None
    return str(reply[1].decode("utf-8", "replace"))


def _has_lmpop(reply: Any, said: dict[str, str]) -> bool | None:
    if isinstance(reply, list) and reply:
        return bool(reply[0])
    major = said.get("redis_version", "").partition(".")[0]
    return int(major) >= 7 if major.isdigit() else None


def _persistence(said: dict[str, str], save: str | None) -> str | None:
    if "aof_enabled" not in said:
        return None
    aof = said["aof_enabled"] == "1"
    if save is None:
        return "aof" if aof else None
    kinds = [kind for kind, on in (("rdb", bool(save)), ("aof", aof)) if on]
    return "+".join(kinds) or "none"


def _saving(said: dict[str, str]) -> bool | None:
    """Whether the last save of each kind went well; a server whose save failed refuses writes."""
    states = [said[name] for name in _SAVES if name in said]
    return all(state == "ok" for state in states) if states else None


_SAVES = ("rdb_last_bgsave_status", "aof_last_write_status")


def rehearse(exchange: Exchange, key: bytes, *, lmpop: bool) -> dict[str, str]:
    """Send what taskkit sends, to a key that it leaves empty; the commands that were refused, and how."""
    commands: list[Command] = [
        ("PING",),
        ("RPUSH", key, b"a", b"b", b"c", b"d"),
        ("TYPE", key),
        ("LLEN", key),
        ("LRANGE", key, 0, -1),
        ("LTRIM", key, -4, -1),
        ("LPOP", key, 2),
        ("BLPOP", key, "0.01"),
        *(_newer(key) if lmpop else ()),
        ("LTRIM", key, 1, 0),
    ]
    replies = exchange(commands)
    refused: dict[str, str] = {}
    for command, reply in zip(commands, replies, strict=True):
        if isinstance(reply, Trouble) and not (reply.code == "UNKNOWN" and "LMPOP" in str(command[0])):
            refused.setdefault(str(command[0]), reply.text)
    return refused


def _newer(key: bytes) -> list[Command]:
    """What is sent from Redis 7 on; a server that does not know them gets the others."""
    return [("LMPOP", 1, key, "LEFT", "COUNT", 9), ("BLMPOP", "0.01", 1, key, "LEFT", "COUNT", 9)]


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
