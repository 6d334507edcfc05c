"""What is done to one system: calibrating, a round, the crash test and the FLUSHALL test."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import redis
from servers import Server
from system import System, cpu_seconds

NAPS = 20  # tasks in the crash test
FLUSH_TASKS = 1000
FLUSH_WAIT = 60  # seconds
LATENCY_FIRST = 10**7  # task ids from here on are those of the latency test
Running = Mapping[str, Server]


def clear(running: Running) -> redis.Redis:
    """Empty Redis and return a client."""
    client = redis.Redis(port=running["redis"].port)
    client.flushall()
    return client


def fresh(system: System, running: Running) -> redis.Redis:
    """Empty servers and records for a system; returns a Redis client."""
    client = clear(running)
    system.use(running)
    system.agent("setup")
    return client


def server_cpu(running: Running, names: list[str]) -> float:
    """CPU seconds of the named servers so far."""
    total = 0.0
    for name in names:
        process = psutil.Process(running[name].pid)
        total += cpu_seconds([process, *process.children(recursive=True)])
    return total


def quiet(seconds: float = 8) -> float:
    """Wait a little for other load on the machine to end; return the last CPU percentage seen."""
    end = time.monotonic() + seconds
    while True:
        busy = psutil.cpu_percent(0.4)
        if busy < 15 or time.monotonic() > end:
            return busy


def size_for(rate: float, seconds: float) -> int:
    """How many tasks make a run of about ``seconds``."""
    return int(min(max(rate * seconds, 200), 250000))


def calibrate(system: System, running: Running, seconds: float) -> dict[str, Any]:
    """Idle memory, and how many no-ops a run of about ``seconds`` needs."""
    idle = idle_memory(system, running)
    fresh(system, running)
    count = system.agent("enqueue", count=3000, seconds=1.5)["count"]
    system.start()
    system.wait(count, limit=30)
    system.kill()
    starts = sorted(r[4] for r in system.recorded.all())
    rate = (len(starts) - 1) / max(starts[-1] - starts[0], 0.05) if len(starts) > 1 else 50
    return {"idle_pss": idle, "n": size_for(rate, seconds), "rate": rate}


def idle_memory(system: System, running: Running) -> float:
    """PSS of the workers after one no-op; notes what starting them costs in CPU."""
    fresh(system, running)
    system.start()
    if system.spec.get("latency", True):
        system.agent("enqueue", count=1)
        if not system.wait(1, stall=30):
            raise RuntimeError(f"{system.key}: the first no-op did not run")
    else:
        time.sleep(2)
    time.sleep(0.5)
    idle = system.pss()
    system.start_cpu = system.cpu()
    system.kill()
    return idle


def measure(system: System, running: Running, n: int, latency_tasks: int) -> dict[str, Any]:
    """One round of one system: enqueue rates, throughput, memory, latency."""
    client = fresh(system, running)
    result: dict[str, Any] = {"background_cpu": quiet(), "n": n}
    total = enqueue_all(system, n, result)
    drain(system, running, client, total, result)
    time.sleep(1)
    result["pss"] = system.pss()
    if latency_tasks and system.spec.get("latency", True) and result["complete"]:
        pace(system, latency_tasks, result)
    system.kill()
    system.agent("teardown")
    return result


def enqueue_all(system: System, n: int, result: dict[str, Any]) -> int:
    """The enqueue rates, single and bulk; then the rest of ``n`` untimed. Returns how many are in."""
    single = system.agent("enqueue", count=n, seconds=1.5)
    result["enqueue"] = single["rate"]
    done = single["count"]
    if bulk := system.spec["bulk"]:
        many = system.agent("enqueue", first=done, count=max(n - done, bulk + 1), seconds=1.5, bulk=bulk)
        result["enqueue_bulk"] = many["rate"]
        done += many["count"]
    if done < n:
        system.top_up(done, n - done)
    return max(n, done)


def drain(system: System, running: Running, client: redis.Redis, total: int, result: dict[str, Any]) -> None:
    """Throughput and cost of ``total`` waiting tasks."""
    needed = system.info["servers"]
    commands, spent = client.info("stats")["total_commands_processed"], server_cpu(running, needed)
    system.start()
    result["complete"] = system.wait(total)
    result["worker_cpu_ms"] = (system.cpu() - system.start_cpu) * 1000 / total
    result["server_cpu_ms"] = (server_cpu(running, needed) - spent) * 1000 / total
    result["redis_commands"] = (client.info("stats")["total_commands_processed"] - commands - 1) / total
    records = system.recorded.all()
    starts = sorted(r[4] for r in records)
    if len(starts) > 1:
        result["seconds"] = starts[-1] - starts[0]
        result["throughput"] = (len(starts) - 1) / result["seconds"]
    result["ran"], result["total"] = len({r[2] for r in records}), total
    result["repeated"] = len(starts) - result["ran"]


def pace(system: System, tasks: int, result: dict[str, Any]) -> None:
    """Latency: one task each 20 ms on workers that have nothing else to do."""
    before = system.recorded.count()
    system.agent("pace", first=LATENCY_FIRST, count=tasks, gap=0.02)
    system.wait(before + tasks + 1, stall=5)
    found = [(r[4] - r[3]) * 1000 for r in system.recorded.all() if r[2] >= LATENCY_FIRST]
    result["latency"], result["latency_lost"] = found, tasks - len(found)


def crash(system: System, running: Running, patience: float) -> dict[str, Any]:
    """Kill all workers in the middle of 2 s tasks, start new ones, see what runs again within ``patience`` seconds."""
    system.use(running, settings="default", own_db=True)
    system.agent("setup")
    system.agent("enqueue", task="nap", count=NAPS)
    system.start()
    if not system.wait(1, stall=60):
        system.kill()
        return {"error": "no task started"}
    time.sleep(1)
    system.kill()
    killed = time.time()
    before = system.recorded.all()
    time.sleep(1)
    system.start()
    while time.time() < killed + patience and len(_ended(system.recorded.all())) < NAPS:
        time.sleep(0.2)
    system.kill()
    return judge_crash(before, system.recorded.all(), killed)


def judge_crash(before: list[tuple], after: list[tuple], killed: float) -> dict[str, Any]:
    """What became of the tasks, from the records at the kill and those at the end."""
    ended_before = _ended(before)
    flying = {r[2] for r in before if r[0] == b"s"} - ended_before
    again: dict[int, float] = {}
    for kind, _, task, _, now in after:
        if kind == b"s" and task in flying and now > killed:
            again.setdefault(task, now - killed)
    starts = [r[2] for r in after if r[0] == b"s"]
    ends = [r[2] for r in after if r[0] == b"e"]
    missing = set(range(NAPS)) - set(ends)
    return {
        "in_flight": len(flying),
        "ended_before": len(ended_before),
        "in_flight_again": len(again),
        "again_first": min(again.values(), default=None),
        "again_last": max(again.values(), default=None),
        "missing": len(missing),
        "missing_not_started": len(missing - flying),
        "twice": sum(1 for task in set(starts) if starts.count(task) > 1),
        "completed_twice": len(ends) - len(set(ends)),
    }


def _ended(records: list[tuple]) -> set[int]:
    return {r[2] for r in records if r[0] == b"e"}


def flush_test(systems: list[System], running: Running, parallel: int) -> dict[str, dict[str, int]]:
    """FLUSHALL with tasks queued and no worker running: how many run within FLUSH_WAIT seconds afterwards."""
    clear(running)
    for system in systems:
        system.use(running, settings="default", own_db=True)
        system.agent("setup")
        system.agent("enqueue", count=FLUSH_TASKS)
    clear(running)

    def ran(system: System) -> dict[str, int]:
        try:
            system.start()
            system.wait(FLUSH_TASKS, stall=FLUSH_WAIT, limit=FLUSH_WAIT)
        finally:
            system.kill()
        return {"queued": FLUSH_TASKS, "ran": len({r[2] for r in system.recorded.all()})}

    with ThreadPoolExecutor(parallel) as pool:
        return {system.key: found for system, found in zip(systems, pool.map(ran, systems), strict=True)}
