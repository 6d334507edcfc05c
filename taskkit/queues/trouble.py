"""Every way in which Redis says no, in words that tell what is wrong, where, and what to do.

A *certain* trouble means that the command was not carried out; anything else may have been.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import redis

from taskkit.errors import BrokerUnavailable, PushRefused, PushUnknown

# code → what is wrong, what to do. The codes are the first word of the server's own reply.
REFUSALS: dict[str, tuple[str, str]] = {
    "OOM": ("is out of memory and refuses writes", "raise its maxmemory or free memory"),
    "READONLY": ("is a read-only replica", "point redis_url at the master, or use redis+sentinel://"),
    "LOADING": ("is still loading its data", "wait until it has; its log tells how far it is"),
    "MISCONF": ("cannot save to disk and refuses writes", "free disk space; its log has the cause"),
    "NOPERM": (
        "forbids this to the user",
        "grant it: ACL SETUSER … ~<prefix>* +@list +@connection +type, for locks +set +get +del +eval, on a cluster "
        "+cluster|slots",
    ),
    "NOAUTH": ("asks for a password", "write it into redis_url: redis://:password@host:6379/0"),
    "WRONGPASS": ("refuses user or password", "correct them in redis_url"),
    "MASTERDOWN": ("is a replica that has lost its master", "point redis_url at the master"),
    "CLUSTERDOWN": ("is a cluster that is down", "see CLUSTER INFO; slots are not covered"),
    "MOVED": ("is part of a cluster", "write redis+cluster://host:port as redis_url"),
    "ASK": ("is moving this slot to another node", "wait until the resharding is over"),
    "TRYAGAIN": ("is moving this slot to another node", "wait until the resharding is over"),
    "CROSSSLOT": ("is part of a cluster", "write redis+cluster://host:port as redis_url"),
    "WRONGTYPE": ("has something else than a list at this key", "look with TYPE, then DEL or RENAME it"),
    "NOREPLICAS": ("has too few replicas and refuses writes", "see min-replicas-to-write"),
    "BUSY": ("is busy with a script", "wait, or end it with SCRIPT KILL"),
    "UNBLOCKED": ("became a replica", "point redis_url at the master, or use redis+sentinel://"),
    "UNKNOWN": ("does not know this command", "taskkit needs Redis 6.2 or later, or any Valkey"),
}

LOST_ADVICE = "is it running, and is redis_url right?"

# The connection tells of a server that is not the right one any more: look for it anew.
STALE = frozenset({"READONLY", "MASTERDOWN", "UNBLOCKED", "LOADING", "NOAUTH"})

REPLY_ERRORS = (
    redis.ResponseError,
    redis.BusyLoadingError,
    redis.AuthenticationError,
    redis.exceptions.AuthorizationError,
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Stands in the place of a reply: ``code``, a sentence for people, and whether nothing was done for certain."""

    code: str
    text: str
    certain: bool
    node: tuple[str, int] | None = None
    """Where a cluster says to ask instead."""

    def raised(self) -> BrokerUnavailable:
        """The error for whoever asked."""
        return BrokerUnavailable(self.text)

    def pushed(self, key: bytes) -> BrokerUnavailable:
        """The error for whoever pushed to this key."""
        kind = PushRefused if self.certain else PushUnknown
        return kind(f"{self.text} (push to {key.decode()})")


class NoMaster(redis.ConnectionError):
    """No sentinel names a master that takes writes; the text is made for people."""


