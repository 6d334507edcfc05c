"""The command line. One file per group of commands; whatever is heavy is imported when a command needs it."""

from __future__ import annotations

import sys


def main() -> None:
    """The program ``taskkit``."""
    from taskkit.cli.conduct import run

    sys.exit(run(sys.argv[1:]))
