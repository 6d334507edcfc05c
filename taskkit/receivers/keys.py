"""The keys of receivers.toml: which kind takes which, what their values are, and what to write instead of a wrong one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
USER = r"^[^\s<>@\"'`,;()\[\]][^\s<>\"'`,;()\[\]]*$"
MOBILE = r"^\+?[0-9][0-9-]{3,20}$"
ADDRESS = r"^[^\s@<>,;:\"()\[\]\\\x00-\x1f]+@[A-Za-z0-9.-]+$"
Severity = Literal["note", "warning", "critical"]
Variable = Annotated[str, Meta(pattern=ENV_NAME, max_length=128)]


@dataclass(frozen=True, slots=True)
class KeyRule:
    """What a key takes, in a type, in words, and as an example."""

    hint: Any
    wants: str
    example: str


def _one_of(*words: str) -> str:
    return f"must be {', '.join(words[:-1])} or {words[-1]}"


def _format(hint: Any, *words: str) -> dict[str, KeyRule]:
    return {"format": KeyRule(hint, _one_of(*words), f'"{words[0]}"')}


def _list(pattern: str, longest: int, most: int) -> Any:
    return Annotated[
        tuple[Annotated[str, Meta(pattern=pattern, max_length=longest)], ...], Meta(max_length=most)
    ]


COMMON = {
    "name": KeyRule(
        Annotated[str, Meta(pattern=NAME, max_length=64)],
        "must be a name of letters, digits, - and _",
        '"ops"',
    ),
    "kind": KeyRule(str, "must be the kind of receiver", '"wecom"'),
    "language": KeyRule(Literal["en", "zh"], _one_of("en", "zh"), '"zh"'),
    "severity": KeyRule(
        Severity, "is the least severity that is told: note, warning or critical", '"warning"'
    ),
    "resolved": KeyRule(bool, "must be true or false", "true"),
    "fallback": KeyRule(bool, "must be true or false", "true"),
    "timeout": KeyRule(str, "is a length of time from 500ms to 15s, in quotes", '"5s"'),
}
URL = {
    "url_env": KeyRule(
        Variable, "must be the name of an environment variable that holds the URL", '"OPS_ROBOT_URL"'
    )
}
SECRET = {
    "secret_env": KeyRule(
        Variable, "must be the name of an environment variable that holds the secret", '"OPS_ROBOT_SECRET"'
    )
}
KEYWORDS = {
    "keywords": KeyRule(_list(r"\S", 64, 10), "must be a list of at most 10 words", '["taskkit"]'),
}
MENTIONS = {"mentions": KeyRule(dict[str, Any], "must be a table", '{ users = ["zhangsan"], all = false }')}
KINDS: dict[str, dict[str, KeyRule]] = {
    "wecom": {
        **COMMON,
        **URL,
        **_format(Literal["markdown", "markdown_v2", "text"], "markdown", "markdown_v2", "text"),
        **MENTIONS,
    },
    "dingtalk": {
        **COMMON,
        **URL,
        **SECRET,
        **_format(Literal["markdown", "text"], "markdown", "text"),
        **MENTIONS,
        **KEYWORDS,
        "month": KeyRule(
            Annotated[int, Meta(ge=0, le=10_000_000)],
            "must be the calls that the organisation has in a month; 0 is no limit",
            "3000",
        ),
    },
    "feishu": {
        **COMMON,
        **URL,
        **SECRET,
        **_format(Literal["post", "text"], "post", "text"),
        **MENTIONS,
        **KEYWORDS,
    },
    "webhook": {
        **COMMON,
        **URL,
        "token_env": KeyRule(
            Variable,
            "must be the name of an environment variable that holds a bearer token",
            '"OPS_WEBHOOK_TOKEN"',
        ),
    },
    "mail": {
        **COMMON,
        "server": KeyRule(
            Annotated[str, Meta(pattern=r"^([A-Za-z0-9._-]+|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?$")],
            "must be the mail server's name, with its port where that is not the usual one",
            '"smtp.example.com:587"',
        ),
        "tls": KeyRule(Literal["starttls", "tls", "none"], _one_of("starttls", "tls", "none"), '"starttls"'),
        "user": KeyRule(
            Annotated[str, Meta(min_length=1, max_length=255)], "must be text", '"ops@example.com"'
        ),
        "password_env": KeyRule(
            Variable,
            "must be the name of an environment variable that holds the password",
            '"OPS_MAIL_PASSWORD"',
        ),
        "from": KeyRule(
            Annotated[str, Meta(pattern=ADDRESS, max_length=254)],
            "must be a mail address",
            '"taskkit@example.com"',
        ),
        "to": KeyRule(
            Annotated[
                tuple[Annotated[str, Meta(pattern=ADDRESS, max_length=254)], ...],
                Meta(min_length=1, max_length=50),
            ],
            "must be a list of 1 to 50 mail addresses",
            '["ops@example.com"]',
        ),
    },
}
NEEDED = {
    "wecom": ("url_env",),
    "dingtalk": ("url_env",),
    "feishu": ("url_env",),
    "webhook": ("url_env",),
    "mail": ("server", "from", "to"),
}
PEOPLE = {
    "users": KeyRule(_list(USER, 64, 100), "must be a list of at most 100 user ids", '["zhangsan"]'),
    "mobiles": KeyRule(
        _list(MOBILE, 24, 100), "must be a list of at most 100 phone numbers in quotes", '["13800000000"]'
    ),
    "all": KeyRule(bool, "must be true or false", "false"),
    "severity": KeyRule(
        Severity, "is the least severity for which people are called: note, warning or critical", '"critical"'
    ),
}
"""The keys of ``mentions``; Feishu knows nobody by phone number."""
SECRETS = {
    "url": "url_env",
    "webhook": "url_env",
    "key": "url_env",
    "access_token": "url_env",
    "secret": "secret_env",
    "sign": "secret_env",
    "token": "token_env",
    "password": "password_env",
}
"""What never stands in the file, and where its variable is named instead."""
