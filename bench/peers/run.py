"""Measure Python task queues side by side on the same work and the same servers.

See README.md.  ``python run.py --install`` makes one virtual environment per
system; ``python run.py [--quick]`` measures and writes results.json and
results.md under PEERBENCH_HOME (or --out FOLDER).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import servers
from measures import FLUSH_WAIT, NAPS, calibrate, clear, crash, flush_test, measure, size_for
from system import HERE, HOME, System, load, plain_environment
from tables import markdown

AOF_SYSTEMS = ["huey:process", "taskiq:list"]
MAKERS: dict[str, Callable[[Path], servers.Server]] = {
    "redis": servers.Redis,
    "mariadb": servers.MariaDB,
    "postgres": servers.Postgres,
}


class Run:
    """One run: its servers, its systems and what was found so far."""

    def __init__(self, systems: Sequence[System], options: argparse.Namespace) -> None:
        self.systems, self.options = systems, options
        self.began = time.monotonic()
        self.running: dict[str, servers.Server] = {}
        self.sizes: dict[str, int] = {}
        self.results: dict[str, Any] = {
            "date": time.strftime("%Y-%m-%d %H:%M:%S"),
            "rounds": options.rounds,
            "naps": NAPS,
            "crash_wait": options.crash_wait,
            "flush_wait": FLUSH_WAIT,
            "servers": {},
            "systems": {},
            "crash": {},
            "flush": {},
            "aof": {},
            "errors": [],
            "background": [],
            "machine": f"{os.cpu_count()} CPUs, {psutil.virtual_memory().total / 2**30:.0f} GiB, "
            f"Python {platform.python_version()}, {platform.platform()}",
        }

    @property
    def crashing(self) -> list[System]:
        """Those that take part in the crash and FLUSHALL tests."""
        return [system for system in self.systems if system.spec.get("crash", True)]

    def run(self, stages: Sequence[str]) -> None:
        """All wanted stages; servers and workers are ended whatever happens."""
        try:
            self.start_servers()
            self.introduce(calibrating="rounds" in stages or "aof" in stages)
            for stage in ("rounds", "crash", "flush", "aof"):
                if stage in stages:
                    getattr(self, f"stage_{stage}")()
                    self.save()
        finally:
            for system in self.systems:
                system.kill()
            for server in self.running.values():
                server.stop()
        self.save()

    def start_servers(self) -> None:
        """The servers that somebody needs; Redis always."""
        for name in sorted({name for system in self.systems for name in system.info["servers"]} | {"redis"}):
            self.running[name] = MAKERS[name](HOME)
            self.results["servers"][name] = self.running[name].version()

    def guarded(self, system: System, step: Callable[..., Any], *args: Any) -> Any:
        """Run one step; on failure note the error, kill the workers and go on."""
        try:
            return step(system, *args)
        except Exception as error:  # a broken peer must not end the run
            self.results["errors"].append(f"{system.key} {step.__name__}: {error}")
            print(self.results["errors"][-1], flush=True)
            system.kill()
            return None

    def introduce(self, *, calibrating: bool) -> None:
        """Versions of all systems, and how large their rounds will be."""
        for system in self.systems:
            system.use(self.running)
            entry = {
                "title": system.info["title"],
                "slots": system.info["slots"],
                "rounds": [],
                "durable": system.info.get("durable", False),
                "versions": self.guarded(system, System.agent, "versions") or {},
            }
            self.results["systems"][system.key] = entry
            answer = calibrating and self.guarded(system, calibrate, self.running, self.options.seconds)
            if answer:
                entry["idle_pss"], self.sizes[system.key] = answer["idle_pss"], answer["n"]
                print(f"{system.key}: {answer}", flush=True)

    def stage_rounds(self) -> None:
        """All systems in turn, backwards every other round."""
        for number in range(self.options.rounds):
            for system in self.systems if number % 2 == 0 else self.systems[::-1]:
                if system.key in self.sizes:
                    self.one_round(number, system)
            self.save()

    def one_round(self, number: int, system: System) -> None:
        """Measure one system and size its next round."""
        latency_tasks = self.options.latency_tasks
        answer = self.guarded(system, measure, self.running, self.sizes[system.key], latency_tasks)
        if not answer:
            return
        self.results["systems"][system.key]["rounds"].append(answer)
        self.results["background"].append(answer["background_cpu"])
        if answer["complete"]:
            self.sizes[system.key] = size_for(answer["throughput"], self.options.seconds)
        told = f"{answer.get('throughput', 0):,.0f}/s in {answer.get('seconds', 0):.1f} s"
        print(f"round {number + 1} {system.key}: {told}, enqueue {answer['enqueue']:,.0f}/s", flush=True)

    def stage_crash(self) -> None:
        """Several systems at a time, each in a Redis database of its own."""
        clear(self.running)

        def one(system: System) -> Any:
            return self.guarded(system, crash, self.running, self.options.crash_wait)

        with ThreadPoolExecutor(self.options.parallel) as pool:
            for system, answer in zip(self.crashing, pool.map(one, self.crashing), strict=True):
                if answer:
                    self.results["crash"][system.key] = answer
                    print(f"crash {system.key}: {answer}", flush=True)

    def stage_flush(self) -> None:
        """All at once."""
        self.results["flush"] = flush_test(self.crashing, self.running, self.options.parallel)

    def stage_aof(self) -> None:
        """Two rounds of a few systems, with persistence off and on in turn."""
        clear(self.running)
        self.running["aof"] = servers.Redis(HOME, aof=True)
        chosen = [s for s in self.systems if s.key in AOF_SYSTEMS and s.key in self.sizes]
        for number in range(2):
            for system in chosen if number == 0 else chosen[::-1]:
                for mode in ("off", "aof") if number == 0 else ("aof", "off"):
                    where = {**self.running, "redis": self.running["aof" if mode == "aof" else "redis"]}
                    answer = self.guarded(system, measure, where, self.sizes[system.key], 0)
                    if answer:
                        found = self.results["aof"].setdefault(system.key, {"off": [], "aof": []})
                        found[mode].append(answer)

    def save(self) -> None:
        """Write results.json and results.md, of what there is so far."""
        self.results["wall"] = time.monotonic() - self.began
        out: Path = self.options.out
        out.mkdir(parents=True, exist_ok=True)
        (out / "results.json").write_text(json.dumps(self.results, indent=1))
        (out / "results.md").write_text(markdown(self.results))


def install(systems: Sequence[System]) -> None:
    """Make the missing virtual environments."""
    for name, spec in {system.name: system.spec for system in systems}.items():
        folder = HOME / "venvs" / name
        env = plain_environment()
        if not folder.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, env=env)
        pip = [str(folder / "bin" / "pip"), "install", "-q", "-U", *spec["requirements"]]
        subprocess.run(pip, check=True, env=env, cwd=HERE)
        print(f"installed {name}", flush=True)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = found.add_argument
    add("--quick", action="store_true", help="one short round, no crash wait beyond 15 s, no AOF")
    add("--install", action="store_true", help="make the virtual environments and stop")
    add("--systems", default="", help="comma-separated names or name:variant")
    add("--stages", default="rounds,crash,flush,aof")
    add("--rounds", type=int, default=5)
    add("--seconds", type=float, default=5.2, help="wanted length of a throughput run")
    add("--latency-tasks", type=int, default=250)
    add("--crash-wait", type=float, default=90, help="seconds to wait for tasks to run again (90)")
    add("--parallel", type=int, default=8, help="crash tests at a time")
    add("--out", type=Path, default=HOME)
    return found


def main() -> None:
    """Command line."""
    options = parser().parse_args()
    stages = options.stages.split(",")
    if options.quick:
        options.rounds, options.seconds, options.latency_tasks, options.crash_wait = 1, 2, 100, 15
        stages = [stage for stage in stages if stage != "aof"]
    systems = load([name for name in options.systems.split(",") if name])
    if options.install:
        install(systems)
        return
    one = Run(systems, options)
    one.run(stages)
    print(markdown(one.results))


if __name__ == "__main__":
    main()
