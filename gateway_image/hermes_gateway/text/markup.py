"""A neutral document in a chat's own markup: the walk is the same for all, what stands at its ends is each chat's. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
    table_lines,
)  # fmt: skip

_MARKS: dict[Style, str] = {"strong": "*", "em": "_", "strike": "~"}


@dataclass(frozen=True)
class Markup:
    """A chat's markup. Each function returns what is sent, escaped as the chat wants it."""

    text: Callable[[str], str]
    code: Callable[[str], str]
    code_block: Callable[[str, str], str]
    """Of a text and the name of its language, which may be empty."""
    link: Callable[[str, str], str]
    """Of an address and rendered words."""
    quote: str
    """What a quoted line begins with."""
    number: Callable[[int], str]
    """What an item of a numbered list begins with."""

    def render(self, document: Document) -> str:
        """Return a document."""
        return "\n\n".join(text for block in document if (text := self._block(block)))

    def _block(self, block: Block) -> str:
        match block:
            case Paragraph(inner):
                return self._inlines(inner, frozenset())
            case Heading(_, inner):
                words = self._inlines(inner, frozenset({"strong"}))
                return f"*{words}*" if words.strip() else ""
            case CodeBlock(text, language):
                return self.code_block(text, language)
            case Quote(blocks):
                return "\n".join(f"{self.quote}{line}" for line in self.render(blocks).split("\n"))
            case Listing():
                return self._listing(block)
            case Table():
                return self.code_block(table_lines(block), "")
            case Rule():
                return "———"

    def _listing(self, listing: Listing) -> str:
        lines: list[str] = []
        for number, item in enumerate(listing.items, listing.start or 0):
            mark = "•" if listing.start is None else self.number(number)
            first, *more = "\n".join(text for block in item if (text := self._block(block))).split("\n")
            lines.append(f"{mark} {first}")
            lines += [f"    {line}" for line in more]
        return "\n".join(lines)

    def _inlines(self, parts: tuple[Inline, ...], within: frozenset[Style]) -> str:
        return "".join(self._inline(part, within) for part in parts)

    def _inline(self, part: Inline, within: frozenset[Style]) -> str:
        match part:
            case Text(text):
                return self.text(text)
            case Code(text):
                return self.code(text)
            case Break():
                return "\n"
            case Styled(style, inner):
                words = self._inlines(inner, within | {style})
                mark = _MARKS[style]
                return words if style in within or not words.strip() else f"{mark}{words}{mark}"
            case Link(url, inner):
                return self.link(url, self._inlines(inner, within))
