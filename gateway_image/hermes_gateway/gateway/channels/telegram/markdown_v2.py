"""A neutral document as Telegram's MarkdownV2, in which every character that means something is escaped. Pure."""

from __future__ import annotations

import re

from hermes_gateway.text.document import read_markdown
from hermes_gateway.text.markup import Markup

_SPECIAL = re.compile(r"([_*\[\]()~`>#+\-=|{}.!\\])")
_IN_CODE = re.compile(r"([`\\])")
_IN_URL = re.compile(r"([)\\])")
_ESCAPED = re.compile(r"\\([_*\[\]()~`>#+\-=|{}.!\\])")
_LINKED = re.compile(r"(?:https?://|mailto:|tg:)[^\s]+", re.ASCII)


def render_markdown_v2(markdown: str) -> str:
    """Return Markdown as MarkdownV2."""
    return _MARKDOWN_V2.render(read_markdown(markdown))


def without_escapes(rendered: str) -> str:
    """Return rendered text as people can read it where Telegram does not take it as markup: nothing is left out."""
    return _ESCAPED.sub(r"\1", rendered)


def escape(text: str) -> str:
    """Escape what Telegram reads as markup."""
    return _SPECIAL.sub(r"\\\1", text)


def _escape_code(text: str) -> str:
    return _IN_CODE.sub(r"\\\1", text)


def _code(text: str) -> str:
    return f"`{_escape_code(text)}`"


def _code_block(text: str, language: str) -> str:
    name = language if re.fullmatch(r"[A-Za-z0-9_+-]{1,30}", language) else ""
    return f"```{name}\n{_escape_code(text)}\n```"


def _link(url: str, words: str) -> str:
    if not _LINKED.fullmatch(url):
        return words
    target = _IN_URL.sub(r"\\\1", url)
    return f"[{words or escape(url)}]({target})"


_MARKDOWN_V2 = Markup(escape, _code, _code_block, _link, quote=">", number="{}\\.".format)
