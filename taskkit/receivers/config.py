"""receivers.toml → receivers: whatever is unknown or wrong is refused with its line; secrets come from the environment."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import parse_qs, urlsplit

import msgspec

from taskkit.clock import parse_span
from taskkit.errors import InputError, SettingsError
from taskkit.hints import suggest
from taskkit.receivers import keys
from taskkit.receivers.addresses import Address, Hidden, masked, redacted
from taskkit.receivers.building import BUILDERS
from taskkit.receivers.keys import KINDS, NEEDED, PEOPLE, SECRETS, KeyRule
from taskkit.receivers.mentions import Mentions
from taskkit.receivers.protocol import Options, Receiver
from taskkit.settings.lines import line_of
from taskkit.texts import harmless

FILE = "receivers.toml"
TOKENS = {"wecom": "key", "dingtalk": "access_token"}
"""The parameter of a robot's URL that is its secret."""
SHORTEST_TIMEOUT_S, LONGEST_TIMEOUT_S = 0.5, 15.0
RESERVED = "TASKKIT_"
NOT_SET = "there is no such environment variable, or it is empty"
LONGEST_SHOWN, SHORTEST_UNUSUAL = 48, 20
"""Letters of the name of a variable that are shown, and of one that has no _ in it."""


def load(path: Path, env: Mapping[str, str]) -> dict[str, Receiver]:
    """The receivers of a file by their names, in its order; raises SettingsError, one line, for anything wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise SettingsError(f"{path}: cannot be read: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: is not written in UTF-8") from None
    return read(text, env, place=str(path))


def read(text: str, env: Mapping[str, str], *, place: str = FILE) -> dict[str, Receiver]:
    """The receivers of a text."""
    page = _ReceiversText(text, place)
    content = page.parsed()
    for key in content:
        if key != "receiver":
            page.refuse((key,), f"unknown table {key!r}{suggest(key, ['receiver'])}; write [[receiver]]")
    tables = content.get("receiver", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        page.refuse(("receiver",), "receivers are a list of tables; write [[receiver]], with two brackets")
    found: dict[str, Receiver] = {}
    for number, values in enumerate(tables):
        table = _Table(page, number, values, env)
        receiver = table.receiver()
        if receiver.name in found:
            table.refuse("name", f"there are two receivers named {receiver.name!r}; give each its own name")
        found[receiver.name] = receiver
    return found


class _ReceiversText:
    """The text of a file, which knows the line of what it refuses."""

    def __init__(self, text: str, place: str) -> None:
        self.text, self.place = text, place

    def parsed(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self.text)
        except (ValueError, RecursionError) as problem:  # of a number, or of brackets, beyond all measure too
            where = re.search(r"\(at [^)]*\)", str(problem))  # the rest may quote a secret
            raise SettingsError(
                f"{self.place}: is not TOML {where.group() if where else ''}".rstrip()
            ) from None

    def refuse(self, path: tuple[str | int, ...], problem: str) -> NoReturn:
        raise SettingsError(f"{self.place} line {line_of(self.text, path)}: {problem}")


class _Table:
    """One [[receiver]], checked key by key."""

    def __init__(
        self, page: _ReceiversText, number: int, values: dict[str, Any], env: Mapping[str, str]
    ) -> None:
        self.page, self.number, self.values, self.env = page, number, values, env

    def refuse(self, key: str, problem: str) -> NoReturn:
        name = self.values.get("name")
        called = f"receiver {redacted(name)!r}" if isinstance(name, str) else f"receiver {self.number + 1}"
        inside = key.split(".") if key else []
        self.page.refuse(("receiver", self.number, *inside), f"{called}: {problem}")

    def receiver(self) -> Receiver:
        kind = self._kind()
        known = KINDS[kind]
        for key in self.values:
            if key not in known:
                self._unknown(key, kind)
        taken = {key: self._value(key, value, known[key]) for key, value in self.values.items()}
        for key in ("name", *NEEDED[kind]):
            if key not in taken:
                self.refuse("", f"{key} is missing; write for example {key} = {known[key].example}")
        try:
            return BUILDERS[kind](self._options(taken, kind), self._with_secrets(taken, kind))
        except InputError as problem:
            self.refuse(problem.field, problem.problem)

    def _kind(self) -> str:
        kind = self.values.get("kind")
        if kind is None:
            self.refuse("", f"kind is missing; write kind = with one of {', '.join(KINDS)}")
        if not isinstance(kind, str) or kind not in KINDS:
            shown = kind if isinstance(kind, str) else ""
            self.refuse(
                "kind",
                f"kind = {redacted(str(kind))!r} is none; there are {', '.join(KINDS)}{suggest(shown, KINDS)}",
            )
        return kind

    def _unknown(self, key: str, kind: str) -> NoReturn:
        instead = SECRETS.get(key)
        if instead:
            self.refuse(
                key,
                f"{key} must not stand in a file: put it into an environment variable, and write that one's name: "
                f"{instead} = {_example(instead)}",
            )
        owners = [name for name, known in KINDS.items() if key in known]
        hint = f"; it is one of {' and '.join(owners)}" if owners else suggest(key, KINDS[kind])
        self.refuse(key, f"unknown key {redacted(key)!r} of a {kind} receiver{hint}")

    def _value(self, key: str, value: Any, rule: KeyRule) -> Any:
        try:
            return msgspec.convert(value, rule.hint)
        except msgspec.ValidationError:
            shown = "" if key.endswith("_env") else f" = {redacted(ascii(value))[:80]}"
            self.refuse(
                key,
                f"{key}{shown}: {rule.wants}; write for example {key.rpartition('.')[2]} = {rule.example}",
            )

    def _options(self, taken: dict[str, Any], kind: str) -> Options:
        return Options(
            name=taken["name"],
            language=taken.get("language"),
            severity=taken.get("severity", "note"),
            resolved=taken.get("resolved", True),
            fallback=taken.get("fallback", False),
            timeout=self._timeout(taken.get("timeout", "5s")),
            mentions=self._mentions(taken.get("mentions", {}), kind),
        )

    def _timeout(self, text: str) -> float:
        try:
            seconds = float(text[:-2]) / 1000 if text.endswith("ms") else parse_span(text)
        except ValueError:
            seconds = -1.0
        if not SHORTEST_TIMEOUT_S <= seconds <= LONGEST_TIMEOUT_S:
            rule = keys.COMMON["timeout"]
            self.refuse(
                "timeout",
                f"timeout = {redacted(text)!r}: {rule.wants}; write for example timeout = {rule.example}",
            )
        return seconds

    def _mentions(self, values: dict[str, Any], kind: str) -> Mentions:
        known = {key: rule for key, rule in PEOPLE.items() if kind != "feishu" or key != "mobiles"}
        for key in values:
            if key not in known:
                self.refuse(
                    f"mentions.{key}", f"unknown key {redacted(key)!r} of mentions{suggest(key, known)}"
                )
        for user in values.get("users", ()):
            if isinstance(user, str) and user.lower().lstrip("@") in ("all", "所有人"):
                self.refuse("mentions.users", "everybody is no user; write all = true")
        taken = {key: self._value(f"mentions.{key}", value, known[key]) for key, value in values.items()}
        return Mentions(
            users=tuple(dict.fromkeys(taken.get("users", ()))),
            mobiles=tuple(dict.fromkeys(taken.get("mobiles", ()))),
            everyone=taken.get("all", False),
            severity=taken.get("severity", "note"),
        )

    def _with_secrets(self, taken: dict[str, Any], kind: str) -> dict[str, Any]:
        """The values with what their variables hold, as ``secret``, ``token``, ``password`` and ``address``."""
        hidden = {
            key.removesuffix("_env"): self._secret(key, taken[key]) for key in taken if key.endswith("_env")
        }
        url = hidden.pop("url", None)
        if url is not None:
            others = tuple(hidden.values())
            address = self._address(url.reveal(), kind, others)
            return {**taken, **hidden, "address": address}
        return {**taken, **hidden}

    def _secret(self, key: str, variable: str) -> Hidden:
        if variable.startswith(RESERVED):
            self.refuse(key, f"{key}: variables that begin with {RESERVED} are settings; choose another name")
        value, shown = self.env.get(variable, "").strip(), _variable(variable)
        if not value:
            self.refuse(key, f"{key} = {shown!r}: {NOT_SET}")
        if harmless(value) != value:
            self.refuse(key, f"{key} = {shown!r}: there is a control character in what it holds")
        return Hidden(value)

    def _address(self, url: str, kind: str, secrets: tuple[Hidden, ...]) -> Address:
        variable, token = self.values["url_env"], TOKENS.get(kind, "")
        try:
            parts = urlsplit(url)
            good = (
                parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) and " " not in url
            )
        except ValueError:
            good = False
        if not good:
            self.refuse("url_env", f"what {variable} holds is no URL; it begins with https://")
        if token and not parse_qs(parts.query).get(token):
            self.refuse(
                "url_env", f"what {variable} holds is no address of a {kind} robot: {token}= is missing in it"
            )
        return Address.of(url, *secrets, token=token)


def _variable(name: str) -> str:
    """The name of a variable; of what looks like the secret itself, put where its name belongs, the beginning."""
    usual = len(name) < SHORTEST_UNUSUAL or "_" in name
    return name if usual and len(name) <= LONGEST_SHOWN and redacted(name) == name else masked(name)


def _example(key: str) -> str:
    return next(known[key].example for known in KINDS.values() if key in known)
