"""Markdown read into a neutral document, and the document as plain text. Each chat renders it in its own way. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

Style = Literal["strong", "em", "strike"]


@dataclass(frozen=True)
class Text:
    """Words, as they are."""

    text: str


@dataclass(frozen=True)
class Code:
    """Code within a line."""

    text: str


@dataclass(frozen=True)
class Break:
    """A new line."""


@dataclass(frozen=True)
class Styled:
    """Words that stand out."""

    style: Style
    inner: tuple[Inline, ...]


@dataclass(frozen=True)
class Link:
    """Words that lead somewhere; a picture is one to where it is."""

    url: str
    inner: tuple[Inline, ...]


Inline = Text | Code | Break | Styled | Link


@dataclass(frozen=True)
class Paragraph:
    """Lines of text."""

    inner: tuple[Inline, ...]


@dataclass(frozen=True)
class Heading:
    """A title; level 1 is the largest."""

    level: int
    inner: tuple[Inline, ...]


@dataclass(frozen=True)
class CodeBlock:
    """Lines of code."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Quote:
    """Somebody else's words."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Listing:
    """Points; `start` is the number of the first one, None for bullets."""

    start: int | None
    items: tuple[tuple[Block, ...], ...]


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first row names the columns."""

    rows: tuple[tuple[tuple[Inline, ...], ...], ...]


@dataclass(frozen=True)
class Rule:
    """A line across."""


Block = Paragraph | Heading | CodeBlock | Quote | Listing | Table | Rule
Document = tuple[Block, ...]

_STYLES: dict[str, Style] = {"strong": "strong", "em": "em", "s": "strike"}


def read_markdown(text: str) -> Document:
    """Read Markdown. HTML is text like any other; nothing is refused."""
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 20}).enable(["table", "strikethrough"])
    return _blocks(SyntaxTreeNode(parser.parse(text)))


def _blocks(node: SyntaxTreeNode) -> tuple[Block, ...]:
    return tuple(_block(child) for child in node.children)


def _block(node: SyntaxTreeNode) -> Block:
    match node.type:
        case "heading":
            return Heading(int(node.tag[1:]), _inlines(node))
        case "fence" | "code_block":
            return CodeBlock(node.content.rstrip("\n"), node.info.strip() if node.type == "fence" else "")
        case "blockquote":
            return Quote(_blocks(node))
        case "bullet_list":
            return Listing(None, tuple(_blocks(item) for item in node.children))
        case "ordered_list":
            return Listing(int(str(node.attrs.get("start", 1))), tuple(_blocks(item) for item in node.children))
        case "table":
            rows = [row for part in node.children for row in part.children]
            return Table(tuple(tuple(_inlines(cell) for cell in row.children) for row in rows))
        case "hr":
            return Rule()
    return Paragraph(_inlines(node))


def _inlines(node: SyntaxTreeNode) -> tuple[Inline, ...]:
    """Return what a block says; its lines are children of one node in between."""
    found = [child for child in node.children if child.type == "inline"]
    return _inner(found[0]) if found else ()


def _inner(node: SyntaxTreeNode) -> tuple[Inline, ...]:
    return tuple(_inline(child) for child in node.children)


def _inline(node: SyntaxTreeNode) -> Inline:
    if node.type in _STYLES:
        return Styled(_STYLES[node.type], _inner(node))
    match node.type:
        case "code_inline":
            return Code(node.content)
        case "softbreak" | "hardbreak":
            return Break()
        case "link":
            return Link(str(node.attrs.get("href", "")), _inner(node))
        case "image":
            return Link(str(node.attrs.get("src", "")), (Text(node.content),))
    return Text(node.content)


def plain_inline(parts: tuple[Inline, ...]) -> str:
    """Return words without markup; a link's address stands behind it."""
    return "".join(_plain_inline(part) for part in parts)


def _plain_inline(part: Inline) -> str:
    match part:
        case Text(text) | Code(text):
            return text
        case Break():
            return "\n"
        case Styled(_, inner):
            return plain_inline(inner)
        case Link(url, inner):
            words = plain_inline(inner)
            return words if words == url or not url else f"{words} ({url})"


def table_lines(table: Table) -> str:
    """Return a table in columns of equal width, for a font that has them."""
    rows = [[plain_inline(cell).replace("\n", " ") for cell in row] for row in table.rows]
    widths = [max((len(row[n]) for row in rows if n < len(row)), default=0) for n in range(max(map(len, rows), default=0))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]
    if len(lines) > 1:
        lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
