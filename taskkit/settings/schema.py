"""The settings that exist: their names, types, bounds and defaults, in one frozen object."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import asdict

from taskkit.settings.urls import origin, redact, sqlalchemy_url

Count = Annotated[int, Meta(ge=1, le=1_000_000)]
CountOrNone = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Period = Annotated[float, Meta(ge=0.01, le=3600)]
Patience = Annotated[float, Meta(ge=0, le=86_400)]
Name = Annotated[str, Meta(min_length=1, max_length=64)]
RetentionDays = Annotated[float, Meta(ge=0, le=36_500)]


def usable_cpus() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Scheduler(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the scheduler; seconds end in ``_s``, hours in ``_h``."""

    batch: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    window: Annotated[int, Meta(ge=1, le=100_000)] = 10_000
    queue_window: Count = 20_000
    poll_s: Period = 0.5
    misfire_grace_s: Annotated[float, Meta(ge=0, le=31_536_000)] = 60.0
    plan_every_s: Period = 1.0
    plan_ahead_h: Annotated[float, Meta(ge=0.01, le=8784)] = 24.0
    plan_ahead_max: Annotated[int, Meta(ge=1, le=10_000)] = 100
    heartbeat_s: Period = 5.0
    recover_every_s: Annotated[float, Meta(ge=0.05, le=4)] = 2.0
    lost_after_s: Annotated[float, Meta(ge=0.1, le=3600)] = 10.0
    dead_after_s: Annotated[float, Meta(ge=0.1, le=86_400)] = 15.0
    clock_limit_ms: Annotated[float, Meta(ge=1, le=86_400_000)] = 1000.0
    strict_priority: bool = False


