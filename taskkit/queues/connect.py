"""From a URL to a queue; the client library of a broker is loaded only when a URL asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from taskkit.errors import SettingsError
from taskkit.queues.base import Queue
from taskkit.queues.keys import Keys
from taskkit.queues.memory import MemoryQueue, MemoryStore
from taskkit.queues.order import Order
from taskkit.settings.brokers import Target, parse

if TYPE_CHECKING:
    from taskkit.queues.wire import Exchanger

_stores: dict[tuple[str, str], MemoryStore] = {}


def connect(url: str, prefix: str = "", *, order: Order | None = None, lmpop: bool = True) -> Queue:
    """The queue behind ``url``; no connection is made yet. Raises SettingsError for a wrong URL.

    ``order`` says from which list a pull takes next. ``lmpop`` False keeps to the commands of Redis 6.2.
    """
    target = _read(url)
    order = order or Order()
    if target.kind == "memory":
        return MemoryQueue(_stores.setdefault((target.path, prefix), MemoryStore()), order=order)
    return _redis(target, prefix, order, lmpop=lmpop)


class Asker:
    """A connection for single commands, beside the queue."""

    def __init__(self, exchanger: Exchanger, prefix: str) -> None:
        self.keys = Keys(prefix)
        self._exchanger = exchanger

    def ask(self, *command: str | bytes | int) -> Any:
        """The reply to one command; raises BrokerUnavailable."""
        from taskkit.queues.trouble import raised

        return raised(self._exchanger.exchange([command])[0])

    def close(self) -> None:
        """Disconnect."""
        self._exchanger.close()


def connect_asker(url: str, prefix: str = "") -> Asker:
    """Single commands to the server behind ``url``; no connection is made yet. Raises SettingsError for a wrong URL."""
    target = _read(url)
    if target.kind == "memory":
        raise SettingsError("redis_url: memory:// is no server that could be asked")
    return Asker(_exchanger(target), prefix)


def _read(url: str) -> Target:
    try:
        return parse(url)
    except SettingsError as problem:
        raise SettingsError(f"redis_url: {problem}") from None


def _redis(target: Target, prefix: str, order: Order, *, lmpop: bool) -> Queue:
    from taskkit.queues.redis import RedisQueue

    one_slot = target.kind == "cluster"
    pulls, rest = _exchanger(target), _exchanger(target)
    return RedisQueue(pulls, rest, prefix, order=order, lmpop=lmpop, one_slot=one_slot)


def _exchanger(target: Target) -> Exchanger:
    from taskkit.queues.cluster import ClusterWire
    from taskkit.queues.dial import dialler
    from taskkit.queues.trouble import Reporter
    from taskkit.queues.wire import Wire

    if target.kind == "cluster":
        return ClusterWire(target)
    return Wire(dialler(target), Reporter(target.address, target.secrets))
