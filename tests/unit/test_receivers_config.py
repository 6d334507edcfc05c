"""receivers.toml: what is read, and how whatever is unknown or wrong is refused, with its line and without secrets."""

from __future__ import annotations

import pickle
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskkit.alerts import Event
from taskkit.errors import SettingsError
from taskkit.receivers.addresses import Hidden, masked, redacted
from taskkit.receivers.config import load, read
from taskkit.receivers.keys import COMMON, KINDS, PEOPLE
from taskkit.receivers.mentions import Mentions
from taskkit.settings.lines import line_of, lines
from tests.notices import item

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "alerting/receivers.example.toml"
KEY = "693axxx6-7aoc-4bc4-97a0-0ec2sifa5aaa"
ENV = {
    "OPS_WECOM_URL": f"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={KEY}",
    "OPS_DINGTALK_URL": "https://oapi.dingtalk.com/robot/send?access_token=" + "5f" * 32,
    "OPS_DINGTALK_SECRET": "SECtaskkit0000example1111made2222up3333secret4444",
    "OPS_FEISHU_URL": "https://open.feishu.cn/open-apis/bot/v2/hook/1f2e3d4c-5b6a-7089-90ab-cdef01234567",
    "OPS_FEISHU_SECRET": "feishu-secret-of-many-letters",
    "ON_CALL_URL": "https://oncall.example.com/hooks/T0123/B4567/abcdefghijkl",
    "ON_CALL_TOKEN": "token-of-many-letters",
    "OPS_MAIL_PASSWORD": "password-of-many-letters",
    "BAD_URL": "no url: " + KEY,
}


def wecom(more: str = "", **changes: str) -> str:
    values = {"name": '"ops"', "kind": '"wecom"', "url_env": '"OPS_WECOM_URL"', **changes}
    return "[[receiver]]\n" + "".join(f"{key} = {value}\n" for key, value in values.items()) + more


def test_the_example_is_valid_and_shows_every_key() -> None:
    found = read(EXAMPLE.read_text(encoding="utf-8"), ENV)
    assert [(one.name, one.kind) for one in found.values()] == [
        ("ops-wecom", "wecom"), ("ops-dingtalk", "dingtalk"), ("ops-feishu", "feishu"), ("on-call", "webhook"), ("mail", "mail"),
    ]  # fmt: skip
    tables = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))["receiver"]
    for table in tables:
        assert table.keys() >= KINDS[table["kind"]].keys() - COMMON.keys(), table["kind"]
    assert tables[0].keys() >= COMMON.keys()
    assert tables[0]["mentions"].keys() == PEOPLE.keys()
    page = (ROOT / "docs/receivers.md").read_text(encoding="utf-8")
    assert [key for known in KINDS.values() for key in known if f"`{key}`" not in page] == []


def test_the_keys_are_read() -> None:
    people = (
        'mentions = { users = ["a", "a"], mobiles = ["+86-13800000000"], all = true, severity = "critical" }'
    )
    one = read(
        wecom(
            f'language = "zh"\nseverity = "warning"\nresolved = false\nfallback = true\ntimeout = "800ms"\n{people}'
        ),
        ENV,
    )["ops"]
    assert one.options.mentions == Mentions(("a",), ("+86-13800000000",), True, "critical")
    assert (one.options.language, one.options.fallback, one.options.timeout) == ("zh", True, 0.8)
    assert (one.budget, one.month) == (18, None)
    assert [one.options.takes(item(severity=s)) for s in ("note", "warning", "critical")] == [
        False,
        True,
        True,
    ]
    assert not one.options.takes(item(event=Event.RESOLVED))


