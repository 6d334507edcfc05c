"""``python -m taskkit.worker``: run one worker until it is told to stop."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from taskkit import logs
from taskkit.doors import embedded_tickers, join_queue, open_center, order_of, run_and_close
from taskkit.errors import TaskkitError
from taskkit.identity import new_identity, play
from taskkit.names import check_name
from taskkit.service import Stop, exit_with, program
from taskkit.settings import Settings
from taskkit.worker.nursery_link import NurseryLink
from taskkit.worker.process import START_ANEW, WorkerProcess


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--app", help="Where your handlers are: package.module:kit. Without it: the built-in ones.")
@click.option(
    "--queue", "queues", help="Queues to serve, comma separated (default: all of the app's handlers)."
)
@click.option("--processes", type=int, help="How many children run handlers (default: the number of CPUs).")
@click.option(
    "--max-processes", type=int, help="Let their number grow to so many with the backlog, and shrink again."
)
@click.option("--grace", type=float, help="Seconds that running tasks get when the worker is stopped (5).")
@click.option("--config", type=click.Path(path_type=Path), help="A taskkit.toml (default: ./taskkit.toml).")
@click.option("--home", type=click.Path(path_type=Path), help="Folder of the embedded default (./.taskkit).")
def main(**options: Any) -> None:
    """Run one worker: it takes tasks from its queues and runs their handlers in child processes.

    Example: python -m taskkit.worker --app shop.tasks:kit --queue send_email,reports --processes 4

    SIGTERM or Ctrl-C stops it in order: no new task, a grace for running ones, the rest is handed back.
    A second signal stops it at once.
    """
    sys.exit(run(**options))


def run(
    app: str | None,
    queues: str | None,
    processes: int | None,
    max_processes: int | None,
    grace: float | None,
    config: Path | None,
    home: Path | None,
) -> int:
    """Run one worker; returns the exit code."""
    try:
        overrides: dict[str, Any] = {
            "app": app,
            "worker_processes": processes,
            "worker_max_processes": max_processes,
            "worker_grace_s": grace,
            "home": home,
        }
        settings = Settings.load(file=config, **overrides)
        play("worker")
        worker_id = new_identity()
        logs.configure(settings, role="worker", worker=worker_id)
        stop = Stop()
        stop.listen()
        nursery = NurseryLink(settings.app, worker_id)
        stop.at_once = lambda: _end(nursery)
        stores = _stores(settings, nursery)
        serving = _queues(settings, queues, nursery)
        center = open_center(stores, pool_size=2, overflow=0, upgrade=True)
        order = order_of(stores)
        queue = join_queue(stores, center, order)
    except TaskkitError as error:
        return exit_with(error)
    if settings.app is None:
        print(
            "taskkit: no --app given: serving the built-in handlers shell, http and taskkit.noop",
            file=sys.stderr,
        )
    extra = embedded_tickers(stores, stop)
    process = WorkerProcess(worker_id, settings.worker, center, queue, order, nursery, serving, stop, *extra)
    code = run_and_close(process.run, queue, center)
    return START_ANEW if process.starts_anew and not code else code


def _stores(settings: Settings, nursery: NurseryLink) -> Settings:
    """Where SQL and Redis are: what the application's own kit says, if it says so."""
    own = nursery.hello.settings
    return settings if own is None else msgspec.json.decode(own, type=Settings, dec_hook=_path)


def _path(kind: type, value: Any) -> Any:
    return kind(value)


def _end(nursery: NurseryLink) -> None:
    nursery.end()


def _queues(settings: Settings, asked: str | None, nursery: NurseryLink) -> list[str]:
    """The queues to serve: asked for, set, or those of all handlers."""
    if asked is not None:
        return [check_name(name.strip(), "queue") for name in asked.split(",")]
    if settings.queues:
        return list(settings.queues)
    names = [info.queue or settings.default_queue or info.code for info in nursery.hello.handlers]
    return list(dict.fromkeys(names))


if __name__ == "__main__":
    program(main, "python -m taskkit.worker")
