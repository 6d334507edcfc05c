"""``taskkit demo``: the main job, performed."""

from __future__ import annotations

import signal

import click

from taskkit.cli import demo_alert
from taskkit.cli.conduct import Failed, interrupt


@click.command()
@click.option("--keep", is_flag=True, help="Leave the temporary home behind, to look at it.")
def command(keep: bool) -> None:
    """Show the whole thing at work with real processes, in about half a minute, and stop it again.

    At the end a rule of the watchdog looks at what happened, and the alert is shown as it would arrive in a chat.

    It imports a crontab and runs Python, shell, HTTP and async tasks, one delayed, one that fails and is retried,
    one over its time limit, on two schedulers and two workers in a temporary folder. With TASKKIT_DATABASE_URL and
    TASKKIT_REDIS_URL it plays on those instead, in queues of its own. Exit code 1 when anything is not as it
    should be.

    \b
      taskkit demo
      TASKKIT_DATABASE_URL=mysql://user:password@host/taskkit TASKKIT_REDIS_URL=redis://host:6379/0 taskkit demo
    """
    from taskkit.demo import Demo, Unexpected

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        Demo(demo_alert.ending).run(keep=keep)
    except Unexpected:
        raise Failed from None
