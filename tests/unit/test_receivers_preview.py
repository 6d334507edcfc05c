"""The preview: every kind of message on one page that fetches nothing and runs nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from taskkit.alerts import Event
from taskkit.receivers.preview import as_page, markdown
from tests.notices import item, notice, payloads
from tests.unit.test_receivers_text import EVIL, channels, evil_notice


class Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


KNOWN = set("html head meta title style body main h1 h3 div p b a span code pre blockquote".split())


@pytest.mark.parametrize(
    "evil", [*EVIL, "<script>alert(1)</script>", "<img src=x onerror=alert(1)>"], ids=ascii
)
def test_a_preview_shows_letters_and_runs_nothing(evil: str) -> None:
    for one in channels():
        tags = Tags(as_page(payloads(one, evil_notice(evil)), one.kind)).found
        assert {tag for tag, _ in tags} <= KNOWN
        assert not [
            attributes for _, attributes in tags if attributes.keys() & {"src", "srcset", "onerror", "href"}
        ]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_preview_shows_what_the_client_would(language: str) -> None:
    for one in channels():
        page = as_page(payloads(one, notice(item()), language=language), one.kind, language=language)
        assert "default-src 'none'" in page
        assert "prefers-color-scheme:dark" in page
        assert "taskkit worker --queues mail" in page
        assert f'<html lang="{language}">' in page
    page = as_page(payloads(channels()[0], notice(item(event=Event.RESOLVED))), "wecom")
    assert '<h3><span class="info">已恢复 · 严重 · backlog · mail</span> #12</h3>' in page


def test_only_wecoms_markdown_has_colours_and_mentions() -> None:
    text = '### <font color="info">a</font> **b**\n> c `d` [e](https://f)\n<@g>'
    assert markdown(text, colours=True) == (
        '<h3><span class="info">a</span> <b>b</b></h3>'
        '<blockquote>c <code>d</code> <a href="https://f">e</a></blockquote><p><span class="at">@g</span></p>'
    )
    assert "&lt;font" in markdown(text, colours=False)
    assert not re.search("class=.info", markdown(text, colours=False))
