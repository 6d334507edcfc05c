"""Settings: which source wins, what is refused and in which words, and that no password is ever shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from taskkit.errors import SettingsError
from taskkit.settings import Scheduler, Settings, Worker


def refused(env: dict[str, str] | None = None, **given: object) -> str:
    """The one line with which these settings are refused."""
    with pytest.raises(SettingsError) as caught:
        Settings.load(env or {}, **given)  # type: ignore[arg-type]
    line = str(caught.value)
    assert "\n" not in line
    assert caught.value.__cause__ is None
    return line


def toml(tmp_path: Path, text: str, name: str = "taskkit.toml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


# ---- where they come from


def test_the_defaults_are_the_embedded_installation(tmp_path: Path) -> None:
    settings = Settings.load({})
    assert settings.embedded_database
    assert settings.embedded_redis
    assert settings.home == tmp_path / ".taskkit"
    assert settings.sqlalchemy_url() == f"sqlite:///{tmp_path}/.taskkit/taskkit.db"
    assert (settings.timezone, settings.queues, settings.key_prefix) == ("UTC", (), None)
    assert settings.scheduler == Scheduler()
    assert 1 <= settings.worker.processes <= 8


def test_environment_beats_the_file_and_overrides_beat_both(tmp_path: Path) -> None:
    toml(tmp_path, 'log_days = 1\nlog_level = "debug"\napp = "a"\n[worker]\nprocesses = 2\nthreads = 2\n')
    env = {"TASKKIT_LOG_DAYS": "2", "TASKKIT_WORKER_PROCESSES": "3", "TASKKIT_APP": "b"}
    settings = Settings.load(env, app="c", worker_processes=4)
    assert (settings.log_level, settings.log_days, settings.app) == ("debug", 2, "c")
    assert (settings.worker.processes, settings.worker.threads) == (4, 2)


def test_the_real_environment_is_the_default_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKKIT_SCHEDULER_WINDOW", "77")
    assert Settings.load().scheduler.window == 77


def test_a_file_can_be_named_by_the_caller_or_by_taskkit_config(tmp_path: Path) -> None:
    one, two = toml(tmp_path, "log_days = 1", "one.toml"), toml(tmp_path, "log_days = 2", "two.toml")
    assert Settings.load({"TASKKIT_CONFIG": str(one)}).log_days == 1
    assert Settings.load({"TASKKIT_CONFIG": str(one)}, file=two).log_days == 2


def test_one_url_alone_is_fine() -> None:
    settings = Settings.load({"TASKKIT_REDIS_URL": "redis://cache"})
    assert (settings.embedded_database, settings.embedded_redis) == (True, False)


@pytest.mark.parametrize(
    ("name", "text", "key", "value"),
    [
        ("QUEUES", "mail, report ,mail,", "queues", ("mail", "report")),
        ("LOG_LEVEL", "INFO", "log_level", "info"),
        ("LOG_FORMAT", "Json", "log_format", "json"),
        ("SCHEDULER_POLL_S", "2", "scheduler.poll_s", 2.0),
        ("SCHEDULER_STRICT_PRIORITY", "yes", "scheduler.strict_priority", True),
        ("WORKER_STRICT_QUEUES", "1", "worker.strict_queues", True),
        ("WORKER_STRICT_QUEUES", "False", "worker.strict_queues", False),
        ("WORKER_MAX_TASKS_PER_CHILD", "0", "worker.max_tasks_per_child", 0),
        ("TIMEZONE", "Asia/Shanghai", "timezone", "Asia/Shanghai"),
        ("KEY_PREFIX", "shop:", "key_prefix", "shop:"),
        ("HOME", "/srv/../srv/t", "home", Path("/srv/../srv/t")),
        ("APP", "  shop.tasks ", "app", "shop.tasks"),
        ("DATABASE_URL", "", "database_url", None),
        ("WATCHDOG_LANGUAGE", "zh", "watchdog.language", "zh"),
        ("WATCHDOG_ALERTING", "/etc/t/alerting", "watchdog.alerting", Path("/etc/t/alerting")),
        ("WATCHDOG_METRICS", "127.0.0.1:9464", "watchdog.metrics", "127.0.0.1:9464"),
        ("WATCHDOG_DAILY_AT", "09:30", "watchdog.daily_at", "09:30"),
        ("WATCHDOG_LEASE_S", "3", "watchdog.lease_s", 3.0),
        ("WATCHDOG_RESTART_ZOMBIES", "yes", "watchdog.restart_zombies", True),
        ("RETENTION_ALERTS_DAYS", "0", "retention.alerts_days", 0.0),
    ],
)
def test_the_environment_is_read_as_text(name: str, text: str, key: str, value: object) -> None:
    found: object = Settings.load({f"TASKKIT_{name}": text})
    for part in key.split("."):
        found = getattr(found, part)
    assert found == value
    assert type(found) is type(value) or isinstance(value, Path)


def test_an_override_may_be_a_whole_table_and_none_is_not_given() -> None:
    env = {"TASKKIT_WORKER_PROCESSES": "3"}
    assert Settings.load(env, worker=Worker(processes=1)).worker.processes == 1
    assert Settings.load(env, worker={"threads": 2}).worker == Worker(processes=3, threads=2)
    assert Settings.load(env, worker=None, app=None, worker_processes=None).worker.processes == 3


def test_relative_paths_mean_the_same_after_a_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    file = toml(folder, 'home = "data"\ndatabase_url = "sqlite:///db/t.db?timeout=5"\n')
    settings = Settings.load({"TASKKIT_LOG_DIR": "logs"}, file=file)
    monkeypatch.chdir("/")
    assert settings.home == folder / "data"
    assert settings.log_dir == tmp_path / "logs"
    assert settings.sqlalchemy_url() == f"sqlite:///{folder}/db/t.db?timeout=5"


def test_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert Settings.load({"TASKKIT_HOME": "~/t"}).home == Path("/home/me/t")


@pytest.mark.parametrize(
    "name",
    [
        "TASKKIT_TEST_DATABASE_URL",
        "TASKKIT_TEST_X",
        "TASKKIT_SERVICE_HOST",
        "TASKKIT_PORT_6379_TCP_ADDR",
        "TASKKIT_WORKER_SERVICE_PORT_HTTP",
        "TASKKIT_PORT",
        "OTHER",
    ],
)
def test_variables_that_are_no_settings_are_left_alone(name: str) -> None:
    assert Settings.load({name: "tcp://10.0.0.1:80"}) == Settings.load({})


# ---- what is refused


@pytest.mark.parametrize(
    ("env", "parts"),
    [
        (
            {"TASKKIT_DATABSE_URL": "x"},
            ["environment", "TASKKIT_DATABSE_URL", "did you mean 'TASKKIT_DATABASE_URL'"],
        ),
        ({"TASKKIT_PROCESSES": "2"}, ["environment", "TASKKIT_PROCESSES"]),
        ({"TASKKIT_": "2"}, ["environment", "'TASKKIT_'"]),
        (
            {"TASKKIT_WORKER_PROCESSES": "abc"},
            ["environment", "'abc'", "1 to 1024", "TASKKIT_WORKER_PROCESSES="],
        ),
        ({"TASKKIT_WORKER_PROCESSES": "0"}, ["'0'", "1 to 1024"]),
        ({"TASKKIT_WORKER_PROCESSES": "1.5"}, ["'1.5'", "whole number"]),
        ({"TASKKIT_SCHEDULER_POLL_S": "nan"}, ["'nan'", "0.01 to 3600", "TASKKIT_SCHEDULER_POLL_S=0.5"]),
        ({"TASKKIT_SCHEDULER_POLL_S": "inf"}, ["'inf'", "0.01 to 3600"]),
        ({"TASKKIT_SCHEDULER_POLL_S": "-1"}, ["'-1'"]),
        (
            {"TASKKIT_SCHEDULER_STRICT_PRIORITY": "maybe"},
            ["true or false", "TASKKIT_SCHEDULER_STRICT_PRIORITY=false"],
        ),
        ({"TASKKIT_LOG_FORMAT": "xml"}, ["one of auto, json, pretty"]),
        ({"TASKKIT_LOG_LEVEL": "loud"}, ["debug, info, warning, error, critical"]),
        ({"TASKKIT_QUEUES": "q" * 65}, ["list of names", "TASKKIT_QUEUES=mail,report"]),
        ({"TASKKIT_KEY_PREFIX": "a{b}"}, ["without blanks and braces", "TASKKIT_KEY_PREFIX=shop:"]),
        ({"TASKKIT_TIMEZONE": "Asia/Beijing"}, ["there is no time zone", "TASKKIT_TIMEZONE"]),
        ({"TASKKIT_TIMEZONE": "Asia/Shangai"}, ["did you mean Asia/Shanghai"]),
        ({"TASKKIT_TIMEZONE": "../etc/passwd"}, ["there is no time zone"]),
        ({"TASKKIT_TIMEZONE": "Asia"}, ["there is no time zone"]),
        ({"TASKKIT_TIMEZONE": "localtime"}, ["there is no time zone"]),
        ({"TASKKIT_TIMEZONE": "+08:00"}, ["there is no time zone", "Asia/Shanghai"]),
        ({"TASKKIT_HOME": "/a?b"}, ["a path with '?' in it"]),
        ({"TASKKIT_WATCHDOG_METRICS": "9464"}, ["'9464'", "TASKKIT_WATCHDOG_METRICS=127.0.0.1:9464"]),
        ({"TASKKIT_WATCHDOG_DAILY_AT": "25:00"}, ["'25:00'", "TASKKIT_WATCHDOG_DAILY_AT=09:00"]),
        ({"TASKKIT_WATCHDOG_LANGUAGE": "fr"}, ["one of en, zh"]),
        ({"TASKKIT_WATCHDOG_PING_URL": "ping me"}, ["TASKKIT_WATCHDOG_PING_URL"]),
        ({"TASKKIT_HOME": "/a%20b"}, ["a path with '%' in it"]),
        ({"TASKKIT_CONFIG": "/nowhere/t.toml"}, ["/nowhere/t.toml", "cannot be read"]),
    ],
)
def test_a_wrong_variable_is_refused_with_its_place_and_what_to_write(
    env: dict[str, str], parts: list[str]
) -> None:
    line = refused(env)
    assert [part for part in parts if part not in line] == [], line


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('databse_url = "x"', ["taskkit.toml", "'databse_url'", "did you mean 'database_url'"]),
        ("[worker]\nprocesess = 1", ["'[worker] procesess'", "did you mean 'processes'"]),
        ("[wroker]\nprocesses = 1", ["'wroker'", "did you mean 'worker'"]),
        ("worker_processes = 1", ["write processes under [worker]"]),
        ("[worker]\nlog_days = 1", ["write log_days above the first table"]),
        ("worker = 1", ["write [worker] on a line of its own"]),
        ('[worker]\nprocesses = "2"', ["taskkit.toml", "[worker] processes = '2'", "whole number"]),
        ("[worker]\nstrict_queues = 1", ["true or false", "[worker] strict_queues = false"]),
        ('queues = "mail"', ["list of names", 'queues = ["mail", "report"]']),
        ("queues = [1]", ["list of names"]),
        ("home = 5", ["must be a path"]),
        ('home = ""', ["must be a path"]),
        ("log_days = 2026-03-01", ["log_days", "1 to 3650"]),
        ("log_days = nan", ["log_days"]),
        ("[scheduler]\npoll_s = nan", ["0.01 to 3600"]),
        ("log_days = ", ["taskkit.toml", "is not TOML: Invalid value (at end"]),
        ('database_url = "mysql://root:s3cret@h/x', ["is not TOML"]),
        ('redis_url = {password = "s3cret"}', ["redis_url = 'dict'"]),
        ('timezone = ""', ["must not be empty"]),
    ],
)
def test_a_wrong_file_is_refused_with_its_place_and_what_to_write(
    text: str, parts: list[str], tmp_path: Path
) -> None:
    toml(tmp_path, text)
    line = refused()
    assert [part for part in parts if part not in line] == [], line
    assert "s3cret" not in line


def test_a_file_in_another_encoding_or_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taskkit.toml").write_bytes('app = "Ä"'.encode("latin-1"))
    assert "UTF-8" in refused()
    assert "cannot be read" in refused(file=tmp_path)


def test_unknown_and_wrong_overrides_are_refused() -> None:
    assert "did you mean 'worker_processes'" in refused(worker_proceses=1)
    assert "did you mean 'worker_threads'" in refused(worker={"thread": 1})
    assert "table" in refused(worker=3)
    assert "worker_processes = '2'" in refused(worker_processes="2")


def test_a_long_wrong_value_is_cut() -> None:
    assert len(refused({"TASKKIT_WORKER_PROCESSES": "9" * 10_000})) < 400


def test_the_path_of_a_ping_url_is_a_secret_and_shown_nowhere(tmp_path: Path) -> None:
    secret = "0b7c1f7e-3a55-4c61"
    settings = Settings.load({"TASKKIT_WATCHDOG_PING_URL": f"https://hc-ping.com/{secret}"})
    assert settings.watchdog.ping_url == f"https://hc-ping.com/{secret}"
    assert secret not in repr(settings) + str(settings.shown())
    assert "hc-ping.com" in settings.shown()["watchdog.ping_url"]
    assert secret not in refused({"TASKKIT_WATCHDOG_PING_URL": f"hc-ping.com/{secret} x"})


def test_relative_folders_of_alerting_are_seen_from_their_file(tmp_path: Path) -> None:
    file = toml(tmp_path, '[watchdog]\nalerting = "rules"\n')
    assert Settings.load({}, file=file).watchdog.alerting == tmp_path / "rules"


def test_settings_are_frozen_and_hashable() -> None:
    settings = Settings.load({})
    with pytest.raises(AttributeError):
        settings.app = "x"  # type: ignore[misc]
    assert hash(settings) == hash(Settings.load({}))


def test_the_environment_of_tests_is_clean() -> None:
    assert Settings.load() == Settings.load({})
    assert not [name for name in os.environ if name.startswith("TASKKIT_")]
