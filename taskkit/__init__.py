"""taskkit: a distributed task scheduler on SQL and Redis, and a kit for whoever is woken when it misbehaves.

The names are loaded when they are first asked for, so that a program can see to its signals before that takes its time.
"""

TYPE_CHECKING = False  # known to checkers by its name; `typing` itself would cost more than all of this file
if TYPE_CHECKING:
    from taskkit.context import RunContext, current_run
    from taskkit.errors import Interrupted, NeverRetry, RetryLater, TaskkitError
    from taskkit.kit import Taskkit
    from taskkit.settings import Settings

__version__ = "0.1.0"
__all__ = [
    "Interrupted",
    "NeverRetry",
    "RetryLater",
    "RunContext",
    "Settings",
    "Taskkit",
    "TaskkitError",
    "__version__",
    "current_run",
]
_HOMES = {
    "context": ("RunContext", "current_run"),
    "errors": ("Interrupted", "NeverRetry", "RetryLater", "TaskkitError"),
    "kit": ("Taskkit",),
    "settings": ("Settings",),
}


if not TYPE_CHECKING:  # to checkers, any name would exist

    def __getattr__(name: str) -> object:
        from importlib import import_module

        for home, names in _HOMES.items():
            if name in names:
                globals()[name] = found = getattr(import_module(f"taskkit.{home}"), name)
                return found
        raise AttributeError(f"module 'taskkit' has no attribute {name!r}")


def load_ipython_extension(shell: object) -> None:
    """``%load_ext taskkit``: see taskkit/notebook/magics.py."""
    from importlib import import_module

    import_module("taskkit.notebook.magics").load(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
