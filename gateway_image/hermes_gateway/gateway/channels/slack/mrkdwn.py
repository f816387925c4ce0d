"""A neutral document as Slack's mrkdwn, in which nothing the agent says calls people or groups. Pure."""

from __future__ import annotations

import re

from hermes_gateway.text.document import (
    Block,
    Break,
    Code,
    CodeBlock,
    Document,
    Heading,
    Inline,
    Link,
    Listing,
    Paragraph,
    Quote,
    Rule,
    Style,
    Styled,
    Table,
    Text,
    read_markdown,
    table_lines,
)  # fmt: skip

_MARKS: dict[Style, str] = {"strong": "*", "em": "_", "strike": "~"}
_OPENS = re.compile(r"(?<![\w])([*_~`])(?=\S)")
_NOTHING = "\u200b"
"""Has no width. Slack knows no escape for its marks; behind this they are only characters."""
_LINKED = re.compile(r"(?:https?://|mailto:)[^\s<>|]+", re.ASCII)


def render_mrkdwn(markdown: str) -> str:
    """Return Markdown as mrkdwn."""
    return render_document(read_markdown(markdown))


def render_document(document: Document) -> str:
    """Return a document as mrkdwn."""
    return "\n\n".join(text for block in document if (text := _block(block)))


def escape(text: str) -> str:
    """Escape what Slack reads as a mention, a link or an entity."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _block(block: Block) -> str:
    match block:
        case Paragraph(inner):
            return _inlines(inner, frozenset())
        case Heading(_, inner):
            words = _inlines(inner, frozenset({"strong"}))
            return f"*{words}*" if words.strip() else ""
        case CodeBlock(text):
            return _code_block(text)
        case Quote(blocks):
            return "\n".join(f"> {line}" for line in render_document(blocks).split("\n"))
        case Listing():
            return _listing(block)
        case Table():
            return _code_block(table_lines(block))
        case Rule():
            return "———"


def _code_block(text: str) -> str:
    return f"```\n{escape(text).replace('```', f'``{_NOTHING}`')}\n```"


def _listing(listing: Listing) -> str:
    lines: list[str] = []
    for number, item in enumerate(listing.items, listing.start or 0):
        mark = "•" if listing.start is None else f"{number}."
        rendered = "\n".join(text for block in item if (text := _block(block)))
        first, *more = rendered.split("\n")
        lines.append(f"{mark} {first}")
        lines += [f"    {line}" for line in more]
    return "\n".join(lines)


def _inlines(parts: tuple[Inline, ...], within: frozenset[Style]) -> str:
    return "".join(_inline(part, within) for part in parts)


def _inline(part: Inline, within: frozenset[Style]) -> str:
    match part:
        case Text(text):
            return _OPENS.sub(rf"\1{_NOTHING}", escape(text))
        case Code(text):
            return f"`{escape(text).replace('`', 'ˋ')}`"
        case Break():
            return "\n"
        case Styled(style, inner):
            words = _inlines(inner, within | {style})
            mark = _MARKS[style]
            return words if style in within or not words.strip() else f"{mark}{words}{mark}"
        case Link(url, inner):
            return _link(url, _inlines(inner, within))


def _link(url: str, words: str) -> str:
    if not _LINKED.fullmatch(url):
        return words
    label = words.replace("|", "¦").replace("\n", " ")
    return f"<{escape(url)}|{label}>" if label.strip() and label != escape(url) else f"<{escape(url)}>"
