"""The receivers of an installation: those of its receivers.toml."""

from __future__ import annotations

import os
from collections.abc import Mapping

from taskkit.receivers.config import FILE, load
from taskkit.receivers.protocol import Receiver
from taskkit.settings import Settings
from taskkit.settings.alerting import alerting_folder


def load_receivers(settings: Settings, environment: Mapping[str, str] | None = None) -> tuple[Receiver, ...]:
    """The receivers in their order; none where there is no receivers.toml. Raises SettingsError."""
    folder = alerting_folder(settings)
    path = None if folder is None else folder / FILE
    if path is None or not path.exists():
        return ()
    return tuple(load(path, os.environ if environment is None else environment).values())
