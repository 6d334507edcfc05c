"""``taskkit lab``: real incidents on purpose in a stack of its own, diagnosed and compared with the truth."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from taskkit.cli.conduct import Failed, interrupt, say
from taskkit.cli.options import json_option

if TYPE_CHECKING:
    from datetime import datetime

    from taskkit.analytics import Diagnosis
    from taskkit.cli.lab_score import Scored
    from taskkit.kit import Taskkit

stores_options = (
    click.option("--database-url", metavar="URL", help="Use a fresh schema on this MySQL or MariaDB server."),
    click.option("--redis-url", metavar="URL", help="Use this Redis, behind a key prefix of its own."),
)


def with_stores(command: Any) -> Any:
    """The options that say where a run takes place."""
    for option in reversed(stores_options):
        command = option(command)
    return command


@click.group(name="lab")
def command() -> None:
    """Bring about a real incident in a private stack, keep its bundle with the truth beside it, and diagnose it.

    Nothing of an installation is touched: scheduler, workers and stores are started in a temporary folder, with time
    scaled down by settings, and are gone afterwards.

    \b
      taskkit lab list
      taskkit lab backlog --variant slow_handler --out incident/
      taskkit lab score --seeds 3
    """


INCIDENT = """Cause a {rule} incident, and diagnose it. `taskkit lab list` has the variants.

\b
  taskkit lab {rule}
  taskkit lab {rule} --seed 2 --out incident/
"""


def _incident(rule: str) -> click.Command:
    @click.command(name=rule, help=INCIDENT.format(rule=rule))
    @click.option("--variant", "name", metavar="V", help="Which one (default: the first of the list).")
    @click.option(
        "--seed", type=int, default=1, show_default=True, help="Numbers of tasks and rates differ by it."
    )
    @click.option(
        "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Leave bundle, truth and logs here."
    )
    @with_stores
    @json_option
    def incident(name: str | None, as_json: bool, **options: Any) -> None:
        from taskkit.lab.variants import find

        _ends_at_signals()
        scored, diagnosis = performed(find(rule, name), quiet=as_json, **options)
        _tell(scored, diagnosis, options["out"], as_json)

    return incident


for _rule in ("backlog", "duplicates", "zombies", "lost"):
    command.add_command(_incident(_rule))


def performed(
    variant: Any, *, quiet: bool, seed: int, out: Path | None, **urls: Any
) -> tuple[Scored, Diagnosis]:
    """Run a variant, and diagnose its bundle."""
    import tempfile

    from taskkit.cli.lab_score import score
    from taskkit.lab.running import Stores, run

    with tempfile.TemporaryDirectory(prefix="taskkit-lab-out-") as passing:
        folder = out or Path(passing)
        tell = (lambda _: None) if quiet else say
        truth, took = run(variant, seed, Stores(urls["database_url"], urls["redis_url"]), folder, kept, tell)
        return score(truth, folder, took)


def kept(kit: Taskkit, since: datetime, path: Path) -> None:
    """Write the bundle of a live stack."""
    from taskkit.analytics import LiveSource, Window, settings_facts
    from taskkit.analytics import bundle as bundles

    now = kit.center.now()
    source = LiveSource(kit.center, Window(since, now), now=now, facts=settings_facts(kit.settings))
    bundles.create(source, path, schema=kit.center.schema_revision())


def _tell(scored: Scored, diagnosis: Diagnosis, out: Path | None, as_json: bool) -> None:
    from taskkit.render import show, to_json

    if as_json:
        click.echo(to_json(scored.as_dict() | {"diagnosis": diagnosis.as_dict("en")}))
    else:
        show(*diagnosis.text("en").splitlines(), "")
        show(
            f"truth: {' or '.join(scored.truth)} · verdict: {scored.verdict} · {scored.mark} · {scored.took_s:.0f} s"
        )
        if out is not None:
            show(f"bundle, truth.json and logs are in {out}")
    if not scored.right:
        raise Failed


@command.command(name="list")
@json_option
def list_(as_json: bool) -> None:
    """Show the variants: the rule, the right verdict, and what happens.

    \b
      taskkit lab list
    """
    from taskkit.lab.variants import all_variants
    from taskkit.render import show, table, to_json

    found = all_variants()
    if as_json:
        click.echo(to_json([
            {"rule": v.rule, "variant": v.name, "verdicts": list(v.verdicts), "about": v.about, "servers_only": v.servers_only}
            for v in found
        ]))  # fmt: skip
        return
    rows = [
        (v.rule, v.name, " or ".join(v.verdicts), v.about + (" (servers only)" if v.servers_only else ""))
        for v in found
    ]
    show(table(("rule", "variant", "right verdict", "what happens"), rows, keep=("rule", "variant")))


@command.command(name="score")
@click.option(
    "--seeds", type=click.IntRange(1), default=3, show_default=True, help="Run each with so many seeds."
)
@click.option("--variants", metavar="NAMES", help="Only these: rules or variants, comma separated.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Leave each run in a folder of its own."
)
@with_stores
@json_option
def score_(seeds: int, variants: str | None, out: Path | None, as_json: bool, **urls: Any) -> None:
    """Run variants with several seeds, and print truth, verdict, right or wrong, and the time to the verdict.

    Exit code 1 when a verdict is wrong.

    \b
      taskkit lab score
      taskkit lab score --seeds 1 --variants duplicates,slow_handler --json
    """
    from taskkit.cli.lab_score import chosen, show_scores

    _ends_at_signals()
    scores = []
    wanted = chosen(variants, servers=urls["database_url"] is not None)
    for variant in wanted:
        for seed in range(1, seeds + 1):
            folder = None if out is None else out / f"{variant.rule}-{variant.name}-{seed}"
            scores.append(_scored(variant, seed, folder, urls))
            say(f"{len(scores)} of {len(wanted) * seeds}: {scores[-1].line}")
    show_scores(scores, as_json)
    if not all(one.right for one in scores):
        raise Failed


def _scored(variant: Any, seed: int, folder: Path | None, urls: dict[str, Any]) -> Scored:
    """One run; an incident that did not come about is told in the table, and counts as wrong."""
    from taskkit.cli.lab_score import not_brought_about
    from taskkit.errors import StoreError, TaskkitError

    try:
        return performed(variant, quiet=True, seed=seed, out=folder, **urls)[0]
    except StoreError:
        raise
    except TaskkitError as error:
        say(str(error))
        return not_brought_about(variant, seed)


def _ends_at_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
