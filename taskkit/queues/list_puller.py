"""Pulling from Redis lists: LMPOP and BLMPOP where the server has them, LLEN, LPOP and BLPOP where not."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from taskkit import clock
from taskkit.errors import BrokerUnavailable
from taskkit.model import ListName
from taskkit.queues import base
from taskkit.queues.base import Pulled
from taskkit.queues.keys import Keys
from taskkit.queues.order import Order, Pop, Queues, Taken
from taskkit.queues.trouble import Trouble, is_wrongtype
from taskkit.queues.wire import Command, Exchanger

SLICE_S = 0.05
"""On a cluster: how long one queue is waited for before the next one has its turn."""

AVOID_S = 30.0
"""How long a key that is no list is left out before it is looked at again."""

log = logging.getLogger(__name__)


class ListPuller:
    """Takes messages by the order given, and leaves out keys that are no lists."""

    def __init__(
        self, line: Exchanger, keys: Keys, order: Order, *, lmpop: bool = True, one_slot: bool = False
    ) -> None:
        self._line = line
        self._keys = keys
        self._order = order
        self._lmpop = lmpop and not one_slot
        self._one_slot = one_slot
        self._turn = 0
        self._wrong: dict[ListName, float] = {}
        self._pulling = threading.Lock()

    def pull(self, queues: Queues, count: int, timeout: float) -> Pulled:
        """Take what waits, up to ``count``; wait up to ``timeout`` seconds when nothing does."""
        if count <= 0:
            return Pulled()
        with self._pulling:
            found = self._order.sweep(queues, count, self._pop)
            if not found and timeout > 0:
                found = self._wait(queues, count, timeout)
        return base.read((taken.name, raw) for taken in found for raw in taken.raws)

    def _pop(self, pops: Sequence[Pop]) -> list[Taken | None]:
        """Carry out the steps; raises only when nothing was taken and the next try would be no better."""
        if not self._lmpop:
            return self._pop_each(pops)
        keys = {low: _counted(self._usable(lists)) for low, lists in _both(pops).items()}
        replies = self._line.exchange([("LMPOP", *keys[pop.low], "LEFT", "COUNT", pop.count) for pop in pops])
        taken = [self._taken(reply) for reply in replies]
        trouble = next((reply for reply in replies if isinstance(reply, Trouble)), None)
        if trouble is None or any(taken):
            return taken
        if not self._mend(trouble, pops[0].lists):
            raise trouble.raised()
        return self._pop(pops)

    def _pop_each(self, pops: Sequence[Pop]) -> list[Taken | None]:
        """The same for a server without LMPOP: look at the lengths first, then take from each list."""
        lengths = self._lengths(pops[0].lists)
        waiting = {low: [name for name in lists if lengths.get(name)] for low, lists in _both(pops).items()}
        commands: list[Command | None] = []
        for pop in pops:
            name = next((name for name in waiting[pop.low] if lengths[name]), None)
            if name is not None:
                lengths[name] -= min(pop.count, lengths[name])
            commands.append(None if name is None else ("LPOP", self._keys.list(name), pop.count))
        replies = iter(self._line.exchange([command for command in commands if command]))
        answers = [(command[1], next(replies)) if command else None for command in commands]
        taken = [self._taken(answer) for answer in answers]
        trouble = next((answer[1] for answer in answers if answer and isinstance(answer[1], Trouble)), None)
        if trouble is not None and not any(taken):
            raise trouble.raised()
        return taken

    def _lengths(self, lists: Sequence[ListName]) -> dict[ListName, int]:
        """Of the lists that tell; raises when none does."""
        keys = self._usable(lists)
        replies = dict(zip(keys, self._line.exchange([("LLEN", key) for key in keys]), strict=True))
        self._avoid(key for key, reply in replies.items() if is_wrongtype(reply))
        lengths = {self._keys.name(key): n for key, n in replies.items() if not isinstance(n, Trouble)}
        if not lengths:
            raise next(reply for reply in replies.values() if isinstance(reply, Trouble)).raised()
        return lengths

    def _wait(self, queues: Queues, count: int, timeout: float) -> list[Taken]:
        """Block until something arrives; on a cluster at one slot after the other: a queue, or an own shard of one."""
        slots = self._order.slots(queues) if self._one_slot else []
        if len(slots) < 2 and not (slots and self._order.is_split(queues)):
            return self._block(queues, None, count, timeout)
        deadline = clock.monotonic() + timeout
        while (left := deadline - clock.monotonic()) > 0:
            self._turn += 1
            slot = slots[self._turn % len(slots)]
            found = self._block(queues, slot, count, min(left, SLICE_S)) or self._order.sweep(
                queues, count, self._pop
            )
            if found:
                return found
        return []

    def _block(self, queues: Queues, slot: tuple[str, int] | None, count: int, timeout: float) -> list[Taken]:
        pop = self._order.plan(queues, count, "probe")[0]
        lists = [name for name in pop.lists if slot is None or (name.queue, name.shard) == slot]
        keys = self._usable(lists)
        command: Command = ("BLPOP", *keys, in_seconds(timeout))
        if self._lmpop:
            command = ("BLMPOP", in_seconds(timeout), *_counted(keys), "LEFT", "COUNT", pop.count)
        reply = self._line.exchange([command], timeout)[0]
        if isinstance(reply, Trouble):
            if not self._mend(reply, lists):
                raise reply.raised()
            return []
        taken = self._taken(reply)
        if taken is None:
            return []
        self._order.took(queues, pop, taken)
        return [taken]

    def _taken(self, reply: Any) -> Taken | None:
        key, raws = reply if isinstance(reply, list | tuple) else (b"", None)
        if isinstance(raws, bytes):
            raws = [raws]
        return Taken(self._keys.name(key), raws) if isinstance(raws, list) and raws else None

    def _usable(self, lists: Sequence[ListName]) -> list[bytes]:
        """The keys of the lists, without those that are no lists."""
        now = clock.monotonic()
        wrong = {name for name, until in self._wrong.items() if until > now}
        keys = [self._keys.list(name) for name in lists if not wrong or name not in wrong]
        if not keys:
            raise BrokerUnavailable(
                f"none of the keys of queue {lists[0].queue!r} is a list: DEL or RENAME them"
            )
        return keys

    def _mend(self, trouble: Trouble, lists: Sequence[ListName]) -> bool:
        """Whether the next try goes another way: without LMPOP, or without the keys that are no lists."""
        if trouble.code == "WRONGTYPE":
            keys = self._usable(lists)
            kinds = self._line.exchange([("TYPE", key) for key in keys])
            return self._avoid([key for key, kind in zip(keys, kinds, strict=True) if _is_no_list(kind)])
        if trouble.code in {"UNKNOWN", "NOPERM"} and self._lmpop:
            self._lmpop = False
            return True
        return False

    def _avoid(self, keys: Iterable[bytes]) -> bool:
        names = [self._keys.name(key) for key in keys]
        for name in names:
            self._wrong[name] = clock.monotonic() + AVOID_S
            log.warning(
                "%s is not a list and is left out of pulls: DEL or RENAME it", self._keys.list(name).decode()
            )
        return bool(names)


def _both(pops: Sequence[Pop]) -> dict[bool, tuple[ListName, ...]]:
    """The two ways through the lists: all steps of a trip from the top share one, those from the bottom the other."""
    return {pop.low: pop.lists for pop in pops}


def _is_no_list(kind: Any) -> bool:
    return isinstance(kind, bytes) and kind not in {b"list", b"none"}


def _counted(keys: Sequence[bytes]) -> Command:
    return (len(keys), *keys)


def in_seconds(timeout: float) -> str:
    """Never 0, which Redis takes for ever."""
    return f"{max(timeout, 0.001):.3f}"
