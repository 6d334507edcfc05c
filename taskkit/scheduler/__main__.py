"""``python -m taskkit.scheduler``: run one scheduler until it is told to stop."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from taskkit import logs
from taskkit.doors import embedded_tickers, join_queue, open_center, run_and_close
from taskkit.errors import TaskkitError
from taskkit.identity import play
from taskkit.scheduler.process import SchedulerProcess
from taskkit.service import Stop, exit_with, program
from taskkit.settings import Settings


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", type=click.Path(path_type=Path), help="A taskkit.toml (default: ./taskkit.toml).")
@click.option("--home", type=click.Path(path_type=Path), help="Folder of the embedded default (./.taskkit).")
def main(config: Path | None, home: Path | None) -> None:
    """Run one scheduler: it dispatches what is due and plans periodic tasks.

    Start as many as you like, on any machines: each task is dispatched by one of them. Stores are taken from
    TASKKIT_DATABASE_URL and TASKKIT_REDIS_URL or taskkit.toml. SIGTERM or Ctrl-C stops it in order.
    """
    sys.exit(run(config, home))


def run(config: Path | None, home: Path | None) -> int:
    """Run one scheduler; returns the exit code."""
    try:
        settings = Settings.load(file=config, home=home)
        logs.configure(settings, role="scheduler")
        play("scheduler")
        stop = Stop()
        stop.listen()
        center = open_center(settings, pool_size=1, overflow=0, upgrade=True)
        queue = join_queue(settings, center)
    except TaskkitError as error:
        return exit_with(error)
    process = SchedulerProcess(settings, center, queue, stop, *embedded_tickers(settings, stop))
    return run_and_close(process.run, queue, center)


if __name__ == "__main__":
    program(main, "python -m taskkit.scheduler")
