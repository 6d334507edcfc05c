"""How each kind of fault is carried out, on whom, and what is written down about it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import redis

from bench.chaos.adversary import Planned
from bench.chaos.crew import Crew, Start
from bench.chaos.evidence import Fault
from bench.chaos.pressure import Pressure
from bench.chaos.stage import Stage

VICTIM_PATIENCE = 6.0
Told = tuple[int | None, str]


class NoVictim(Exception):
    """There was nobody to hit in time."""


class Adversary:
    """Carries a plan out. Servers have a thread each that lives to the end, since the kernel ends with it what it started."""

    def __init__(self, stage: Stage, crew: Crew, plan: Sequence[Planned], began: float) -> None:
        self.stage, self.crew, self.plan, self.began = stage, crew, plan, began
        self.done: list[Fault] = []
        self.over, self._gone = threading.Event(), threading.Event()
        self._pressure = Pressure(stage, self.over)
        self._hands = {
            "redis": ThreadPoolExecutor(1, "redis"),
            "sql": ThreadPoolExecutor(1, "sql"),
            "other": ThreadPoolExecutor(32, "hand"),
        }
        self._blows: dict[str, Callable[[Planned], Told]] = {
            "kill worker": lambda p: self._signal(p, "worker", signal.SIGKILL),
            "kill scheduler": lambda p: self._signal(p, "scheduler", signal.SIGKILL),
            "stop worker": lambda p: self._signal(p, "worker", signal.SIGTERM),
            "stop scheduler": lambda p: self._signal(p, "scheduler", signal.SIGTERM),
            "freeze worker": lambda p: self._freeze(p, "worker"),
            "freeze scheduler": lambda p: self._freeze(p, "scheduler"),
            "kill nursery": lambda p: self._kill_within(p, 0),
            "kill child": lambda p: self._kill_within(p, 1),
            "freeze child": self._freeze_child,
            "redis freeze": self._redis_freeze,
            "redis restart": self._redis_restart,
            "redis restart empty": self._redis_restart_empty,
            "redis flush": lambda _: self._redis(lambda client: client.flushall(), "all keys gone"),
            "redis cut": lambda _: self._redis(
                lambda client: client.client_kill_filter(_type="normal", skipme=True), "clients cut"
            ),
            "sql restart": self._sql_restart,
            "sql kill": self._sql_kill,
            "sql freeze": self._sql_freeze,
            "sql cut": self._pressure.cut,
            "sql hold rows": self._pressure.hold,
            "sql deadlock": self._pressure.deadlock,
        }

    def run(self) -> None:
        """Carry out the whole plan, then let everything go on."""
        waiting = []
        for planned in self.plan:
            if self._gone.wait(max(0.0, self.began + planned.at - time.monotonic())):
                break
            waiting.append(self._hand(planned).submit(self._strike, planned))
        self.over.set()
        for future in waiting:
            future.result()

    def give_up(self) -> None:
        """Leave the rest of the plan; what is frozen goes on."""
        self._gone.set()
        self.over.set()

    def close(self) -> None:
        """Let the threads end; the servers must have ended before."""
        for hand in self._hands.values():
            hand.shutdown()

    def _hand(self, planned: Planned) -> ThreadPoolExecutor:
        """Who carries it out: a server's own thread, unless it comes over a connection."""
        where = planned.kind.partition(" ")[0]
        own = where in {"redis", "sql"} and planned.kind not in {"sql cut", "sql hold rows", "sql deadlock"}
        return self._hands[where if own else "other"]

    def _strike(self, planned: Planned) -> None:
        began = time.monotonic()
        victim, note, hit = None, "", True
        try:
            victim, note = self._blows[planned.kind](planned)
        except NoVictim as nobody:
            note, hit = str(nobody), False
        except Exception as error:
            note, hit = f"{type(error).__name__}: {error}"[:200], False
        at = self.began + planned.at
        self.done.append(Fault(planned.kind, at, began, time.monotonic(), victim, note, hit))

    def _victim(self, planned: Planned, role: str) -> Start:
        deadline = time.monotonic() + VICTIM_PATIENCE
        while not (living := self.crew.living(role)):
            if time.monotonic() > deadline:
                raise NoVictim(f"no {role} was alive")
            time.sleep(0.05)
        return living[planned.pick % len(living)]

    def _signal(self, planned: Planned, role: str, number: int) -> Told:
        victim = self._victim(planned, role)
        victim.signal(number)
        return victim.pid, signal.Signals(number).name

    def _freeze(self, planned: Planned, role: str) -> Told:
        victim = self._victim(planned, role)
        victim.signal(signal.SIGSTOP)
        self.over.wait(planned.seconds)
        victim.signal(signal.SIGCONT)
        return victim.pid, f"for {planned.seconds:.1f} s"

    def _within(self, planned: Planned, generation: int) -> int:
        """The pid of a nursery (0) or a child (1) of some worker."""
        deadline = time.monotonic() + VICTIM_PATIENCE
        while True:
            with contextlib.suppress(NoVictim):
                found = self.crew.family(self._victim(planned, "worker"))[generation]
                if found:
                    return found[planned.pick // 7 % len(found)]
            if time.monotonic() > deadline:
                raise NoVictim("no worker had one")
            time.sleep(0.1)

    def _kill_within(self, planned: Planned, generation: int) -> Told:
        pid = self._within(planned, generation)
        os.kill(pid, signal.SIGKILL)
        return pid, "SIGKILL"

    def _freeze_child(self, planned: Planned) -> Told:
        pid = self._within(planned, 1)
        descriptor = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
            self.over.wait(planned.seconds)
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGCONT)
        finally:
            os.close(descriptor)
        return pid, f"for {planned.seconds:.1f} s"

    def _redis(self, act: Callable[[redis.Redis], object], note: str) -> Told:
        with redis.Redis.from_url(self.stage.valkey.url, socket_timeout=10) as client:
            told = act(client)
        return self.stage.valkey.pid, f"{note}: {told}"

    def _redis_freeze(self, planned: Planned) -> Told:
        self.stage.valkey.pause()
        self.over.wait(planned.seconds)
        self.stage.valkey.resume()
        return self.stage.valkey.pid, f"for {planned.seconds:.1f} s"

    def _redis_restart(self, planned: Planned) -> Told:
        with contextlib.suppress(redis.RedisError):
            self._redis(lambda client: client.save(), "saved")
        self.stage.valkey.kill()
        self._down(planned)
        return self.stage.valkey.start().pid, "with its data"

    def _redis_restart_empty(self, planned: Planned) -> Told:
        self.stage.valkey.kill()
        (self.stage.valkey.folder / "dump.rdb").unlink(missing_ok=True)
        self._down(planned)
        return self.stage.valkey.start().pid, "without data"

    def _down(self, planned: Planned) -> None:
        self.over.wait(random.Random(planned.pick).uniform(0, 2))

    def _sql_restart(self, planned: Planned) -> Told:
        assert self.stage.mariadb is not None
        self.stage.mariadb.stop()
        self._down(planned)
        return self.stage.mariadb.start().pid, "SIGTERM, started again"

    def _sql_kill(self, planned: Planned) -> Told:
        assert self.stage.mariadb is not None
        self.stage.mariadb.kill()
        self._down(planned)
        return self.stage.mariadb.start().pid, "SIGKILL, started again"

    def _sql_freeze(self, planned: Planned) -> Told:
        assert self.stage.mariadb is not None
        self.stage.mariadb.pause()
        self.over.wait(planned.seconds)
        self.stage.mariadb.resume()
        return self.stage.mariadb.pid, f"for {planned.seconds:.1f} s"