class Reporter:
    """Turns the errors of one address into troubles, without its passwords."""

    def __init__(self, address: str, secrets: Sequence[str] = ()) -> None:
        self.address = address
        self.secrets = secrets

    def reply(self, error: Exception) -> Trouble:
        """The server answered with an error; only the known refusals are certain, since a proxy may answer too."""
        code = code_of(error)
        if code in REFUSALS:
            return self._trouble(code, *REFUSALS[code], certain=True, node=_node_of(error))
        return self._trouble("ERR", f"answered: {error}", "see its log", certain=False)

    def unreachable(self, error: Exception) -> Trouble:
        """There is no connection, so nothing was sent."""
        if isinstance(error, REPLY_ERRORS):
            return self.reply(error) if code_of(error) in REFUSALS else self._greeting(error)
        cause = error.__context__ if isinstance(error.__context__, OSError) else error
        if isinstance(error, NoMaster):
            return self._trouble("CONNECT", str(error), "see SENTINEL MASTERS on one of them", certain=True)
        if isinstance(cause, ssl.SSLError):
            problem = f"cannot be reached by TLS ({cause.strerror or cause})"
            return self._trouble("CONNECT", problem, "see the ssl_ options of redis_url", certain=True)
        if isinstance(error, redis.exceptions.InvalidResponse):
            return self._trouble(
                "CONNECT", "does not speak Redis", "is the port right? does it want TLS?", certain=True
            )
        if "max number of clients" in str(error):
            return self._trouble("CONNECT", "has no connection left", "raise its maxclients", certain=True)
        words = "timed out" if isinstance(error, redis.TimeoutError) else _words(cause)
        return self._trouble("CONNECT", f"cannot be reached ({words})", LOST_ADVICE, certain=True)

    def cut(self, error: Exception) -> Trouble:
        """The connection broke after something was sent: it may or may not have been done."""
        if isinstance(error, redis.TimeoutError):
            return self._trouble(
                "TIMEOUT", "did not answer in time", "is it stopped or overloaded?", certain=False
            )
        return self._trouble("CUT", f"cut the connection ({_words(error)})", LOST_ADVICE, certain=False)

    def uncovered(self) -> Trouble:
        """No node of the cluster owns the key."""
        return self._trouble("CLUSTERDOWN", *REFUSALS["CLUSTERDOWN"], certain=True)

    def closed(self) -> Trouble:
        """Somebody closed the queue before."""
        return self._trouble("CLOSED", "was closed by this process", "connect again", certain=True)

    def _greeting(self, error: Exception) -> Trouble:
        return self._trouble("CONNECT", f"refuses the connection ({error})", "see its log", certain=True)

    def _trouble(
        self, code: str, problem: str, advice: str, *, certain: bool, node: tuple[str, int] | None = None
    ) -> Trouble:
        text = f"redis {self.address} {problem}: {advice}"
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return Trouble(code, text[:500], certain, node)


def code_of(error: Exception) -> str:
    """The code of an error reply; redis-py cuts it off the text of the kinds that it knows."""
    text = str(error)
    if isinstance(error, redis.AuthenticationError):
        return "NOAUTH" if "required" in text else "WRONGPASS"
    for kind, code in _KINDS:
        if isinstance(error, kind):
            return code
    if text.lower().removeprefix("err ").startswith("unknown command"):
        return "UNKNOWN"
    return text.partition(" ")[0]


def _node_of(error: Exception) -> tuple[str, int] | None:
    """The node that an ASK or MOVED names; None where it names none, or one of no address."""
    host = getattr(error, "host", None)
    return (str(host), int(error.port)) if host else None  # type: ignore[attr-defined]


def _words(error: BaseException) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).rstrip(".")


_KINDS: tuple[tuple[type[Exception], str], ...] = (
    (redis.exceptions.OutOfMemoryError, "OOM"),
    (redis.ReadOnlyError, "READONLY"),
    (redis.BusyLoadingError, "LOADING"),
    (redis.exceptions.NoPermissionError, "NOPERM"),
    (redis.exceptions.MasterDownError, "MASTERDOWN"),
    (redis.exceptions.ClusterDownError, "CLUSTERDOWN"),
    (redis.exceptions.ClusterCrossSlotError, "CROSSSLOT"),
    (redis.exceptions.MovedError, "MOVED"),
    (redis.exceptions.AskError, "ASK"),
    (redis.exceptions.TryAgainError, "TRYAGAIN"),
)


def raised(reply: Any) -> Any:
    """The reply, or the trouble that stands in its place as an error."""
    if isinstance(reply, Trouble):
        raise reply.raised()
    return reply


def is_wrongtype(reply: Any) -> bool:
    """Whether the key turned out to be something else than a list."""
    return isinstance(reply, Trouble) and reply.code == "WRONGTYPE"
