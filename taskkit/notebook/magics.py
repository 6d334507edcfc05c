"""``%load_ext taskkit``: ``%taskkit status``, ``%taskkit diagnose RULE``, ``%taskkit runbook RULE``."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from taskkit.errors import InputError, TaskkitError

if TYPE_CHECKING:
    from taskkit.kit import Taskkit

USAGE = "%taskkit status | diagnose RULE [--since 1h] [--until INSTANT] [--bundle FILE] [--workers N] | runbook RULE"


class MagicWords(argparse.ArgumentParser):
    """Reads the words of the magic; what is wrong is an error of ours and ends no kernel."""

    def error(self, message: str) -> NoReturn:
        raise InputError("%taskkit", f"{message}; {USAGE}")


class TaskkitMagic:
    """The magic of one shell: it looks at the ``kit`` of the notebook, else at the installation of the settings."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self._kit: Taskkit | None = None

    def __call__(self, line: str) -> object:
        """What was asked for, which then shows itself; None after an error, which was told in one line."""
        try:
            words = _read(line)
            return getattr(self, words.verb)(words)
        except TaskkitError as error:
            from taskkit.settings.urls import redact_text

            print(f"taskkit: {redact_text(str(error))}", file=sys.stderr)
            return None

    def kit(self) -> Taskkit:
        """The kit in the notebook's own names, or one of the settings."""
        from taskkit.kit import Taskkit
        from taskkit.notebook.case import must_exist

        own = self.shell.user_ns.get("kit")
        if isinstance(own, Taskkit):
            return own
        if self._kit is None:
            kit = Taskkit()
            must_exist(kit.settings)
            self._kit = kit
        return self._kit

    def status(self, _: argparse.Namespace) -> object:
        """What runs and what waits."""
        from taskkit.views import look

        return look(self.kit().center)

    def diagnose(self, words: argparse.Namespace) -> object:
        """The verdict of a rule."""
        from taskkit.analytics import diagnose
        from taskkit.notebook.case import open_case

        kit = None if words.bundle else self.kit()
        case = open_case(words.bundle, words.since, words.until, kit=kit)
        return diagnose(words.rule, case, **({"workers": words.workers} if words.workers else {}))

    def runbook(self, words: argparse.Namespace) -> object:
        """The page of a rule."""
        from IPython.display import Markdown

        from taskkit.notebook.shelf import page_of

        return Markdown(page_of(words.rule))  # type: ignore[no-untyped-call]


def _read(line: str) -> argparse.Namespace:
    parser = MagicWords(prog="%taskkit", add_help=False, exit_on_error=False)
    verbs = parser.add_subparsers(dest="verb", required=True, parser_class=MagicWords)
    verbs.add_parser("status", add_help=False)
    verbs.add_parser("runbook", add_help=False).add_argument("rule")
    diagnosis = verbs.add_parser("diagnose", add_help=False)
    diagnosis.add_argument("rule")
    for option, default in (("--since", "1h"), ("--until", ""), ("--bundle", "")):
        diagnosis.add_argument(option, default=default)
    diagnosis.add_argument("--workers", type=int)
    try:
        return parser.parse_args(shlex.split(line))
    except (ValueError, argparse.ArgumentError) as error:
        raise InputError("%taskkit", f"{error}; {USAGE}") from error


def load(shell: Any) -> None:
    """Teach a shell the magic."""
    shell.register_magic_function(TaskkitMagic(shell), "line", "taskkit")
