"""Fake chat robots by the vendors' rules: key, signature, size, rate and ban; they know who would have been called.

with wecom_robot() as robot:
    ...  # let something send to robot.url
    robot.messages[0].text, robot.messages[0].ids
    robot.answers([45009, Trouble.DRIP, (502, "bad gateway"), 0])
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import uuid
from typing import Any

from tests.robot_server import Answer, Call, FakeServer, Trouble

__all__ = ["DingTalkRobot", "FeishuRobot", "Trouble", "WeComRobot", "WebhookServer", "dingtalk_robot", "feishu_robot", "ids_of", "webhook", "wecom_robot"]  # fmt: skip
MOST_A_MINUTE = 20
PEOPLE = re.compile(r"<@([^<>]+)>")


def ids_of(calls: list[Call]) -> list[int]:
    """The ids of all alerts in these messages, in their order."""
    return [number for call in calls for number in call.ids]


class Robot(FakeServer):
    """What the robots share: 20 messages in 60 s, then a ban; ``speed`` makes minutes shorter."""

    too_often = 0
    ban_s = 60.0

    def __init__(self, *, speed: float = 1.0, tls: bool = False, limited: bool = True) -> None:
        super().__init__(speed=speed, tls=tls)
        self.limited = limited
        self.banned_until = 0.0

    def judge(self, call: Call) -> Answer:
        code = self.refusal(call)
        if code == 0 and self.limited and self._too_often(call):
            code = self.too_often
        call.shown = code == 0 and not self.is_copy(call)
        return code

    def _too_often(self, call: Call) -> bool:
        if call.at < self.banned_until:
            return True
        recent = [one for one in self.calls if one is not call and one.answer == 0 and call.at - one.at < 60]
        if len(recent) < MOST_A_MINUTE:
            return False
        self.banned_until = call.at + self.ban_s
        return True

    @property
    def calls_in_ban(self) -> list[Call]:
        """Calls that were answered by the ban."""
        return [call for call in self.calls if call.answer == self.too_often]

    def refusal(self, call: Call) -> int:
        """The code by which a call is refused; 0 when it is not."""
        raise NotImplementedError

    def is_copy(self, call: Call) -> bool:
        """Whether the same message was shown before."""
        return False


class WeComRobot(Robot):
    """A group robot: key in the URL, size limits by kind, uploads."""

    path = "/cgi-bin/webhook/send"
    too_often = 45009
    limits = {"text": 2048, "markdown": 4096, "markdown_v2": 4096}  # noqa: RUF012 - never changed

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.key = f"693a{uuid.uuid4().hex[4:]}"
        self.uploads: dict[str, bytes] = {}

    @property
    def url(self) -> str:
        return f"{self.base}{self.path}?key={self.key}"

    def refusal(self, call: Call) -> int:
        if call.query.get("key") != self.key:
            return 93000
        kind = str(call.body.get("msgtype", ""))
        content = call.body.get(kind)
        if kind == "file":
            return 0 if isinstance(content, dict) and content.get("media_id") in self.uploads else 40007
        if kind not in self.limits or not isinstance(content, dict):
            return 40008
        if kind != "text" and content.keys() - {"content"}:
            return 40058
        text = content.get("content")
        if not text:
            return 44004
        return 40058 if len(text.encode()) > self.limits[kind] else 0

    def judge(self, call: Call) -> Answer:
        if call.path.endswith("/upload_media"):
            return self._upload(call)
        return super().judge(call)

    def _upload(self, call: Call) -> Answer:
        if call.query.get("key") != self.key or call.query.get("type") != "file":
            return 93000
        boundary = call.headers["Content-Type"].partition("boundary=")[2].encode()
        part = call.raw.split(b"--" + boundary)[1]
        head, _, data = part.partition(b"\r\n\r\n")
        if b'name="media"' not in head or not 5 < len(data) - 2 <= 20 * 1024 * 1024:
            return 40058
        media = secrets.token_hex(8)
        self.uploads[media] = data[:-2]
        return {"errcode": 0, "errmsg": "ok", "type": "file", "media_id": media}

    def reply(self, code: int) -> dict[str, Any]:
        said = "ok" if code == 0 else f"refused, hint: [1767225600], from ip: 203.0.113.7, key={self.key}"
        return {"errcode": code, "errmsg": said}

    def called(self, call: Call) -> set[str]:
        """Who hears a message."""
        kind = call.body["msgtype"]
        if kind == "text":
            lists = call.body["text"]
            named = [*lists.get("mentioned_list", ()), *lists.get("mentioned_mobile_list", ())]
            return {*named, *PEOPLE.findall(lists["content"])}
        return set(PEOPLE.findall(call.body[kind]["content"])) if kind == "markdown" else set()


class DingTalkRobot(Robot):
    """A custom robot: token, signature with its hour of tolerance, keywords, size, msgUuid."""

    path = "/robot/send"
    too_often = 130101
    ban_s = 600.0

    def __init__(self, *, secret: str | None = None, keywords: tuple[str, ...] = (), **options: Any) -> None:
        super().__init__(**options)
        self.token = secrets.token_hex(32)
        self.secret = f"SEC{secrets.token_hex(30)}" if secret is None else secret
        self.keywords = keywords
        self.why = ""

    @property
    def url(self) -> str:
        return f"{self.base}{self.path}?access_token={self.token}"

    def refusal(self, call: Call) -> int:
        if call.query.get("access_token") != self.token:
            return 300001
        if self.secret and (why := self._bad_signature(call)):
            self.why = why
            return 310000
        if call.size > 20_000:
            return 460101
        kind = call.body.get("msgtype")
        needed = {"text": ["content"], "markdown": ["title", "text"]}.get(str(kind), ["?"])
        content = call.body.get(str(kind))
        if not isinstance(content, dict) or not all(content.get(name) for name in needed):
            return 40035
        if self.keywords and not any(word in call.text for word in self.keywords):
            self.why = "keywords not in content"
            return 310000
        return 0

    def _bad_signature(self, call: Call) -> str:
        stamp = call.query.get("timestamp", "")
        if not stamp.isdigit():
            return "sign not match"
        if abs(self.now().timestamp() - int(stamp) / 1000) > 3600:
            return "invalid timestamp"
        text = f"{stamp}\n{self.secret}".encode()
        right = base64.b64encode(hmac.new(self.secret.encode(), text, hashlib.sha256).digest()).decode()
        return "" if call.query.get("sign") == right else "sign not match"

    def is_copy(self, call: Call) -> bool:
        uuids = [one.body.get("msgUuid") for one in self.calls if one.shown and one is not call]
        return bool(call.body.get("msgUuid")) and call.body["msgUuid"] in uuids

    def reply(self, code: int) -> dict[str, Any]:
        said = {0: "ok", 310000: f"{self.why}, more: [https://ding-doc.dingtalk.com/doc]"}
        return {"errcode": code, "errmsg": said.get(code, f"refused {self.token}")}

    def called(self, call: Call) -> set[str]:
        """Who hears a message: those in ``at`` whom the text names too."""
        at, text = call.body.get("at", {}), call.text
        named = {one for one in (*at.get("atMobiles", ()), *at.get("atUserIds", ())) if f"@{one}" in text}
        return named | ({"@all"} if at.get("isAtAll") else set())


class FeishuRobot(Robot):
    """A custom robot whose signature is in the body."""

    path = "/open-apis/bot/v2/hook/1f2e3d4c-5b6a-7089-90ab-cdef01234567"
    too_often = 11232

    def __init__(self, *, secret: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.secret = secret

    def refusal(self, call: Call) -> int:
        if self.secret:
            key = f"{call.body.get('timestamp')}\n{self.secret}".encode()
            right = base64.b64encode(hmac.new(key, b"", hashlib.sha256).digest()).decode()
            fresh = abs(self.now().timestamp() - int(call.body.get("timestamp", 0))) <= 3600
            if call.body.get("sign") != right or not fresh:
                return 19021
        kind = call.body.get("msg_type")
        return 0 if kind in ("text", "post") and call.size <= 20_480 else 9499

    def reply(self, code: int) -> dict[str, Any]:
        return {"code": code, "msg": "success" if code == 0 else "refused", "data": {}}


class WebhookServer(FakeServer):
    """A webhook: 200 to everything."""


def wecom_robot(**options: Any) -> WeComRobot:
    """A fake WeCom group robot: ``speed``, ``tls``, ``limited``."""
    return WeComRobot(**options)


def dingtalk_robot(**options: Any) -> DingTalkRobot:
    """A fake DingTalk robot: also ``secret`` ("" for none) and ``keywords``."""
    return DingTalkRobot(**options)


def feishu_robot(**options: Any) -> FeishuRobot:
    """A fake Feishu robot: also ``secret``."""
    return FeishuRobot(**options)


def webhook(**options: Any) -> WebhookServer:
    """A fake webhook."""
    return WebhookServer(**options)
