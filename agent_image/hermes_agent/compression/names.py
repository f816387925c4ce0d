"""Exact names that a summary must neither lose nor invent: paths, addresses, ids. Found by search, not by a model. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

from hermes_agent.compression.redact import REMOVED, redact
from hermes_contracts.conversation import Message, TextPart, ToolCallPart, ToolResultPart

MAX_NAME = 160
MAX_READ_OF_PART = 20_000
MAX_READ = 200_000
"""Characters that are looked through, newest first."""

_NAME = (
    r"(?P<url>https?://[^\s\"'<>\\)\]}]{3,300})"
    r"|(?P<uuid>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)"
    r"|(?P<path>(?<![\w/.])(?:~|\.{1,2})?/[\w.@+-]{1,100}(?:/[\w.@+-]{1,100}){1,20})"
    r"|(?P<file>(?<![\w/.-])[\w-]{1,100}(?:/[\w.-]{1,100}){0,20}\.(?:py|js|ts|tsx|go|rs|java|c|h|cpp|rb|sh"
    r"|md|txt|json|ya?ml|toml|sql|html|css|csv|pdf|ini|cfg|env|lock|log|xml|ipynb|tf)\b)"
    r"|(?P<sha>\b(?=[0-9a-f]{0,39}\d)(?=[0-9a-f]{0,39}[a-f])[0-9a-f]{7,40}\b)"
    r"|(?P<number>(?<![\w&])#\d{1,7}\b)"
    r"|(?P<address>\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b)"
)


def names_of(messages: Sequence[Message], characters: int) -> list[str]:
    """Return names in order of their last appearance, from the newest messages, about so many characters of them."""
    found: dict[str, None] = {}
    left, unread = 2 * characters, MAX_READ
    for message in reversed(messages):
        texts = [_text_of(part)[:MAX_READ_OF_PART] for part in message.parts]
        unread -= sum(map(len, texts))
        new = [name for text in texts for name in _in_text(text)]
        for name in reversed(new):
            if name not in found:
                found[name] = None
                left -= len(name) + 2
        if left < 0 or unread < 0:
            break
    return list(found)[::-1]


def merge(before: Iterable[str], new: Iterable[str], characters: int) -> list[str]:
    """Return the newest names within so many characters, oldest first."""
    order: dict[str, None] = {}
    for name in [*before, *new]:
        order.pop(name, None)
        order[name] = None
    kept: list[str] = []
    left = characters
    for name in reversed(order):
        left -= len(name) + 2
        if left < 0:
            break
        kept.append(name)
    return kept[::-1]


@cache
def _name() -> re.Pattern[str]:
    """Compiled with the first compaction: start-up does not pay for it."""
    return re.compile(_NAME)


def _in_text(text: str) -> Iterable[str]:
    for match in _name().finditer(text):
        name = redact(match[0].rstrip(".,:;"))
        if len(name) <= MAX_NAME and REMOVED not in name and "," not in name:
            yield name


def _text_of(part: object) -> str:
    match part:
        case TextPart(text=text) | ToolResultPart(text=text):
            return text
        case ToolCallPart(arguments=arguments):
            return arguments.replace("\\n", "\n").replace('\\"', '"')
        case _:
            return ""
