"""Where the policy of alerting lies: the user's folder of ``rules.toml`` and ``receivers.toml``."""

from __future__ import annotations

from pathlib import Path

from taskkit.errors import SettingsError
from taskkit.settings.schema import Settings

FOLDER = "alerting"


def alerting_folder(settings: Settings) -> Path | None:
    """The folder of the setting, or ``./alerting`` where it is there; raises SettingsError for one that is not."""
    folder = settings.watchdog.alerting
    if folder is not None:
        if not folder.is_dir():
            raise SettingsError(
                f"watchdog.alerting: there is no folder {folder}; make it, or correct the setting"
            )
        return folder
    found = Path.cwd() / FOLDER
    return found if found.is_dir() else None
