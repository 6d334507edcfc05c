"""What a person may do to tasks, one by one or all that match: each move answers for every task by itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from taskkit.cli.conduct import Failed, say
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import json_option
from taskkit.cli.select import Wanted, filters, find, ids
from taskkit.cli.tasks_paced import ALL, Paced, options, retry_paced
from taskkit.cli.tasks_touch import Answer, ending_of, show_before, touched
from taskkit.errors import DatabaseUnavailable, TaskkitError
from taskkit.states import Status

C = TypeVar("C", bound=Callable[..., Any])
MANY, USUAL = 10_000, 1000


@dataclass(frozen=True, slots=True)
class PersonsMove:
    """One command: the verb of Operations that it calls, what it says in its help, and an example."""

    name: str
    verb: str
    help: str
    example: str
    done: str


MOVES = (
    PersonsMove(
        "retry",
        "retry",
        "Start given up or cancelled tasks afresh, their retries counted from 0.",
        "taskkit tasks retry --status given_up --since 1h\n  taskkit tasks retry --fingerprint 3f9ac1d27b04 --rate 5",
        "starts again",
    ),
    PersonsMove(
        "run-now",
        "run_now",
        "Make tasks due now that wait, failed, or have ended well. A periodic one keeps its rhythm.",
        "taskkit tasks run-now 17",
        "is due now",
    ),
    PersonsMove(
        "pause", "pause", "Hold waiting tasks until they are resumed.", "taskkit tasks pause 17", "is held"
    ),
    PersonsMove(
        "resume",
        "resume",
        "Release held tasks. A periodic one goes on with its next future fire time.",
        "taskkit tasks resume 17",
        "waits again",
    ),
    PersonsMove(
        "give-up",
        "give_up",
        "Stop trying failed tasks that still have retries left.",
        "taskkit tasks give-up --status failed --code send_email",
        "is given up",
    ),
    PersonsMove(
        "cancel",
        "cancel",
        "Cancel tasks. One that runs is told, and ended by its worker.",
        "taskkit tasks cancel 17 18 19",
        "is cancelled",
    ),
)


def move_command(move: PersonsMove) -> click.Command:
    """The click command of a move."""

    @click.command(
        name=move.name, help=f"{move.help}\n\n\b\n  {move.example}\n  taskkit tasks {move.name} 17 --json"
    )
    @ids
    @filters
    @_limit(move)
    @(options if move.verb == "retry" else _nothing)
    @click.option("--dry-run", is_flag=True, help="Only show which tasks are meant.")
    @click.option("--yes", is_flag=True, help="Do not ask before doing it to all that match.")
    @json_option
    @pass_front
    def run(
        front: Front,
        /,
        ids: tuple[int, ...],
        limit: int | None,
        dry_run: bool,
        yes: bool,
        as_json: bool,
        **chosen: Any,
    ) -> None:
        paced = Paced.taken_from(chosen, ids)
        if paced.fingerprint is not None:
            wanted = Wanted(limit=ALL if limit is None else limit, **chosen)
            retry_paced(front, paced, wanted, dry_run=dry_run, yes=yes, as_json=as_json)
            return
        wanted = Wanted(limit=_bounded(limit), **chosen)
        meant = _meant(front, ids, wanted)
        if dry_run:
            _preview(front, meant, as_json)
            return
        if not ids and not yes and meant and not _agreed(front, move, meant):
            say("nothing was done")
            raise Failed
        _tell(move, _moved(front, move, meant), as_json)

    return run


def _limit(move: PersonsMove) -> Callable[[C], C]:
    """Only a paced retry takes more than can be shown and answered for at once."""
    paced = move.verb == "retry"
    usual = f"{USUAL}; with --fingerprint all" if paced else str(USUAL)
    most = click.IntRange(1, ALL if paced else MANY)
    return click.option("--limit", type=most, metavar="N", help=f"At most so many (default {usual}).")


def _nothing(command: C) -> C:
    return command


def _bounded(limit: int | None) -> int:
    if limit is not None and limit > MANY:
        raise click.BadParameter(
            f"at most {MANY} at once; repeat the command for the rest", param_hint="--limit"
        )
    return USUAL if limit is None else limit


def _meant(front: Front, ids: tuple[int, ...], wanted: Wanted) -> list[int]:
    if bool(ids) == wanted.given:
        raise click.UsageError(
            "name tasks by their ids, or choose them with --status, --since, --code, --queue, --periodic"
            + (", --fingerprint" if click.get_current_context().info_name == "retry" else "")
            + ("; not both" if ids else ""),
            click.get_current_context(),
        )
    if ids:
        return list(dict.fromkeys(ids))
    found = find(front.center, wanted)
    if len(found) == wanted.limit:
        say(
            f"note: only the newest {wanted.limit} are taken; repeat the command for the rest, or raise --limit"
        )
    return sorted(task.id for task in found)


def _preview(front: Front, meant: list[int], as_json: bool) -> None:
    from taskkit.render import show, to_json

    tasks = front.center.read.tasks(meant)
    if as_json:
        click.echo(to_json([{"id": task.id, "status_name": task.status.label} for task in tasks]))
        return
    show(touched(tasks), f"{len(tasks)} task{'s' if len(tasks) != 1 else ''}; nothing was done")


def _agreed(front: Front, move: PersonsMove, meant: list[int]) -> bool:
    """A person sees what is meant and is asked once; a script that names a selection means it."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    show_before(front.center.read.tasks(meant))
    return click.confirm(f"{move.name} {len(meant)} task{'s' if len(meant) > 1 else ''}?", err=True)


def _moved(front: Front, move: PersonsMove, meant: list[int]) -> list[Answer]:
    from taskkit.render import progress

    _ = front.center
    answers = []
    with progress(move.name, len(meant)) as bar:
        for task_id in meant:
            answers.append(_one(front, move, task_id))
            bar.step()
    return answers


def _one(front: Front, move: PersonsMove, task_id: int) -> Answer:
    try:
        status = getattr(front.kit.operations, move.verb)(task_id)
        asked = move.verb == "cancel" and status is Status.RUNNING
        return Answer(task_id, status, note=ending_of(front.center, task_id) if asked else "")
    except DatabaseUnavailable:
        raise
    except TaskkitError as error:
        return Answer(task_id, None, str(error))


def _tell(move: PersonsMove, answers: list[Answer], as_json: bool) -> None:
    from taskkit.render import show, to_json

    if as_json:
        click.echo(to_json([answer.shape() for answer in answers]))
    elif not answers:
        show("no task matches; nothing was done")
    else:
        for answer in answers:
            if not answer.error:
                show(f"task {answer.id} {answer.note or move.done}")
    refused = [answer for answer in answers if answer.error]
    for answer in refused:
        say(answer.error)
    if refused:
        raise Failed
