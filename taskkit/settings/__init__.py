"""Settings: environment and taskkit.toml → one frozen object that names what is wrong and where it stands."""

from taskkit.settings.schema import Retention, Scheduler, Settings, Watchdog, Worker
from taskkit.settings.urls import redact, redact_text

__all__ = ["Retention", "Scheduler", "Settings", "Watchdog", "Worker", "redact", "redact_text"]
