"""What a handler can be called with: the names of its parameters, and their types where these are plain JSON ones."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from taskkit.errors import InputError, PayloadError
from taskkit.hints import suggest

MISSING = re.compile(r"missing a required (?:keyword-only )?argument: (.+)")
PLAIN = {str, int, float, bool, type(None), list, dict, Any}
CONTAINERS = {list, dict, Union, types.UnionType}


class Parameters:
    """The parameters of a handler; refuses one that a JSON object cannot call."""

    def __init__(self, code: str, fn: Callable[..., Any]) -> None:
        self._code, self._fn = code, fn
        self._signature = inspect.signature(fn)
        for parameter in self._signature.parameters.values():
            if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL}:
                raise InputError(
                    "handler",
                    f"{self}: a payload is a JSON object, so {parameter.name!r} cannot be positional only",
                )

        known = [p for p in self._signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        self._open = len(known) < len(self._signature.parameters)
        self._names = {p.name for p in known}
        self._required = {p.name for p in known if p.default is p.empty}

    def __str__(self) -> str:
        return f"{self._code}{self._signature}"

    def bind(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The arguments of a call by name; raises PayloadError when they do not fit."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise PayloadError("payload", self._misfit(str(error), kwargs)) from None
        arguments = dict(bound.arguments)
        for parameter in self._signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                arguments.update(arguments.pop(parameter.name, {}))
        self.check_types(arguments)
        return arguments

    def check(self, payload: Mapping[str, Any]) -> None:
        """Raise PayloadError unless a call with these arguments fits."""
        if not self._open and self._required <= payload.keys() <= self._names:
            self.check_types(payload)
        else:
            self.bind(**payload)

    def check_known(self, name: str, field: str) -> None:
        """Raise InputError unless an argument may have this name."""
        if not self._open and name not in self._names:
            raise InputError(field, f"{self} has no argument {name!r}{suggest(name, self._names)}")

    def _misfit(self, problem: str, given: Mapping[str, Any]) -> str:
        """What is wrong with the names; the unknown one first, for that is usually the missing one misspelt."""
        names = [p.name for p in self._signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        unknown = next((name for name in given if name not in names), None)
        if unknown is not None and len(names) == len(self._signature.parameters):
            problem = f"there is no argument {unknown!r}{suggest(unknown, names)}"
        elif missing := MISSING.fullmatch(problem):
            problem = f"the argument {missing[1]} is missing"
        return f"does not fit {self._code}: {problem}; it takes {', '.join(names) or 'none'}"

    def check_types(self, arguments: Mapping[str, Any]) -> None:
        """Raise PayloadError at the first argument that is not of its parameter's plain type."""
        for name, value in arguments.items():
            wanted = self._plain_types.get(name)
            if wanted is None or (value is None and self._signature.parameters[name].default is None):
                continue
            try:
                msgspec.convert(value, wanted)
            except msgspec.ValidationError as error:
                told = str(error)
                raise PayloadError(
                    "payload", f"$.{name} does not fit {self._code}: {told[0].lower()}{told[1:]}"
                ) from None

    @cached_property
    def _plain_types(self) -> dict[str, Any]:
        """The annotated types that JSON has; others are the handler's own business."""
        try:
            hints = get_type_hints(self._fn)
        except Exception:  # noqa: BLE001 - an annotation may name what exists for type checkers only
            return {}
        varying = {p.name for p in self._signature.parameters.values() if p.kind is p.VAR_KEYWORD}
        return {
            name: hint for name, hint in hints.items() if name not in varying | {"return"} and _is_plain(hint)
        }


def _is_plain(hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return True
    if get_origin(hint) in CONTAINERS:
        return all(_is_plain(argument) for argument in get_args(hint))
    try:
        return hint in PLAIN
    except TypeError:
        return False
