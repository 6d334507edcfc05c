"""``taskkit drill``: break something on purpose, on one's own installation, and take the time until it is whole again."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import click

from taskkit.cli.conduct import Failed, interrupt, say
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import json_option

if TYPE_CHECKING:
    from taskkit.lab.drills import Drill
    from taskkit.lab.leftovers import Removed

KINDS = ("redis-loss", "worker-kill", "sql-blip", "scheduler-kill")


@click.command()
@click.argument("kind", type=click.Choice(KINDS), required=False)
@click.option(
    "--clean", is_flag=True, help="Break nothing; only remove what earlier drills have left behind."
)
@json_option
@pass_front
@click.pass_context
def command(context: click.Context, front: Front, kind: str | None, clean: bool, as_json: bool) -> None:
    """Break something on purpose, and see how long it takes until it is whole again.

    The drill runs on your installation, which must be up, in a queue of its own and with workers of its own: only
    those are killed or cut off. Your tasks go on meanwhile; the scheduler that scheduler-kill starts and kills helps
    with them, and deletes nothing. On SQLite sql-blip locks the file for 3 s. Each takes half a minute or so, and
    leaves nothing behind when it passed. The tasks of one that failed stay to be looked at, and those of one that was
    killed stay as well: the next drill removes them first, or --clean does.

    \b
      redis-loss      messages of dispatched tasks vanish from Redis
      worker-kill     a worker is killed while it runs tasks
      sql-blip        a worker loses its database while its tasks end
      scheduler-kill  a scheduler is killed between claim and push

    Exit code 1 when a condition did not hold.

    \b
      taskkit drill worker-kill
      taskkit drill redis-loss --json
      taskkit drill --clean
    """
    from taskkit.lab.leftovers import alone, remove

    if clean == (kind is not None):
        raise click.UsageError(f"name one drill ({', '.join(KINDS)}), or say --clean", context)
    _ = front.center  # an installation that is not there is said before anything is started
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    with alone(front.kit, say):
        removed = remove(front.kit)
        if kind is None:
            _tell_removed(removed, as_json)
            return
        if not as_json:
            for one in removed:
                say(str(one))
        drill = _drilled(front, kind, quiet=as_json)
    _tell(drill, removed, as_json)


def _drilled(front: Front, kind: str, *, quiet: bool) -> Drill:
    from taskkit.lab.drills import DRILLS, Drill
    from taskkit.lab.ground import Ground

    with Ground(front.kit, front.options) as ground:
        drill = Drill(kind, ground, front.settings.scheduler, lambda text: None if quiet else say(text))
        DRILLS[kind](drill)
    if drill.report.passed:
        ground.forget()
    return drill


def _tell(drill: Drill, removed: list[Removed], as_json: bool) -> None:
    from taskkit.render import to_json

    if as_json:
        click.echo(to_json(_shape(drill) | {"removed": _removed_shape(removed)}))
    else:
        _show(drill)
    if not drill.report.passed:
        raise Failed


def _tell_removed(removed: list[Removed], as_json: bool) -> None:
    from taskkit.render import show, to_json

    if as_json:
        click.echo(to_json({"removed": _removed_shape(removed)}))
    else:
        show(*(map(str, removed) if removed else ["no drill has left anything behind"]))
    if any(one.running for one in removed):
        raise Failed


def _removed_shape(removed: list[Removed]) -> list[dict[str, Any]]:
    return [{"queue": one.queue, "tasks": one.tasks, "running": one.running} for one in removed]


def _shape(drill: Drill) -> dict[str, Any]:
    report = drill.report
    return {
        "drill": report.drill,
        "queue": report.queue,
        "passed": report.passed,
        "noticed_s": report.noticed_s,
        "recovered_s": report.recovered_s,
        "steps": [{"at_s": at, "what": text} for at, text in report.steps],
        "checks": [{"what": what, "held": held, "found": found} for what, held, found in report.checks],
    }


def _show(drill: Drill) -> None:
    from taskkit.render import show, table

    report = drill.report
    rows = [("yes" if held else "NO", what, found) for what, held, found in report.checks]
    show(table(("held", "condition", "found"), rows), "")
    times = (("noticed", report.noticed_s), ("recovered", report.recovered_s))
    told = [f"{word} after {at:.1f} s" for word, at in times if at is not None]
    show(f"{report.drill} {'passed' if report.passed else 'FAILED'}: {', '.join(told) or 'not recovered'}")
