"""One run of the lab: start the stack, cause the incident, keep what can be seen of it and what is true."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from taskkit.clock import iso, monotonic, seconds
from taskkit.errors import InputError
from taskkit.kit import Taskkit
from taskkit.lab.stand import Stand
from taskkit.lab.truth import BUNDLE, Truth
from taskkit.lab.variants import Variant

Keep = Callable[[Taskkit, datetime, Path], object]
MARGIN_S = 0.5


@dataclass(frozen=True, slots=True)
class Stores:
    """Where a run takes place: the embedded stack, or a fresh schema and a key prefix on given servers."""

    database_url: str | None = None
    redis_url: str | None = None

    @property
    def name(self) -> str:
        """For people."""
        kinds = (
            "SQLite" if self.database_url is None else "MySQL or MariaDB",
            "embedded Valkey" if self.redis_url is None else "Redis",
        )
        return " + ".join(kinds)


def run(
    variant: Variant, seed: int, stores: Stores, out: Path, keep: Keep, tell: Callable[[str], None]
) -> tuple[Truth, float]:
    """Cause the incident and leave bundle, truth and logs in ``out``; returns the truth and the seconds to the bundle.

    ``keep`` writes the bundle of a live task center from an instant on; the stack still runs meanwhile.
    """
    if variant.servers_only and stores.database_url is None:
        raise InputError("variant", f"{variant.name} needs a server with row locks: give --database-url")
    begun = monotonic()
    out.mkdir(parents=True, exist_ok=True)
    with Stand(
        database_url=stores.database_url, redis_url=stores.redis_url, out=out, tell=tell, **variant.settings
    ) as stand:
        tell(f"{variant.rule} {variant.name}: {variant.about}")
        since = stand.center.now() - seconds(MARGIN_S)
        truth = Truth(variant.rule, variant.name, variant.verdicts, seed, variant.about, stores.name)
        truth.scale = {**stand.scaled}
        truth.facts = variant.act(stand, random.Random(seed))
        tell("keeping the bundle")
        keep(stand.kit, truth_since(stand, since), out / BUNDLE)
        until = stand.center.now()
        took = monotonic() - begun
        truth.times = {"since": iso(stand.began or since) or "", "until": iso(until) or ""}
        truth.write(out)
        for undo in stand.after:
            undo()
    return truth, took


def truth_since(stand: Stand, since: datetime) -> datetime:
    """The window begins with the first task, so that the start of processes is not taken for a calm."""
    return since if stand.began is None else stand.began - seconds(MARGIN_S)
