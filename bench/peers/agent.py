"""Producer side of one system; runs inside that system's virtual environment.

``python agent.py SYSTEM ACTION [OPTIONS]`` loads ``systems/SYSTEM.py`` and
prints one JSON object.  Actions:

* ``setup`` / ``teardown``: call the function of that name,
* ``enqueue --task T --first I --count N [--seconds S] [--bulk B]``: enqueue
  tasks I.. as single calls (or B a call through the bulk API) until N are in or
  S seconds have passed; the first task is a single call before the clock starts,
* ``pace --first I --count N --gap G``: enqueue one no-op each G seconds (latency
  test), after one no-op with the id I - 1 and a pause that lets it run,
* ``workers``: print the worker commands,
* ``versions``: print the versions of the distributions in SPEC["versions"].
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.metadata
import inspect
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


async def call(function, *args):
    """Call a plain or an async function."""
    result = function(*args)
    return await result if inspect.isawaitable(result) else result


async def enqueue(producer, task: str, first: int, count: int, seconds: float, bulk: int) -> dict:
    """Enqueue tasks one by one, or ``bulk`` a call, and time it."""
    is_async = inspect.iscoroutinefunction(producer.enqueue)
    await call(producer.enqueue, task, first, time.time())  # pays for imports and connections
    start, done, deadline = time.perf_counter(), 1, time.perf_counter() + seconds
    while done < count and time.perf_counter() < deadline:
        if bulk:
            size = min(bulk, count - done)
            now = time.time()
            await call(producer.enqueue_bulk, task, [(first + done + i, now) for i in range(size)])
            done += size
        elif is_async:
            await producer.enqueue(task, first + done, time.time())
            done += 1
        else:
            producer.enqueue(task, first + done, time.time())
            done += 1
    return {
        "count": done,
        "seconds": time.perf_counter() - start,
        "rate": (done - 1) / (time.perf_counter() - start),
    }


async def pace(producer, first: int, count: int, gap: float) -> dict:
    """Enqueue one no-op each ``gap`` seconds, on a fixed grid."""
    await call(producer.enqueue, "noop", first - 1, time.time())
    await asyncio.sleep(1)
    begin = time.perf_counter()
    for number in range(count):
        delay = begin + number * gap - time.perf_counter()
        if delay > 0:
            await asyncio.sleep(delay)
        await call(producer.enqueue, "noop", first + number, time.time())
    return {"count": count}


async def produce(module, options) -> dict:
    """Open the system's producer, run one action with it, close it."""
    producer = await call(module.open_producer)
    try:
        if options.action == "pace":
            return await pace(producer, options.first, options.count, options.gap)
        return await enqueue(
            producer, options.task, options.first, options.count, options.seconds, options.bulk
        )
    finally:
        if hasattr(producer, "close"):
            await call(producer.close)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("system")
    parser.add_argument("action")
    parser.add_argument("--task", default="noop")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--bulk", type=int, default=0)
    parser.add_argument("--gap", type=float, default=0.02)
    options = parser.parse_args()
    module = importlib.import_module(f"systems.{options.system}")
    if options.action in ("enqueue", "pace"):
        answer = asyncio.run(produce(module, options))
    elif options.action == "workers":
        answer = module.worker_commands()
    elif options.action == "versions":
        answer = {name: importlib.metadata.version(name) for name in module.SPEC["versions"]}
    else:
        function = getattr(module, options.action, None)
        answer = asyncio.run(call(function)) if function else None
    print("\n" + json.dumps(answer))


if __name__ == "__main__":
    main()
