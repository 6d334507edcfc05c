"""The command ``taskkit`` itself: what there is, in which order a newcomer needs it, and the options of all commands."""

from __future__ import annotations

from importlib import import_module

import click

from taskkit import __version__
from taskkit.cli.front import Front

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Start here": {
        "demo": ("demo", "Watch the whole thing work, in about half a minute, on nothing but this program."),
        "up": ("up", "Start everything: a scheduler, a worker and what they need. Ctrl-C stops it."),
        "status": ("status", "What runs, what waits, and whether the stores answer."),
    },
    "Tasks": {
        "enqueue": ("enqueue", "Write a task: now, later, at an instant, or again and again."),
        "tasks": ("tasks", "List and show tasks; retry, run now, pause, resume, cancel, give up."),
        "limits": ("limits", "How many may run at once or start, by queue or key; who waits for it."),
        "shards": ("shards", "Into how many lists a queue is split, and what waits in each."),
        "probe": ("probe", "Send a no-op the whole way and say where it stopped."),
    },
    "Schedules": {
        "cron": ("cron", "Explain a cron expression: its next fire times, with the days of clock changes."),
        "import-crontab": (
            "crontab",
            "Turn the lines of crontabs into periodic tasks; look first with --dry-run.",
        ),
    },
    "Incidents": {
        "alerts": ("alerts", "What is wrong now, who was told; silence, acknowledge, try a receiver."),
        "watchdog": ("watchdog", "Check rules and receivers, and look what would fire now."),
        "diagnose": ("diagnose", "Say what is wrong, with the figures that show it and what to do."),
        "runbook": ("runbook", "What to do by rule, and the evidence as one page of HTML."),
        "whatif": ("whatif", "Replay your own load with other slots, limits, or more of it."),
        "bundle": ("bundle", "Keep an incident window as one file, and open it anywhere."),
    },
    "Installation": {
        "doctor": ("doctor", "Look for what will hurt, in the settings of SQL and Redis and on this node."),
        "lab": (
            "lab",
            "Cause a real incident in a stack of its own, and see whether its diagnosis is right.",
        ),
        "drill": ("drill", "Break something on purpose, and take the time until it is whole again."),
        "prune": ("prune", "Delete what is older than its retention; schedulers do it by themselves."),
        "db": ("db", "Look at the database's schema, and bring it up to date."),
        "completion": ("completion", "Print the script that makes Tab complete commands in your shell."),
    },
}
EPILOG = (
    "Settings come from the environment (TASKKIT_DATABASE_URL, TASKKIT_REDIS_URL, …) and from taskkit.toml. "
    "Without any, everything lives in ./.taskkit: an SQLite file and a small server of its own. "
    "Tab completes commands, codes, queues, time zones and task ids: see `taskkit completion --help`."
)


ELSEWHERE = {
    "worker": "; a worker alone is `python -m taskkit.worker`, everything together `taskkit up`",
    "scheduler": "; a scheduler alone is `python -m taskkit.scheduler`, everything together `taskkit up`",
    "start": "; did you mean `taskkit up`?",
    "run": "; did you mean `taskkit up`, or `taskkit tasks run-now ID`?",
}
OF_TASKS = ("list", "show", "retry", "run-now", "pause", "resume", "give-up", "cancel")


def _of_tasks(words: list[str]) -> str:
    """What somebody meant who left out ``tasks``."""
    if words[0] not in OF_TASKS:
        return ""
    given = [word for word in words[1:] if word.isdecimal()][:3]
    return f"; did you mean `{' '.join(['taskkit tasks', words[0], *given])}`?"


class LazyGroup(click.Group):
    """Knows its commands by name and imports each when it is called, so that --help is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for commands in SECTIONS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for commands in SECTIONS.values():
            if cmd_name in commands:
                module = import_module(f"taskkit.cli.{commands[cmd_name][0]}")
                command: click.Command = module.command
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from taskkit.hints import suggest

        name = args[0]
        if not name.startswith("-") and name not in self.list_commands(ctx) and not ctx.resilient_parsing:
            hint = ELSEWHERE.get(name) or _of_tasks(args) or suggest(name, self.list_commands(ctx))
            raise click.UsageError(f"there is no command {name!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--home", metavar="DIR", help="Home folder of the installation (default: ./.taskkit).")
@click.option("--config", metavar="FILE", help="Settings file to use instead of ./taskkit.toml.")
@click.version_option(__version__, "--version", message="taskkit %(version)s")
@click.pass_context
def cli(context: click.Context, home: str | None, config: str | None) -> None:
    """taskkit runs tasks: now, later, or by a cron schedule, on any number of machines.

    \b
      taskkit demo                    see it work
      taskkit up                      start it here; leave it running
      taskkit enqueue shell --payload '{"command": "date"}'
      taskkit tasks list              what became of it
    """
    context.obj = Front(home=home, config=config)
    context.call_on_close(context.obj.close)
