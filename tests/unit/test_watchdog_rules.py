"""The file of rules: what is shipped, how one's own file changes it, and how each mistake is refused with its line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from msgspec.structs import fields

from taskkit.errors import SettingsError
from taskkit.settings import Settings
from taskkit.settings.lines import line_of
from taskkit.watchdog.policy import load_policy
from taskkit.watchdog.rules import keys_of, load_rules, read_rules, shipped, shipped_text
from taskkit.watchdog.signals import SIGNALS, Length, Rule, Size

IDS = "backlog success_rate worker_dead zombies lost slow scheduler given_up missed forecast duplicates stores watchdog".split()


def one(text: str, name: str = "backlog") -> Rule:
    return next(rule for rule in read_rules(text) if rule.id == name)


def refused(text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        read_rules(text)
    return str(caught.value).splitlines()


# what is shipped


def test_the_shipped_rules_are_those_of_the_design_in_its_order() -> None:
    assert [rule.id for rule in shipped()] == IDS
    assert list(SIGNALS) == IDS
    assert all(rule.id == rule.signal and rule.enabled for rule in shipped())


def test_the_shipped_thresholds_are_those_of_the_design() -> None:
    rules = {rule.id: rule for rule in shipped()}
    asked = {
        "backlog": {"above": 10_000, "hold": 300, "mark": 8_000},
        "success_rate": {"below": 99.0, "over": 600},
        "worker_dead": {"after": 60, "expected": 1},
        "lost": {"over": 600, "not_recovered": 60},
        "slow": {"factor": 2.0, "hold": 600, "min_runs": 50},
        "scheduler": {"no_scan": 30, "due_for": 60},
        "stores": {"clock_skew": 1.0, "inhibited_by": ()},
    }
    for name, values in asked.items():
        assert {key: getattr(rules[name], key) for key in values} == values, name


def test_each_shipped_rule_has_its_words_of_comment_and_names_only_known_keys() -> None:
    lines = shipped_text().splitlines()
    starts = [number for number, line in enumerate(lines) if line == "[[rule]]"]
    assert len(starts) == len(IDS)
    assert all(lines[number - 1].startswith("# ") for number in starts)
    assert max(len(line) for line in lines) <= 120


def test_what_must_be_seen_while_a_store_is_away_is_explained_by_it() -> None:
    for rule in shipped():
        if rule.id != "stores":
            assert "stores:sql" in rule.inhibited_by, rule.id


# one's own file


def test_a_rule_with_a_shipped_id_changes_the_keys_that_it_names() -> None:
    changed = one('[[rule]]\nid = "backlog"\nabove = 500\nfor = "1m"')
    before = next(rule for rule in shipped() if rule.id == "backlog")
    different = {f.name for f in fields(type(before)) if getattr(before, f.name) != getattr(changed, f.name)}
    assert different == {"above", "hold"}
    assert (changed.above, changed.mark, changed.hold) == (500, 400, 60.0)  # type: ignore[attr-defined]


def test_a_rule_with_another_id_begins_as_the_shipped_one_of_its_signal() -> None:
    text = '[[rule]]\nid = "mail_backlog"\nsignal = "backlog"\nqueues = ["mail"]\nabove = 500'
    rules = read_rules(text)
    assert [rule.id for rule in rules] == [*IDS, "mail_backlog"]
    mail = rules[-1]
    assert (mail.signal, mail.queues, mail.above, mail.hold) == ("backlog", ("mail",), 500, 300.0)  # type: ignore[attr-defined]
    assert (mail.group, mail.runbook) == ("mail_backlog", "runbooks/backlog.md")


def test_defaults_are_for_all_rules_that_do_not_say_otherwise() -> None:
    rules = {
        rule.id: rule for rule in read_rules('[defaults]\nevery = "5s"\nreceivers = ["ops"]\nfor = "7s"')
    }
    assert {rule.receivers for rule in rules.values()} == {("ops",)}
    assert (rules["zombies"].every, rules["stores"].every) == (5.0, 10.0)
    assert (rules["zombies"].hold, rules["backlog"].hold) == (7.0, 300.0)


def test_off_switches_off_what_may_be_absent() -> None:
    rule = one('[[rule]]\nid = "backlog"\nrepeat = "off"\ndrain_above = "off"')
    assert (rule.repeat, rule.drain_above) == (None, None)  # type: ignore[attr-defined]
    assert refused('[[rule]]\nid = "backlog"\nfor = "off"')[0].startswith("rules.toml:3: rule backlog: for: ")


def test_a_rule_can_be_switched_off() -> None:
    assert not one('[[rule]]\nid = "backlog"\nenabled = false').enabled


def test_a_copy_of_the_shipped_file_changes_nothing() -> None:
    assert read_rules(shipped_text()) == shipped()


def test_a_folder_without_rules_has_the_shipped_ones(tmp_path: Path) -> None:
    assert load_rules(None) == load_rules(tmp_path) == load_rules(tmp_path / "absent") == shipped()
    (tmp_path / "rules.toml").write_text('[[rule]]\nid = "lost"\nabove = 3')
    assert next(rule for rule in load_rules(tmp_path) if rule.id == "lost").above == 3  # type: ignore[attr-defined]
    (tmp_path / "rules.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="UTF-8"):
        load_rules(tmp_path)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [('"5m"', 300), ('"1h30m"', 5400), ('"0.5s"', 0.5), ("90", 90), ("1.5", 1.5), ('"0s"', 0)],
)
def test_lengths_of_time_are_text_or_seconds(written: str, seconds: float) -> None:
    assert one(f'[[rule]]\nid = "backlog"\nfor = {written}').hold == seconds


@pytest.mark.parametrize(
    ("written", "size"),
    [('"1GiB"', 1 << 30), ('"500 MiB"', 500 << 20), ("1024", 1024), ('"10kib"', 10 << 10)],
)
def test_sizes_are_text_or_bytes(written: str, size: int) -> None:
    assert one(f'[[rule]]\nid = "stores"\ndisk_left = {written}', "stores").disk_left == size  # type: ignore[attr-defined]


# what is refused


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[[rule]]\nid = "backlog"\n\nabvoe = 3', "rules.toml:4: rule backlog: unknown key 'abvoe'; did you mean 'above'?"),
        ('[[rule]]\nid = "lost"\nbelow = 3', "rules.toml:3: rule lost: unknown key 'below'"),
        ('[[rule]]\nid = "lost"\nrunbook = """\n[[rule]]\n"""\nabov = 3', "rules.toml:6: rule lost: unknown key 'abov'; did you mean"),
        ('[defaults]\nevry = "1s"', "rules.toml:2: [defaults]: unknown key 'evry'; did you mean 'every'?"),
        ('[defaults]\nabove = 3', "rules.toml:2: [defaults]: unknown key 'above'"),
        ("[default]\nx = 1", "rules.toml:1: unknown 'default'; did you mean 'defaults'?"),
        ('[[rules]]\nid = "lost"', "rules.toml:1: unknown 'rules'; did you mean 'rule'?"),
        ('[[rule]]\nid = "mine"\nsignal = "backlg"', "rules.toml:3: rule mine: there is no signal 'backlg'; did you mean 'backlog'?"),
        ('[[rule]]\nid = "mine"\nabove = 3', "rules.toml:1: rule mine: there is no signal 'mine'"),
        ("[[rule]]\nabove = 3", "rules.toml:1: a rule has no id"),
        ('[[rule]]\nid = "Back log"', "rules.toml:1: a rule id = 'Back log' is none"),
        ('[[rule]]\nid = "lost"\n[[rule]]\nid = "lost"', "rules.toml:3: there are two rules lost"),
        ('[[rule]]\nid = "lost"\nsignal = "slow"', "rules.toml:1: rule lost: its signal is lost; give yours another id"),
        ('[[rule]]\nid = "lost"\nabove = "3"', "rules.toml:3: rule lost: above: Expected int, got str"),
        ('[[rule]]\nid = "lost"\nabove = -3', "rules.toml:3: rule lost: above: Expected int >= 0"),
        ('[[rule]]\nid = "lost"\nevery = "3 minutes"', "rules.toml:3: rule lost: every: '3 minutes' is no length of time"),
        ('[[rule]]\nid = "lost"\nevery = true', "rules.toml:3: rule lost: every: is no length of time"),
        ('[[rule]]\nid = "lost"\nevery = -1', "rules.toml:3: rule lost: every: -1 must be from 0 to a year"),
        ('[[rule]]\nid = "lost"\nevery = nan', "rules.toml:3: rule lost: every: nan must be"),
        ('[[rule]]\nid = "lost"\nseverity = "bad"', "rules.toml:3: rule lost: severity: Invalid enum value 'bad'"),
        ('[[rule]]\nid = "stores"\ndisk_left = "1 zip"', "rules.toml:3: rule stores: disk_left: is no size"),
        ('[[rule]]\nid = "backlog"\nbelow = 20000', "rules.toml:1: rule backlog: below = 20000 is over above = 10000"),
        ('[[rule]]\nid = "backlog"\nqueues = [\n"a",\n3]', "rules.toml:3: rule backlog: queues: Expected str, got int"),
        ('[[rule]]\nid = "lost"\ninhibited_by = ["stors:sql"]', "rules.toml:3: rule lost: inhibited_by: there is no rule 'stors'; did you"),
        ('[[rule]]\nid = "lost"\ninhibited_by = ["lost"]', "rules.toml:3: rule lost: inhibited_by: lost would inhibit itself"),
        ("rule = 3", "rules.toml:1: write [defaults] once, and [[rule]] for each rule"),
        ('[[rule]]\nid = "lost"\nevery = "1s\n', "rules.toml: is not TOML: "),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_its_line_and_what_was_meant(text: str, told: str) -> None:
    assert refused(text)[0].startswith(told)


def test_all_mistakes_are_told_at_once() -> None:
    text = '[[rule]]\nid = "lost"\nabov = 3\nevery = "x"\n[[rule]]\nid = "slow"\nfactor = 1'
    assert [line.partition(": ")[0] for line in refused(text)] == [
        "rules.toml:3",
        "rules.toml:4",
        "rules.toml:7",
    ]


def test_a_circle_of_inhibitions_is_refused_since_nobody_would_be_told_of_anything() -> None:
    told = refused('[[rule]]\nid = "scheduler"\ninhibited_by = ["missed"]')
    assert any("scheduler would inhibit itself in the end" in line for line in told)


def test_every_key_of_a_rule_stands_in_the_shipped_file_or_is_made_of_its_id() -> None:
    parsed = tomllib.loads(shipped_text())
    for rule in parsed["rule"]:
        given = {*rule, *parsed["defaults"], "signal", "enabled", "group", "runbook"}
        assert given == set(keys_of(SIGNALS[rule["id"]]))


def test_a_rule_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        shipped()[0].id = "x"  # type: ignore[misc]


# lines


def test_lines_are_found_behind_long_texts_lists_and_comments() -> None:
    text = 'a = 1 # [x]\nb = """\n[[rule]]\nc = 1\n"""\n[[rule]]\nid = "]["\nlist = [\n  "x", # ]\n  "y"\n]\n"q k" = 1\n[[rule]]\nid = 2\nd.e = 3\n'
    assert [line_of(text, [key]) for key in ("a", "b", "absent")] == [1, 2, 1]
    assert [line_of(text, ["rule", 0, *[key][: bool(key)]]) for key in ("", "id", "list", "q k", "c")] == [
        6,
        7,
        8,
        12,
        6,
    ]
    assert [line_of(text, ["rule", 1, *[key][: bool(key)]]) for key in ("", "id", "d")] == [13, 14, 15]


def test_lengths_and_sizes_refuse_what_is_none() -> None:
    for wrong in (None, [], "", "-1s", float("inf"), True):
        with pytest.raises(ValueError, match=r"length of time|from 0 to a year"):
            Length.of(wrong)
        with pytest.raises(ValueError, match="is no size"):
            Size.of(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "rule = [1]",
        '[[rule]]\nid = "backlog"\nsignal = ["backlog"]',
        '[[rule]]\nid = "backlog"\nabove = ' + "9" * 5000,
        '[[rule]]\nid = "backlog"\nevery = ' + "9" * 400,
        '[[rule]]\nid = "stores"\ndisk_left = "' + "9" * 400 + 'TiB"',
        '[[rule]]\nid = "backlog"\ngroup = "' + "g" * 151 + '"',
        "x = " + "[" * 20_000 + "]" * 20_000,
    ],
)
def test_what_is_wrong_beyond_all_measure_is_refused_like_anything_else(text: str) -> None:
    with pytest.raises(SettingsError, match=r"rules\.toml"):
        read_rules(text)


def test_a_watchdog_that_is_started_says_on_which_line_a_receiver_is_named_that_there_is_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "rules.toml").write_text(
        '[defaults]\nreceivers = ["ops"]\n\n[[rule]]\nid = "backlog"\nabove = 5\nreceivers = [\n  "opps",\n]\n'
    )
    (tmp_path / "receivers.toml").write_text(
        '[[receiver]]\nname = "ops"\nkind = "webhook"\nurl_env = "OPS_URL"\n'
    )
    settings = Settings.load(env={"TASKKIT_WATCHDOG_ALERTING": str(tmp_path)})
    with pytest.raises(SettingsError) as refused:
        load_policy(settings, {"OPS_URL": "https://example.com/hook"})
    assert str(refused.value) == (
        f"{tmp_path}/rules.toml:7: rule backlog: there is no receiver 'opps'; did you mean 'ops'? in receivers.toml"
    )
