"""``taskkit up``: everything on one machine, in the foreground, until Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from taskkit.cli.complete import queues as complete_queues
from taskkit.cli.conduct import FAILED, Failed, say
from taskkit.cli.front import Front, pass_front
from taskkit.errors import AnalyticsMissing, AppError, SettingsError, TaskkitError
from taskkit.render import duration, facts, show
from taskkit.supervising import BAD_START, Role, Watch, ending

if TYPE_CHECKING:
    from taskkit.center import TaskCenter

LOAD_APP = """
import sys
from taskkit.app import load
from taskkit.errors import TaskkitError
from taskkit.service import exit_with
try:
    load(sys.argv[1])
except TaskkitError as error:
    sys.exit(exit_with(error))
"""
RECEIVERS = "receivers.toml"
LOOK_S = 0.1
STOP_S = 10.0
"""How much longer than its grace a role may take to stop before it is killed."""


@click.command()
@click.option("--app", metavar="APP", help="Your application, module:kit (default: the setting app).")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="Q",
    shell_complete=complete_queues,
    help="Queues to serve, comma separated (default: those of all handlers).",
)
@click.option(
    "--schedulers",
    type=click.IntRange(0, 64),
    default=1,
    show_default=True,
    metavar="N",
    help="Schedulers to run.",
)
@click.option(
    "--workers", type=click.IntRange(0, 64), default=1, show_default=True, metavar="N", help="Workers to run."
)
@click.option(
    "--processes",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Child processes of each worker (default: as many as processors, at most 8).",
)
@click.option(
    "--max-processes",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Let their number grow to so many with the backlog, and shrink again.",
)
@click.option(
    "--watchdog/--no-watchdog",
    default=None,
    help="Start a watchdog, too, or none (default: one where there is an alerting/receivers.toml).",
)
@pass_front
@click.pass_context
def command(
    context: click.Context,
    front: Front,
    app: str | None,
    queues: tuple[str, ...],
    schedulers: int,
    workers: int,
    processes: int | None,
    max_processes: int | None,
    watchdog: bool | None,
) -> None:
    """Start a scheduler and a worker, and the embedded stores where no URL is set; stop them with Ctrl-C.

    An empty database gets its tables. What dies is started again. Log lines go to stdout. Where receivers of alerts are
    configured a watchdog is started as well.

    \b
      taskkit up
      taskkit up --app shop.tasks:kit
      taskkit up --app shop.tasks:kit --workers 2 --processes 4 --queue mail,reports
    """
    if not schedulers and not workers and not watchdog:
        raise click.UsageError("there is nothing to start with --schedulers 0 and --workers 0", context)
    watched = wants_watchdog(front, watchdog)
    prepare(front, app or front.settings.app)
    numbers = {"--processes": processes, "--max-processes": max_processes}
    roles = roles_of(front, schedulers, workers, {"--app": app, "--queue": ",".join(queues)} | numbers)
    if watched:
        roles.append(Role("watchdog", [sys.executable, "-m", "taskkit.watchdog", *front.options]))
    with broker(front):
        context.exit(keep_up(front, roles))


def wants_watchdog(front: Front, asked: bool | None) -> bool:
    """Whether a watchdog is started; one that could not start is refused, or left out where nobody asked for it."""
    if asked is False:
        return False
    from taskkit.settings.alerting import alerting_folder

    folder = alerting_folder(front.settings)
    if asked is None and (folder is None or not (folder / RECEIVERS).exists()):
        return False
    from taskkit.watchdog.__main__ import need_parts
    from taskkit.watchdog.policy import load_policy

    try:
        need_parts()
        load_policy(front.settings)
    except AnalyticsMissing as error:
        if asked:
            raise
        say(f"{error}; started without a watchdog")
        return False
    except SettingsError as error:
        raise SettingsError(f"{error} (--no-watchdog starts without alerts)") from None
    return True


def prepare(front: Front, app: str | None) -> None:
    """Refuse what cannot work before anything is made or started; give an empty database its tables."""
    if app is not None:
        check_app(app)
    center = front.raw_center()
    if center.schema_revision() is None:
        center.upgrade_schema()
        say(f"{front.database_shown()}: the tables were created")
    if not front.settings.embedded_database:
        center.check_schema()


def check_app(app: str) -> None:
    """Refuse an application that does not load; it is tried in a process of its own, for it is the user's code.

    In a group of its own as well: Ctrl-C reaches it only through us, without a word.
    """
    command = [sys.executable, "-c", LOAD_APP, app]
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, process_group=0)
    if done.returncode == BAD_START:
        raise Failed(BAD_START)
    if done.returncode:
        raise AppError(f"--app {app}: could not be imported: python {ending(done.returncode)}")


def roles_of(front: Front, schedulers: int, workers: int, options: dict[str, Any]) -> list[Role]:
    """The processes to run; ``options`` are those of the worker."""
    asked = [part for name, value in options.items() if value for part in (name, str(value))]
    scheduler = [sys.executable, "-m", "taskkit.scheduler", *front.options]
    worker = [sys.executable, "-m", "taskkit.worker", *front.options, *asked]
    return [
        *(Role(f"scheduler {n}", scheduler) for n in range(1, schedulers + 1)),
        *(Role(f"worker {n}", worker) for n in range(1, workers + 1)),
    ]


@contextlib.contextmanager
def broker(front: Front) -> Iterator[None]:
    """Use the embedded broker too, so that it stays while roles come and go; gone with the last user."""
    if not front.settings.embedded_redis:
        yield
        return
    from taskkit.embedded import Embedded

    server = Embedded(front.settings.home)
    server.join()
    try:
        yield
    finally:
        server.leave()


def keep_up(front: Front, roles: list[Role]) -> int:
    """Run the roles until a signal; returns the exit code."""
    watch = Watch(roles, say, front.settings.worker.grace_s + STOP_S)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, watch.ask)
    try:
        watch.start()
        _show_places(front, roles)
        _wait(front.raw_center(), watch)
    finally:
        say("stopping")
        in_order = watch.stop(time.sleep)
    say("everything has stopped" if in_order else "everything has stopped, not all of it in order")
    if watch.bad_start:
        return BAD_START
    return 0 if in_order else FAILED


def _wait(center: TaskCenter, watch: Watch) -> None:
    """Look after the roles until a stop is asked for; say once that all of them are at work."""
    ready = False
    began = time.monotonic()
    while not watch.asked:
        watch.look()
        if not ready and (ready := _at_work(center, watch.roles)):
            say(
                f"ready after {duration(time.monotonic() - began)}: {', '.join(role.name for role in watch.roles)}"
            )
            center.close()
        time.sleep(LOOK_S)


def _at_work(center: TaskCenter, roles: Sequence[Role]) -> bool:
    """Whether every role has its row in the task center."""
    with contextlib.suppress(TaskkitError):
        nodes = [*center.nodes.schedulers(), *center.nodes.workers(), *center.watchdogs.all()]
        return all(any(role.is_of(node) for node in nodes) for role in roles)
    return False


def _show_places(front: Front, roles: list[Role]) -> None:
    """Where things are and what to do next, on stderr: stdout is for log lines."""
    settings = front.settings
    program = f"taskkit --home {front.home}" if front.home else "taskkit"
    places = [
        ("database", front.database_shown()),
        ("broker", front.broker_shown()),
        ("logs", settings.log_dir or "here"),
        *((role.name, f"pid {role.pid}") for role in roles),
        ("elsewhere", f"""{program} enqueue shell --payload '{{"command": "date"}}'"""),
        ("", f"{program} tasks list · {program} status"),
        ("stop", "Ctrl-C"),
    ]
    show(facts(places), stream=sys.stderr)