class Worker(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the worker; 0 for ``max_tasks_per_child``, ``max_growth_mib`` or ``stuck_s`` means no limit.

    With ``max_processes`` above ``processes`` the number of children follows the load between the two.
    """

    processes: Annotated[int, Meta(ge=1, le=1024)] = field(default_factory=lambda: min(usable_cpus(), 8))
    max_processes: Annotated[int, Meta(ge=0, le=1024)] = 0
    backlog_s: Annotated[float, Meta(ge=0.1, le=86_400)] = 10.0
    calm_s: Annotated[float, Meta(ge=0.1, le=86_400)] = 30.0
    grace_s: Patience = 5.0
    kill_grace_s: Patience = 2.0
    heartbeat_s: Period = 5.0
    prefetch_ms: Annotated[float, Meta(ge=0, le=60_000)] = 50.0
    max_prefetch: Annotated[int, Meta(ge=1, le=100_000)] = 500
    async_concurrency: Annotated[int, Meta(ge=1, le=100_000)] = 100
    threads: Annotated[int, Meta(ge=1, le=1000)] = 1
    max_tasks_per_child: CountOrNone = 10_000
    max_growth_mib: CountOrNone = 128
    strict_queues: bool = False
    stuck_s: Patience = 120.0

    @property
    def scales(self) -> bool:
        """Whether the number of children follows the load."""
        return self.max_processes > self.processes


class Retention(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many days what is over is kept; 0 means for ever. ``chunk`` rows at most go in one transaction."""

    tasks_days: RetentionDays = 30.0
    dead_days: RetentionDays = 90.0
    runs_days: RetentionDays = 30.0
    occurrences_days: RetentionDays = 30.0
    samples_days: RetentionDays = 14.0
    actions_days: RetentionDays = 365.0
    once_days: RetentionDays = 365.0
    alerts_days: RetentionDays = 365.0
    chunk: Annotated[int, Meta(ge=1, le=1000)] = 500


class Watchdog(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the watchdog. ``alerting`` is the folder of rules.toml and receivers.toml.

    ``restart_zombies`` lets it ask a worker whose slots are stuck to start anew; it never ends one by itself.
    """

    alerting: Path | None = None
    language: Literal["en", "zh"] = "en"
    heartbeat_s: Period = 5.0
    dead_after_s: Annotated[float, Meta(ge=0.1, le=86_400)] = 60.0
    lease_s: Annotated[float, Meta(ge=0.5, le=300)] = 15.0
    console_url: str | None = None
    ping_url: str | None = None
    ping_every_s: Annotated[float, Meta(ge=1, le=86_400)] = 60.0
    daily_at: Annotated[str, Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] | None = None
    metrics: Annotated[str, Meta(pattern=r"^[^\s:]*:\d{1,5}$")] | None = None
    evidence_s: Annotated[float, Meta(ge=5, le=3600)] = 120.0
    evidence_days: RetentionDays = 14.0
    restart_zombies: bool = False


TABLES: dict[str, type[Struct]] = {
    "scheduler": Scheduler,
    "worker": Worker,
    "retention": Retention,
    "watchdog": Watchdog,
}


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of an installation; made by ``Settings.load``. Never shows a password."""

    database_url: str | None = None
    redis_url: str | None = None
    home: Path = field(default_factory=lambda: Path.cwd() / ".taskkit")
    timezone: str = "UTC"
    app: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    queues: tuple[Name, ...] = ()
    default_queue: Name | None = None
    short_way: bool = True
    key_prefix: Annotated[str, Meta(max_length=64, pattern=r"^[^{}\s]*$")] | None = None
    max_payload_bytes: Annotated[int, Meta(ge=2, le=67_108_864)] = 262_144
    max_result_bytes: Annotated[int, Meta(ge=2, le=16_777_216)] = 65_536
    log_dir: Path | None = None
    log_level: Literal["debug", "info", "warning", "error", "critical"] = "info"
    log_days: Annotated[int, Meta(ge=1, le=3650)] = 14
    log_format: Literal["auto", "json", "pretty"] = "auto"
    scheduler: Scheduler = Scheduler()
    worker: Worker = field(default_factory=Worker)
    retention: Retention = Retention()
    watchdog: Watchdog = Watchdog()

    @classmethod
    def load(
        cls,
        env: Mapping[str, str] | None = None,
        file: Path | str | None = None,
        **overrides: Any,
    ) -> Settings:
        """Defaults, then taskkit.toml, then TASKKIT_* of ``env``, then ``overrides``; None leaves a setting alone.

        Overrides are named as in the environment (``worker_processes=2``) or given as ``worker=Worker(…)``.
        Raises SettingsError, one line, for anything that is unknown or wrong.
        """
        from taskkit.settings.sources import load

        return load(os.environ if env is None else env, file, overrides)

    @property
    def embedded_database(self) -> bool:
        """Whether the task center is the SQLite file in ``home``."""
        return self.database_url is None

    @property
    def embedded_redis(self) -> bool:
        """Whether the broker is the Valkey server of ``home``."""
        return self.redis_url is None

    def sqlalchemy_url(self) -> str:
        """The database's URL as SQLAlchemy wants it."""
        if self.database_url is None:
            return f"sqlite:///{self.home.absolute() / 'taskkit.db'}"
        return sqlalchemy_url(self.database_url)

    def shown(self) -> dict[str, Any]:
        """The settings for people and scripts: flat names, plain values, no passwords."""
        flat = {key: value for key, value in asdict(self).items() if not isinstance(value, Struct)}
        for table in TABLES:
            flat |= {f"{table}.{key}": value for key, value in asdict(getattr(self, table)).items()}
        return {key: _shown(key, value) for key, value in flat.items()}

    def __repr__(self) -> str:
        """Only what differs from the defaults, without passwords."""
        plain = Settings().shown()
        told = (f"{key}={value!r}" for key, value in self.shown().items() if value != plain[key])
        return f"Settings({', '.join(told)})"

    def __rich_repr__(self) -> Any:
        yield from self.shown().items()


def _shown(key: str, value: Any) -> Any:
    if key == "watchdog.ping_url" and value is not None:
        return origin(value)
    if key.endswith("_url") and value is not None:
        return redact(value)
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
