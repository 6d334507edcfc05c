"""``taskkit runbook``: what a woken person does, and the evidence as one page."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path
from typing import Any

import click

from taskkit.cli.conduct import interrupt
from taskkit.cli.diagnose import source_of
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import Span, json_option, window_options


@click.group(name="runbook")
def command() -> None:
    """Read what to do by rule, and make the evidence into one page that opens anywhere.

    \b
      taskkit runbook list
      taskkit runbook show backlog
      taskkit runbook run backlog --out backlog.html
      taskkit runbook run duplicates --bundle incident.zip
    """


@command.command(name="list")
@json_option
def list_(as_json: bool) -> None:
    """List the rules, the pages of rules without a notebook, and the reports; and what each is about.

    \b
      taskkit runbook list
    """
    from taskkit.analytics.wording import catalogue
    from taskkit.notebook.shelf import notebook_of, pages, reports, rules, title_of
    from taskkit.render import show, table, to_json

    texts = catalogue("en")
    found = [(name, "rule", str(texts[name]["title"])) for name in rules()]
    found += [(name, "page", title_of(name)) for name in pages() if name not in rules()]
    found += [(name, "report", _title(notebook_of(name))) for name in reports() if name not in rules()]
    if as_json:
        click.echo(to_json([{"name": name, "kind": kind, "title": title} for name, kind, title in found]))
    else:
        show(table(("name", "kind", "about"), found))


def _title(notebook: Path) -> str:
    """The first heading of a notebook."""
    import json

    return (
        "".join(json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]["source"])
        .splitlines()[0]
        .lstrip("# ")
    )


@command.command()
@click.argument("rule")
@click.option(
    "--lang", "language", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Language."
)
def show(rule: str, language: str) -> None:
    """Show the page of RULE: what it means, who is hurt, where to look, what to do, when to call whom.

    \b
      taskkit runbook show backlog
      taskkit runbook show backlog --lang zh
    """
    from taskkit.notebook.shelf import page_of
    from taskkit.render import show as shown

    shown(*page_of(rule, language).splitlines())


@command.command()
@click.argument("rule")
@window_options("Look at")
@click.option(
    "--queue", "queues", multiple=True, metavar="NAME", help="Look at this queue only (repeatable)."
)
@click.option("--out", metavar="FILE", help="Where the page goes (default: RULE.html).")
@click.option(
    "--limit",
    "limit_s",
    type=Span(),
    default="2m",
    show_default=True,
    metavar="TIME",
    help="It may take so long.",
)
@json_option
@pass_front
def run(front: Front, /, rule: str, out: str | None, limit_s: float, as_json: bool, **options: Any) -> None:
    """Run the notebook of RULE (or of a report) to one page of HTML that needs nothing else.

    The live window is read first, as by `taskkit bundle create`; the notebook sees only that, in a process of its own.

    \b
      taskkit runbook run backlog
      taskkit runbook run today --since 24h --out today.html
      taskkit runbook run duplicates --bundle incident.zip
    """
    from taskkit.notebook import running
    from taskkit.notebook.shelf import notebook_of
    from taskkit.render import show as shown
    from taskkit.render import to_json

    running.need_jupyter()
    notebook = notebook_of(rule)
    signal.signal(signal.SIGTERM, interrupt)
    with tempfile.TemporaryDirectory(prefix="taskkit-runbook-", ignore_cleanup_errors=True) as folder:
        bundle = _bundle(front, options, Path(folder))
        path = running.run(rule, out or f"{notebook.stem}.html", {"bundle": str(bundle)}, limit_s=limit_s)
    if as_json:
        click.echo(to_json({"rule": rule, "file": str(path)}))
    else:
        shown(str(path))


def _bundle(front: Front, options: dict[str, Any], folder: Path) -> Path:
    """The bundle that was named, or one of the live window; of some queues only, where they are named."""
    from taskkit.analytics import Bundle
    from taskkit.analytics import bundle as bundles
    from taskkit.analytics.source import QueuesOnly

    if options["bundle"] and not options["queues"]:
        return Bundle(Path(options["bundle"]).resolve()).path
    source = source_of(front, options)
    if options["queues"]:
        source = QueuesOnly(source, options["queues"])
    schema = None if options["bundle"] else front.center.schema_revision()
    return bundles.create(source, folder / "live.zip", schema=schema)
