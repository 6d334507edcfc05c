"""The home folder of an embedded installation: private to its owner."""

from __future__ import annotations

from pathlib import Path

from taskkit.errors import EmbeddedError


def make_home(home: Path) -> Path:
    """Create the folder with mode 0700 where it is missing; raises EmbeddedError when that cannot be."""
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        home.mkdir(mode=0o700, exist_ok=True)
    except OSError as problem:
        raise home_error(home, problem) from None
    return home


def home_error(home: Path, problem: OSError) -> EmbeddedError:
    """One line about a home folder that cannot be used."""
    reason = problem.strerror or str(problem)
    return EmbeddedError(
        f"home {home} cannot be used: {reason}; set TASKKIT_HOME to a folder you may write to"
    )
