"""``python -m taskkit.watchdog``: look after an installation until told to stop."""

from __future__ import annotations

import logging
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from taskkit import logs
from taskkit.doors import open_center
from taskkit.errors import AnalyticsMissing, DatabaseUnavailable, TaskkitError
from taskkit.identity import play
from taskkit.service import Stop, exit_with, program
from taskkit.settings import Settings


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", type=click.Path(path_type=Path), help="A taskkit.toml (default: ./taskkit.toml).")
@click.option("--home", type=click.Path(path_type=Path), help="Folder of the embedded default (./.taskkit).")
def main(config: Path | None, home: Path | None) -> None:
    """Run one watchdog: it looks after rules and tells receivers what is wrong, why, and what to do.

    Start two, on two machines: one of them works, the other takes over when it dies. Rules and receivers stand in
    ./alerting/rules.toml and receivers.toml; SIGHUP makes it read them anew. SIGTERM or Ctrl-C stops it in order.
    """
    sys.exit(run(config, home))


def run(config: Path | None, home: Path | None) -> int:
    """Run one watchdog; returns the exit code."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to read anew
    try:
        need_parts()
        from taskkit.watchdog.metrics import Metrics
        from taskkit.watchdog.policy import load_policy
        from taskkit.watchdog.process import WatchdogProcess

        settings = Settings.load(file=config, home=home)
        logs.configure(settings, role="watchdog")
        play("watchdog")
        stop = Stop()
        stop.listen()
        policy = load_policy(settings)
        center = open_center(settings, pool_size=2, overflow=2, upgrade=True, away=_starts_without)
        metrics = Metrics(settings, center)
        metrics.start()
    except TaskkitError as error:
        return exit_with(error)
    options = [
        part
        for name, value in (("--config", config), ("--home", home))
        if value
        for part in (name, str(value))
    ]
    process = WatchdogProcess(settings, center, stop, policy, options=tuple(options))
    signal.signal(signal.SIGHUP, process.ask_to_reload)
    try:
        process.run()
    finally:
        metrics.stop()
        center.close()
    return 0


def _starts_without(error: DatabaseUnavailable) -> None:
    logging.getLogger("taskkit.watchdog").error("SQL is away, which is told: %s", error)


def need_parts() -> None:
    """Raise AnalyticsMissing when what a watchdog needs is not installed."""
    for name in ("apscheduler", "pandas"):
        if find_spec(name) is None:
            raise AnalyticsMissing(f"the watchdog needs {name}: pip install 'taskkit[watchdog]'")


if __name__ == "__main__":
    program(main, "python -m taskkit.watchdog")
