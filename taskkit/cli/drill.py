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

KINDS = ("redis-loss", "worker-kill", "sql-blip", "scheduler-kill")


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@json_option
@pass_front
def command(front: Front, kind: str, as_json: bool) -> None:
    """Break something on purpose, and see how long it takes until it is whole again.

    The drill runs on your installation, which must be up, in a queue of its own and with workers of its own: only
    those are killed or cut off. Your tasks go on meanwhile; the scheduler that scheduler-kill starts and kills helps
    with them, and deletes nothing. On SQLite sql-blip locks the file for 3 s. Each takes half a minute or so, and
    leaves nothing behind when it passed; the tasks of one that failed stay, to be looked at.

    \b
      redis-loss      messages of dispatched tasks vanish from Redis
      worker-kill     a worker is killed while it runs tasks
      sql-blip        a worker loses its database while its tasks end
      scheduler-kill  a scheduler is killed between claim and push

    Exit code 1 when a condition did not hold.

    \b
      taskkit drill worker-kill
      taskkit drill redis-loss --json
    """
    from taskkit.lab.drills import DRILLS, Drill
    from taskkit.lab.ground import Ground
    from taskkit.render import to_json

    _ = front.center  # an installation that is not there is said before anything is started
    with Ground(front.kit, front.options) as ground:
        drill = Drill(kind, ground, front.settings.scheduler, lambda text: None if as_json else say(text))
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, interrupt)
        DRILLS[kind](drill)
        if drill.report.passed:
            ground.forget()
    if as_json:
        click.echo(to_json(_shape(drill)))
    else:
        _show(drill)
    if not drill.report.passed:
        raise Failed


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