def test_two_receivers_of_one_robot_share_its_fingerprint() -> None:
    text = wecom() + wecom(name='"other"', format='"text"')
    first, second = read(text, ENV).values()
    assert first.robot == second.robot
    assert re.fullmatch("[0-9a-f]{12}", first.robot)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (wecom('mentoins = { all = true }'), 5, "unknown key 'mentoins' of a wecom receiver; did you mean 'mentions'?"),
        (wecom('secret_env = "X"'), 5, "unknown key 'secret_env' of a wecom receiver; it is one of dingtalk and feishu"),
        (wecom('\n# c\nmentions = { al = true }'), 7, "unknown key 'al' of mentions; did you mean 'all'?"),
        (wecom('[receiver.mentions]\nusers = ["ok",\n "not ok"]'), 6, "mentions.users = ['ok', 'not ok']: must be a list of at most 100 user ids; write for example users = "),
        (wecom('mentions = { users = ["@all"] }'), 5, "everybody is no user; write all = true"),
        (wecom('mentions = { mobiles = [13800000000] }'), 5, "phone numbers in quotes"),
        (wecom('format = "html"'), 5, "format = 'html': must be markdown, markdown_v2 or text; write for example format = \"markdown\""),
        (wecom('timeout = "5 minutes"'), 5, "timeout = '5 minutes': is a length of time from 500ms to 15s"),
        (wecom('timeout = "5m"'), 5, "from 500ms to 15s"),
        (wecom('timeout = "16s"'), 5, "from 500ms to 15s"),
        (wecom('timeout = 5'), 5, "in quotes; write for example timeout = \"5s\""),
        (wecom('severity = "ok"'), 5, "note, warning or critical"),
        (wecom('resolved = "yes"'), 5, "must be true or false"),
        (wecom('month = 3000'), 5, "it is one of dingtalk"),
        (wecom(kind='"wecon"'), 3, "kind = 'wecon' is none; there are wecom, dingtalk, feishu, webhook, mail; did you mean 'wecom'?"),
        (wecom(name='"a b"'), 2, "must be a name of letters, digits, - and _"),
        (wecom() + wecom(), 6, "there are two receivers named 'ops'"),
        (wecom(url_env='"NOT_THERE"'), 4, "url_env = 'NOT_THERE': there is no such environment variable, or it is empty"),
        (wecom(url_env='"TASKKIT_URL"'), 4, "variables that begin with TASKKIT_ are settings"),
        (wecom(url_env='"BAD_URL"'), 4, "what BAD_URL holds is no URL; it begins with https://"),
        (wecom(url_env='"ON_CALL_URL"'), 4, "what ON_CALL_URL holds is no address of a wecom robot: key= is missing in it"),
        (wecom(url_env=f'"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={KEY}"'), 4, "url_env: must be the name of an environment variable that holds the URL"),
        (wecom(url=f'"https://x?key={KEY}"'), 5, "url must not stand in a file: put it into an environment variable, and write that one's name: url_env = "),
        (wecom(secret=f'"{KEY}"'), 5, "secret must not stand in a file"),
        ("[[receiver]]\nname = \"a\"\n", 1, "kind is missing"),
        ("[[receiver]]\nname = \"a\"\nkind = \"wecom\"\n", 1, "url_env is missing; write for example url_env = "),
        ("\n[receiver]\nname = \"a\"\n", 2, "write [[receiver]], with two brackets"),
        ("[[receivers]]\nname = \"a\"\n", 1, "unknown table 'receivers'; did you mean 'receiver'?"),
        ('[[receiver]]\nname = "m"\nkind = "mail"\nserver = "smtp.example.com:99999"\nfrom = "a@b.c"\nto = ["a@b.c"]', 4, "the port must be from 1 to 65535"),
        ('[[receiver]]\nname = "m"\nkind = "mail"\nserver = "smtp.example.com"\ntls = "none"\nuser = "a"\npassword_env = "OPS_MAIL_PASSWORD"\nfrom = "a@b.c"\nto = ["a@b.c"]', 5, "would show the password to the network"),
        ('[[receiver]]\nname = "m"\nkind = "mail"\nserver = "smtp.example.com"\nfrom = "a@b.c\\nBcc: x@y.z"\nto = ["a@b.c"]', 5, "must be a mail address"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_line_and_what_to_write(text: str, line: int, told: str) -> None:
    with pytest.raises(SettingsError) as problem:
        read(text, ENV)
    message = str(problem.value)
    assert message.startswith(f"receivers.toml line {line}: "), message
    assert told in message
    assert "\n" not in message
    assert KEY[8:] not in message


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        load(tmp_path / "receivers.toml", ENV)
    (tmp_path / "receivers.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(SettingsError, match="not written in UTF-8"):
        load(tmp_path / "receivers.toml", ENV)
    (tmp_path / "receivers.toml").write_text(f'key = "{KEY}" "{KEY}"')
    with pytest.raises(SettingsError, match=r"is not TOML \(at line 1, column") as problem:
        load(tmp_path / "receivers.toml", ENV)
    assert KEY not in str(problem.value)


def test_nothing_secret_is_shown_by_any_receiver() -> None:
    found = read(EXAMPLE.read_text(encoding="utf-8"), ENV)
    shown = f"{found!r}"
    assert "key=693a…" in shown
    assert "https://oncall.example.com/…" in shown
    for value in ENV.values():
        for part in (value, value.rpartition("=")[2], value.rpartition("/")[2]):
            assert part not in shown
    with pytest.raises(TypeError):
        pickle.dumps(Hidden(KEY))


def test_what_others_say_is_masked() -> None:
    secret = Hidden("a/b+c=d/0123456789")
    text = redacted(
        "token a%2Fb%2Bc%3Dd%2F0123456789 from 10.1.2.3 and 2001:db8::1:2:3 at 12:30:45 SECabcdef0123 &sign=abcdefabcdefabcdef",
        (secret,),
    )
    assert text == "token a/b+… from (ip) and (ip) at 12:30:45 SEC… &sign=abcd…"
    assert masked("short") == "…"
    assert len(redacted("告" * 1000).encode()) <= 240


# lines


TEXT = '''# first
a = 1
"b.c" = """
[not]
x = 1
"""
[t.u]
k = [
  1,
  { x = 1, y = "}" },
]
[[r]]
name = "a"
m = { users = ["x", "y"], all = false }
[r.inner]
when = 1979-05-27 07:32:00
[[r]]
name = 'it''s'
'''.replace("it''s", "its")


@pytest.mark.parametrize(
    ("path", "line"),
    [("a", 2), (("b.c",), 3), ("t", 7), ("t.u", 7), ("t.u.k", 8), ("t.u.k.0", 9), ("t.u.k.1.y", 10), ("r", 12),
     ("r.0.name", 13), ("r.0.m.users.1", 14), ("r.0.inner.when", 16), ("r.1", 17), (("r", 1, "name"), 18),
     ("r.1.missing", 17), ("t.u.k.9", 8), ("nothing", 1)],
)  # fmt: skip
def test_a_key_is_found_on_its_line(path: str | tuple[str | int, ...], line: int) -> None:
    tomllib.loads(TEXT)
    assert line_of(TEXT, path) == line


KEYS = st.text("abc", min_size=1, max_size=3)
VALUES = st.recursive(
    st.one_of(
        st.integers(-9, 99).map(str), st.booleans().map(lambda b: str(b).lower()), st.just('"a # ] } \\" ="'), st.just("'x\\'"),
        st.just("1.5e3"), st.just("2026-01-01T00:00:00Z"), st.just('"""a\n"b" # ]\n"""'), st.just("'''\n[x]\n'''"),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda values: "[\n" + ", # note ]\n".join(values) + "\n]"),
        st.dictionaries(KEYS, st.integers(0, 9), max_size=3).map(lambda d: "{" + ", ".join(f"{k} = {v}" for k, v in d.items()) + "}"),
    ),
    max_leaves=6,
)  # fmt: skip


@given(st.lists(st.tuples(KEYS, st.dictionaries(KEYS, VALUES, max_size=4)), max_size=4))
def test_every_key_of_any_file_is_found_where_it_was_written(
    tables: list[tuple[str, dict[str, str]]],
) -> None:
    text, expected = "", {}
    counts: dict[str, int] = {}
    for name, values in tables:
        text += f"# a comment\n[[{name}]]\n"
        number = counts[name] = counts.get(name, -1) + 1
        expected[name, str(number)] = text.count("\n")
        for key, value in values.items():
            expected[name, str(number), key] = text.count("\n") + 1
            text += f"{key} = {value} # end\n"
    tomllib.loads(text)
    found = lines(text)
    assert {path: found.get(path) for path in expected} == expected


@given(st.text("ab=[]{}\"'\n#., \\", max_size=60))
def test_what_is_no_toml_is_walked_through_to_its_end(text: str) -> None:
    assert all(line >= 1 for line in lines(text).values())


@pytest.mark.parametrize("text", ["receiver = " + "[" * 20_000 + "]" * 20_000, "x = " + "9" * 5000])
def test_what_is_no_toml_beyond_all_measure_is_refused_like_anything_else(text: str) -> None:
    with pytest.raises(SettingsError, match="is not TOML"):
        read(text, {})


@pytest.mark.parametrize("secret", ["SECabcdef0123456789abcdef", "a0123456789abcdef" * 3])
def test_a_secret_in_the_place_of_its_variables_name_is_not_shown(secret: str) -> None:
    text = f'[[receiver]]\nname = "d"\nkind = "webhook"\nurl_env = "U"\ntoken_env = "{secret}"\n'
    with pytest.raises(SettingsError, match="there is no such environment variable") as caught:
        read(text, {"U": "https://h.example.com/x"})
    assert secret[6:] not in str(caught.value)


@pytest.mark.parametrize("letter", ["\x01", "\r", "\x7f", "\x9b", "\u202e"])
def test_a_secret_with_a_control_character_is_refused_without_showing_it(letter: str) -> None:
    token = f"token-of-{letter}many-letters"
    text = '[[receiver]]\nname = "hook"\nkind = "webhook"\nurl_env = "ON_CALL_URL"\ntoken_env = "ON_CALL_TOKEN"\n'
    with pytest.raises(SettingsError, match="there is a control character in what it holds") as caught:
        read(text, {**ENV, "ON_CALL_TOKEN": token})
    assert "many-letters" not in str(caught.value)
