"""A neutral document as Telegram's MarkdownV2, in which every character that means something is escaped. Pure."""

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
_SPECIAL = re.compile(r"([_*\[\]()~`>#+\-=|{}.!\\])")
_IN_CODE = re.compile(r"([`\\])")
_IN_URL = re.compile(r"([)\\])")
_ESCAPED = re.compile(r"\\([_*\[\]()~`>#+\-=|{}.!\\])")
_LINKED = re.compile(r"(?:https?://|mailto:|tg:)[^\s]+", re.ASCII)


def render_markdown_v2(markdown: str) -> str:
    """Return Markdown as MarkdownV2."""
    return _document(read_markdown(markdown))


def without_escapes(rendered: str) -> str:
    """Return rendered text as people can read it where Telegram does not take it as markup: nothing is left out."""
    return _ESCAPED.sub(r"\1", rendered)


def escape(text: str) -> str:
    """Escape what Telegram reads as markup."""
    return _SPECIAL.sub(r"\\\1", text)


def _escape_code(text: str) -> str:
    return _IN_CODE.sub(r"\\\1", text)


def _document(document: Document) -> str:
    return "\n\n".join(text for block in document if (text := _block(block)))


def _block(block: Block) -> str:
    match block:
        case Paragraph(inner):
            return _inlines(inner, frozenset())
        case Heading(_, inner):
            words = _inlines(inner, frozenset({"strong"}))
            return f"*{words}*" if words.strip() else ""
        case CodeBlock(text, language):
            return _code_block(text, language)
        case Quote(blocks):
            return "\n".join(f">{line}" for line in _document(blocks).split("\n"))
        case Listing():
            return _listing(block)
        case Table():
            return _code_block(table_lines(block), "")
        case Rule():
            return "———"


def _code_block(text: str, language: str) -> str:
    name = language if re.fullmatch(r"[A-Za-z0-9_+-]{1,30}", language) else ""
    return f"```{name}\n{_escape_code(text)}\n```"


def _listing(listing: Listing) -> str:
    lines: list[str] = []
    for number, item in enumerate(listing.items, listing.start or 0):
        mark = "•" if listing.start is None else f"{number}\\."
        first, *more = "\n".join(text for block in item if (text := _block(block))).split("\n")
        lines.append(f"{mark} {first}")
        lines += [f"    {line}" for line in more]
    return "\n".join(lines)


def _inlines(parts: tuple[Inline, ...], within: frozenset[Style]) -> str:
    return "".join(_inline(part, within) for part in parts)


def _inline(part: Inline, within: frozenset[Style]) -> str:
    match part:
        case Text(text):
            return escape(text)
        case Code(text):
            return f"`{_escape_code(text)}`"
        case Break():
            return "\n"
        case Styled(style, inner):
            words = _inlines(inner, within | {style})
            mark = _MARKS[style]
            return words if style in within or not words.strip() else f"{mark}{words}{mark}"
        case Link(url, inner):
            words = _inlines(inner, within)
            if not _LINKED.fullmatch(url):
                return words
            target = _IN_URL.sub(r"\\\1", url)
            return f"[{words or escape(url)}]({target})"
