"""The receivers of an installation: those of its receivers.toml."""

from __future__ import annotations

import os
from collections.abc import Mapping

from taskkit.receivers.config import load
from taskkit.receivers.protocol import Receiver
from taskkit.settings import Settings
from taskkit.settings.alerting import receivers_file


def load_receivers(settings: Settings, environment: Mapping[str, str] | None = None) -> tuple[Receiver, ...]:
    """The receivers in their order; none where there is no receivers.toml. Raises SettingsError."""
    path = receivers_file(settings)
    if path is None:
        return ()
    return tuple(load(path, os.environ if environment is None else environment).values())
