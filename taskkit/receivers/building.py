"""From checked values to the receiver of each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from taskkit.errors import InputError
from taskkit.receivers.addresses import NOTHING
from taskkit.receivers.dingtalk import MONTH, DingTalk
from taskkit.receivers.feishu import Feishu
from taskkit.receivers.mail import Mail
from taskkit.receivers.protocol import Options, Receiver
from taskkit.receivers.webhook import Webhook
from taskkit.receivers.wecom import WeCom

PORTS = {"starttls": 587, "tls": 465, "none": 25}
AT_HOME = ("localhost", "127.0.0.1", "::1")


def wecom(options: Options, values: dict[str, Any]) -> Receiver:
    """A WeCom group robot."""
    return WeCom(options, values["address"], values.get("format", "markdown"))


def dingtalk(options: Options, values: dict[str, Any]) -> Receiver:
    """A DingTalk custom robot; a month of 0 is one without a limit."""
    return DingTalk(
        options,
        values["address"],
        secret=values.get("secret", NOTHING),
        format=values.get("format", "markdown"),
        keywords=values.get("keywords", ()),
        month=values.get("month", MONTH) or None,
    )


def feishu(options: Options, values: dict[str, Any]) -> Receiver:
    """A Feishu custom robot."""
    return Feishu(
        options,
        values["address"],
        secret=values.get("secret", NOTHING),
        format=values.get("format", "post"),
        keywords=values.get("keywords", ()),
    )


def webhook(options: Options, values: dict[str, Any]) -> Receiver:
    """A webhook."""
    return Webhook(options, values["address"], token=values.get("token", NOTHING))


def mail(options: Options, values: dict[str, Any]) -> Receiver:
    """A mail server; raises InputError where a password would travel in the clear."""
    tls = values.get("tls", "starttls")
    host, port = _host_port(values["server"], PORTS[tls])
    password = values.get("password", NOTHING)
    if bool(password) != bool(values.get("user")):
        raise InputError("server", "user and password_env belong together; write both or none")
    if password and tls == "none" and host not in AT_HOME:
        raise InputError("tls", 'tls = "none" would show the password to the network; write tls = "starttls"')
    return Mail(
        options,
        host,
        port,
        values["from"],
        values["to"],
        tls=tls,
        user=values.get("user", ""),
        password=password,
    )


def _host_port(text: str, usual: int) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text.strip("[]"), usual
    if not 0 < int(port) < 65_536:
        raise InputError("server", "the port must be from 1 to 65535")
    return host.strip("[]"), int(port)


BUILDERS: dict[str, Callable[[Options, dict[str, Any]], Receiver]] = {
    "wecom": wecom,
    "dingtalk": dingtalk,
    "feishu": feishu,
    "webhook": webhook,
    "mail": mail,
}
