"""taskkit: a distributed task scheduler on SQL and Redis, and a kit for whoever is woken when it misbehaves."""

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
