"""A neutral document as Slack's mrkdwn, in which nothing the agent says calls people or groups. Pure."""

from __future__ import annotations

import re

from hermes_gateway.text.document import Document, read_markdown
from hermes_gateway.text.markup import Markup

_OPENS = re.compile(r"(?<![\w])([*_~`])(?=\S)")
_NOTHING = "\u200b"
"""Has no width. Slack knows no escape for its marks; behind this they are only characters."""
_LINKED = re.compile(r"(?:https?://|mailto:)[^\s<>|]+", re.ASCII)


def render_mrkdwn(markdown: str) -> str:
    """Return Markdown as mrkdwn."""
    return render_document(read_markdown(markdown))


def render_document(document: Document) -> str:
    """Return a document as mrkdwn."""
    return _MRKDWN.render(document)


def escape(text: str) -> str:
    """Escape what Slack reads as a mention, a link or an entity."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _text(text: str) -> str:
    return _OPENS.sub(rf"\1{_NOTHING}", escape(text))


def _code(text: str) -> str:
    return f"`{escape(text).replace('`', 'ˋ')}`"


def _code_block(text: str, _: str) -> str:
    return f"```\n{escape(text).replace('```', f'``{_NOTHING}`')}\n```"


def _link(url: str, words: str) -> str:
    if not _LINKED.fullmatch(url):
        return words
    label = words.replace("|", "¦").replace("\n", " ")
    return f"<{escape(url)}|{label}>" if label.strip() and label != escape(url) else f"<{escape(url)}>"


_MRKDWN = Markup(_text, _code, _code_block, _link, quote="> ", number="{}.".format)
