"""What people decide: rules and receivers, read from the folder of alerting; all of it or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from taskkit.errors import SettingsError
from taskkit.hints import suggest
from taskkit.receivers import config
from taskkit.receivers.loading import load_receivers
from taskkit.receivers.protocol import Receiver
from taskkit.settings import Settings
from taskkit.settings.alerting import alerting_folder
from taskkit.watchdog.rules import FILE, RuleFile, load_rules
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
    found = list(strangers(folder, rules, [one.name for one in receivers]))
    if found:
        raise SettingsError("\n".join(found))
    return Policy(rules, receivers)


def strangers(folder: Path | None, rules: Sequence[Rule], names: Sequence[str]) -> Iterator[str]:
    """Receivers that rules name and that do not exist."""
    path = None if folder is None else folder / FILE
    if path is None or not path.exists():
        return
    file = RuleFile(path.read_text(encoding="utf-8"), str(path))
    own = {draft.id: draft for draft in file.drafts}
    for rule in rules:
        draft = own.get(rule.id)
        entry = (draft.table.get("receivers") if draft else None) or file.defaults.get("receivers")
        for name in rule.receivers:
            if name not in names:
                where = f"{entry.where}: " if entry else ""
                yield f"{where}rule {rule.id}: there is no receiver {name!r}{suggest(name, names)} in {config.FILE}"
