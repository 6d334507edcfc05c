"""What people decide: rules and receivers, read from the folder of alerting; all of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from taskkit.errors import SettingsError
from taskkit.hints import suggest
from taskkit.receivers.loading import load_receivers
from taskkit.receivers.protocol import Receiver
from taskkit.settings import Settings
from taskkit.settings.alerting import alerting_folder
from taskkit.watchdog.rules import load_rules
from taskkit.watchdog.signals import Rule


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules, the switched-off ones too, and the receivers."""

    rules: tuple[Rule, ...]
    receivers: tuple[Receiver, ...]

    @property
    def enabled(self) -> tuple[Rule, ...]:
        """The rules that are looked after."""
        return tuple(rule for rule in self.rules if rule.enabled)


def load_policy(settings: Settings, environment: Mapping[str, str] | None = None) -> Policy:
    """The policy of these settings; raises SettingsError for what is wrong in either file."""
    folder = alerting_folder(settings)
    rules = load_rules(folder)
    receivers = load_receivers(settings, environment)
    names = [one.name for one in receivers]
    for rule in rules:
        for name in rule.receivers:
            if name not in names:
                raise SettingsError(
                    f"rule {rule.id}: there is no receiver {name!r}{suggest(name, names)} in receivers.toml"
                )
    return Policy(rules, receivers)
