"""Where the policy of alerting lies: the user's folder of ``rules.toml`` and ``receivers.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from taskkit.errors import SettingsError
from taskkit.settings.schema import Settings

FOLDER = "alerting"
RULES, RECEIVERS = "rules.toml", "receivers.toml"


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


def receivers_file(settings: Settings) -> Path | None:
    """The ``receivers.toml`` of the folder, where there is one."""
    folder = alerting_folder(settings)
    path = None if folder is None else folder / RECEIVERS
    return path if path is not None and path.exists() else None


def own_keys(settings: Settings, rule: str) -> dict[str, Any]:
    """What the user's own ``rules.toml`` says of a rule, its ``[defaults]`` included, unchecked: a watchdog checks it.

    Nothing where there is no such file, or none that can be read.
    """
    try:
        folder = alerting_folder(settings)
        text = "" if folder is None else (folder / RULES).read_text(encoding="utf-8")
        file = tomllib.loads(text)
        tables = [one for one in file.get("rule", ()) if one.get("id") == rule]
        return {key: value for table in (file.get("defaults", {}), *tables) for key, value in table.items()}
    except (SettingsError, OSError, ValueError, RecursionError, AttributeError, TypeError):
        return {}
