"""``taskkit tasks``: look at tasks, and what a person may do to them."""

from __future__ import annotations

import click

from taskkit.cli import tasks_dead
from taskkit.cli.brief import doing, fires, last_words
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import TASK_ID, json_option
from taskkit.cli.select import Wanted, filters, find
from taskkit.cli.tasks_moves import MOVES, move_command
from taskkit.model import Task
from taskkit.states import Status, TaskType

LONGEST = 100_000


@click.group(name="tasks")
def command() -> None:
    """List and show tasks; retry, run now, pause, resume, cancel, give up.

    \b
      taskkit tasks list --status given_up --since 1h     who gave up in the last hour
      taskkit tasks show 17                               why: runs, errors, tracebacks
      taskkit tasks dead                                  what gave up, by cause
      taskkit tasks retry --status given_up --since 1h    try all of them again
    """


@command.command(name="list")
@filters
@click.option(
    "--limit", type=click.IntRange(1, LONGEST), default=50, show_default=True, help="At most so many."
)
@click.option("--before", type=TASK_ID, metavar="ID", help="Only older ones than this id: the next page.")
@json_option
@pass_front
def list_tasks(front: Front, /, as_json: bool, **chosen: object) -> None:
    """List tasks, newest first.

    \b
      taskkit tasks list
      taskkit tasks list --status failed --status given_up --code send_email
      taskkit tasks list --periodic
    """
    from taskkit.cli.shapes import task_shape
    from taskkit.render import show, to_json

    wanted = Wanted(**chosen)  # type: ignore[arg-type]
    tasks = find(front.center, wanted)
    if as_json:
        click.echo(to_json([task_shape(task) for task in tasks]))
    elif not tasks:
        show(
            "no task matches"
            if wanted.given
            else "there are no tasks yet; `taskkit enqueue --help` writes one"
        )
    else:
        show(_periodic_table(tasks) if wanted.periodic else _table(tasks))
        if len(tasks) == wanted.limit:
            show(f"there may be more: --before {tasks[-1].id}")


def _table(tasks: list[Task]) -> object:
    from taskkit.render import local, one_line, table

    rows = [
        (
            task.id,
            doing(task),
            task.status.label,
            _next(task),
            local(task.last_run_at),
            task.attempt,
            one_line(last_words(task), 80),
        )
        for task in tasks
    ]
    columns = (">id", "code", "status", "due", "last run", ">attempt", "last result")
    return table(columns, rows, keep=("id", "status"), excerpts=("code", "last result"))


def _next(task: Task) -> str:
    from taskkit.render import distance

    if task.status not in {Status.PENDING, Status.FAILED} or task.plan_next_run_at is None:
        return "-"
    return distance(task.plan_next_run_at)


def _last_run(task: Task) -> str:
    from taskkit.render import local, one_line

    said = one_line(last_words(task), 60)
    return said if task.last_run_at is None else f"{local(task.last_run_at)}  {said}"


def _periodic_table(tasks: list[Task]) -> object:
    from taskkit.render import local, table

    rows = [
        (
            task.id,
            doing(task),
            f"{task.cron_expr}  {task.timezone}",
            task.status.label,
            local(task.plan_next_run_at if fires(task) else None),
            _last_run(task),
        )
        for task in tasks
        if task.task_type is TaskType.PERIODIC
    ]
    columns = (">id", "code", "schedule", "status", "next", "last run")
    return table(columns, rows, keep=("id", "status"), excerpts=("code", "last run"))


@command.command(name="show")
@click.argument("task_id", type=TASK_ID, metavar="ID")
@click.option("--all", "everything", is_flag=True, help="Every run and traceback, not only the latest.")
@json_option
@pass_front
def show_task(front: Front, task_id: int, everything: bool, as_json: bool) -> None:
    """Show one task: its runs with errors and tracebacks; for a periodic one its latest and next occurrences.

    \b
      taskkit tasks show 17
      taskkit tasks show 17 --json
    """
    from taskkit.cli.story import read_story

    story = read_story(front.center, task_id)
    if as_json:
        from taskkit.render import to_json

        click.echo(to_json(story.shape()))
    else:
        story.show(everything=everything)


command.add_command(tasks_dead.command)
for _move in MOVES:
    command.add_command(move_command(_move))
