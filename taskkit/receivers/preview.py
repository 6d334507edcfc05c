"""About how a chat client shows a message, as one page that fetches nothing; for eyes before anything is sent."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from email import message_from_bytes, policy

import msgspec

from taskkit.receivers.answers import decoded
from taskkit.receivers.protocol import Payload

STYLE = """
:root{color-scheme:light dark;--page:#ededf0;--card:#fff;--text:#1c1e21;--faint:#7a7f87;--line:#d9dbdf;--code:#f1f2f4;
--link:#1668dc;--info:#1e8e3e;--warning:#d9480f;--comment:#8a8f98;--face:#4c7ef3}
@media(prefers-color-scheme:dark){:root{--page:#17181a;--card:#26282b;--text:#e6e7e9;--faint:#9a9fa8;--line:#3a3d42;
--code:#313439;--link:#6ea8fe;--info:#51cf66;--warning:#ff8b57;--comment:#8e949d;--face:#3b62c4}}
*{box-sizing:border-box}body{margin:0;padding:1.5em 1em;background:var(--page);color:var(--text);
font:15px/1.55 -apple-system,"PingFang SC","Microsoft YaHei","Noto Sans CJK SC","Noto Sans SC",sans-serif}
main{max-width:34em;margin:auto}h1{font-size:13px;font-weight:600;color:var(--faint);margin:1.6em 0 .6em}
.row{display:flex;gap:.7em;margin-bottom:1em}.face{flex:none;width:2.4em;height:2.4em;border-radius:.5em;background:var(--face);
color:#fff;text-align:center;line-height:2.4em;font-weight:600}.who{font-size:12px;color:var(--faint)}
.card{background:var(--card);border-radius:.6em;padding:.7em .9em;margin-top:.2em;overflow-wrap:anywhere;
box-shadow:0 1px 2px rgb(0 0 0/.12)}.size{font-size:12px;color:var(--faint);margin-top:.3em}
.card p{margin:.15em 0;white-space:pre-wrap}.card h2,.card h3,.card h4{font-size:16px;margin:0 0 .3em}
blockquote{margin:.2em 0;padding-left:.7em;border-left:3px solid var(--line);color:var(--faint)}
code{font:13px/1.5 ui-monospace,"SF Mono",Consolas,monospace;background:var(--code);padding:.1em .35em;border-radius:.25em}
pre{font:13px/1.5 ui-monospace,Consolas,monospace;white-space:pre-wrap;margin:0}a{color:var(--link);text-decoration:none}
.info{color:var(--info)}.warning{color:var(--warning)}.comment{color:var(--comment)}.at{color:var(--link)}
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
CLIENTS = {
    "wecom": "企业微信 · WeCom",
    "dingtalk": "钉钉 · DingTalk",
    "feishu": "飞书 · Feishu",
    "webhook": "Webhook",
    "mail": "Mail",
}
_MARKS = re.compile(
    r"`(?P<code>[^`\n]+)`|\[(?P<name>[^\]\n]*)\]\((?P<url>https?://[^)\s]+)\)|\*\*(?P<strong>[^*\n]+)\*\*"
    r'|<font color="(?P<colour>info|comment|warning)">(?P<coloured>.*?)</font>|<@(?P<user>[^<>\s]+)>'
)
_HEADING = re.compile(r"#{1,6} (.*)")


def as_page(
    payloads: Sequence[Payload] | Payload, kind: str, *, title: str = "", language: str = "en"
) -> str:
    """The page of a receiver's calls, one bubble each; ``kind`` is the receiver's, ``title`` a line above them."""
    calls = [payloads] if isinstance(payloads, Payload) else payloads
    bubbles = "".join(_bubble(call, kind) for call in calls)
    return page([(title or CLIENTS[kind], bubbles)], language)


def page(parts: Sequence[tuple[str, str]], language: str = "en") -> str:
    """Several titled lots of bubbles on one page."""
    body = "".join(f"<h1>{html.escape(title)}</h1>{bubbles}" for title, bubbles in parts)
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>taskkit: preview</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><style>{STYLE}</style></head>'
        f"<body><main>{body}</main></body></html>\n"
    )


def bubbles(payloads: Sequence[Payload], kind: str) -> str:
    """The calls of one receiver, to be put on a :func:`page`."""
    return "".join(_bubble(call, kind) for call in payloads)


def _bubble(call: Payload, kind: str) -> str:
    size = f"{call.kind} · {len(call.body):,} B"
    return (
        f'<div class="row"><div class="face">tk</div><div><div class="who">taskkit · {CLIENTS[kind]}</div>'
        f'<div class="card">{_shown(call, kind)}</div><div class="size">{size}</div></div></div>'
    )


def _shown(call: Payload, kind: str) -> str:
    if kind == "mail":
        return _mail(call.body)
    body = decoded(call.body)
    if kind == "webhook" or not body:
        return f"<pre>{html.escape(msgspec.json.format(call.body, indent=2).decode())}</pre>"
    if kind == "feishu":
        return _feishu(body)
    msgtype = str(body["msgtype"])
    content = body.get(msgtype, {})
    if msgtype == "file":
        return f"<p>📄 {html.escape(call.file.rpartition('/')[2])}</p>"
    if msgtype == "text":
        return _plain(str(content["content"])) + _called(content, body)
    return markdown(
        str(content.get("text") or content["content"]), colours=msgtype == "markdown" and kind == "wecom"
    )


def markdown(text: str, *, colours: bool) -> str:
    """What WeCom and DingTalk know alike: headings, quotes, bold, links, inline code; WeCom's colours and mentions too."""
    return "".join(_line(line, colours) for line in text.split("\n"))


def _line(line: str, colours: bool) -> str:
    if not line.strip():
        return ""
    if found := _HEADING.fullmatch(line):
        return f"<h3>{_marked(found[1], colours)}</h3>"
    if line.startswith("> "):
        return f"<blockquote>{_marked(line[2:], colours)}</blockquote>"
    return f"<p>{_marked(line, colours)}</p>"


def _marked(text: str, colours: bool) -> str:
    """One line with its marks; whatever is no mark is letters."""
    parts, end = [], 0
    for found in _MARKS.finditer(text):
        parts += [_people(text[end : found.start()]), _mark(found, colours)]
        end = found.end()
    return "".join([*parts, _people(text[end:])])


def _mark(found: re.Match[str], colours: bool) -> str:
    if found["code"]:
        return f"<code>{html.escape(found['code'])}</code>"
    if found["url"]:
        return f'<a href="{html.escape(found["url"])}">{html.escape(found["name"])}</a>'
    if found["strong"]:
        return f"<b>{html.escape(found['strong'])}</b>"
    if not colours:
        return html.escape(found[0])
    if found["user"]:
        return f'<span class="at">@{html.escape(found["user"])}</span>'
    return f'<span class="{found["colour"]}">{_marked(found["coloured"], colours)}</span>'


def _people(text: str) -> str:
    """Letters, with the people that DingTalk would call."""
    return re.sub(r"(@[\w.+-]+)", r'<span class="at">\1</span>', html.escape(text))


def _plain(text: str) -> str:
    return "".join(f"<p>{_people(line)}</p>" for line in text.split("\n"))


def _called(content: dict[str, object], body: dict[str, object]) -> str:
    """Whom a text of WeCom calls beside its words."""
    named = [content.get("mentioned_list"), content.get("mentioned_mobile_list")]
    people = [str(one) for some in named if isinstance(some, list) for one in some]
    told = " ".join(one if one.startswith("@") else f"@{one}" for one in people)
    return f'<p><span class="at">{html.escape(told)}</span></p>' if told else ""


def _feishu(body: dict[str, object]) -> str:
    content = body.get("content")
    if not isinstance(content, dict) or "post" not in content:
        return _plain(str(content.get("text", "")) if isinstance(content, dict) else "")
    post = next(iter(content["post"].values()))
    lines = ["".join(map(_node, line)) for line in post["content"]]
    return f"<h3>{html.escape(post['title'])}</h3>" + "".join(f"<p>{line}</p>" for line in lines)


def _node(node: dict[str, str]) -> str:
    if node["tag"] == "a":
        return f'<a href="{html.escape(node["href"])}">{html.escape(node["text"])}</a>'
    if node["tag"] == "at":
        return f'<span class="at">@{html.escape(node["user_id"])}</span> '
    return html.escape(node["text"])


def _mail(raw: bytes) -> str:
    mail = message_from_bytes(raw, policy=policy.default)
    body = mail.get_body(("plain",))
    names = [part.get_filename() or "" for part in mail.iter_attachments()]
    files = "".join(f"<p>📄 {html.escape(name)}</p>" for name in names)
    text = body.get_content() if body is not None else ""
    return f"<h3>{html.escape(str(mail['Subject']))}</h3><pre>{html.escape(text)}</pre>{files}"
