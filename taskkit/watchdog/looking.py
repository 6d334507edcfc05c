"""Looking: a rule's check within its own time limit; one that hangs holds up nothing but itself."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from taskkit.alerts import Reading
from taskkit.clock import monotonic
from taskkit.errors import TaskkitError
from taskkit.settings import redact_text
from taskkit.watchdog.engine import CheckOutcome
from taskkit.watchdog.signals import Rule

log = logging.getLogger("taskkit.watchdog")


class Looker:
    """Runs checks, each in a thread of its own; a rule whose last check still hangs has failed again."""

    def __init__(self, check: Callable[[Rule], list[Reading]]) -> None:
        self._check = check
        self._hung: dict[str, threading.Thread] = {}

    def look(self, rule: Rule) -> CheckOutcome:
        """What the check of a rule comes to, after its limit at the latest."""
        before = self._hung.get(rule.id)
        if before is not None and before.is_alive():
            return CheckOutcome(error=_late(rule))
        self._hung.pop(rule.id, None)
        found: list[CheckOutcome] = []
        began = monotonic()
        thread = threading.Thread(target=self._run, args=(rule, found), name=f"check {rule.id}", daemon=True)
        thread.start()
        thread.join(float(rule.limit))
        if found:
            return found[0]
        self._hung[rule.id] = thread
        took_ms = (monotonic() - began) * 1000
        return CheckOutcome(error=_late(rule), took_ms=took_ms)

    def _run(self, rule: Rule, found: list[CheckOutcome]) -> None:
        began = monotonic()
        try:
            readings = tuple(self._check(rule))
        except TaskkitError as error:
            found.append(CheckOutcome(error=str(error), took_ms=(monotonic() - began) * 1000))
        except Exception as error:
            log.exception("the check of rule %s failed", rule.id)
            text = redact_text(f"{type(error).__name__}: {error}")
            found.append(CheckOutcome(error=text, took_ms=(monotonic() - began) * 1000))
        else:
            found.append(CheckOutcome(readings, took_ms=(monotonic() - began) * 1000))


def _late(rule: Rule) -> str:
    return f"the check did not end within {rule.limit:g} s"
