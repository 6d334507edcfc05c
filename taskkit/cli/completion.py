"""``taskkit completion``: the script that lets a shell complete commands, options and their values."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command(name="completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL (bash, zsh or fish).

    Tab then completes commands, options, statuses, codes, queues, time zones, and ids of the tasks a verb takes.

    \b
    bash, in ~/.bashrc:       eval "$(taskkit completion bash)"
    zsh, in ~/.zshrc:         eval "$(taskkit completion zsh)"
    fish, once:               taskkit completion fish > ~/.config/fish/completions/taskkit.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}", context)
    root = context.find_root().command
    click.echo(kind(root, {}, "taskkit", "_TASKKIT_COMPLETE").source())
