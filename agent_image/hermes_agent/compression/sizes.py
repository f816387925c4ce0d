"""Rough sizes in tokens, for what no provider has counted yet. Pure.

One token for each Chinese, Japanese or Korean character, UTF-8 bytes over four for everything else: counting characters
instead of bytes would make Cyrillic, Arabic or Hindi half as long as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

from hermes_contracts.conversation import (
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

IMAGE_TOKENS = 1_600
MESSAGE_TOKENS = 4
"""What the frame of a message costs."""
BASE64_RATIO = 4 / 3
"""How much longer a picture is on the wire."""

_WIDE = (
    "[\u1100-\u11ff\u2e80-\u2fdf\u3000-\u303f\u3040-\u30ff\u3100-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)


def text_tokens(text: str) -> int:
    """Estimate a text's tokens."""
    if text.isascii():
        return -(-len(text) // 4)
    rest, wide = _wide().subn("", text)
    return wide - (-len(rest.encode("utf-8", "replace")) // 4)


def message_tokens(message: Message, *, thinking: bool = False) -> int:
    """Estimate a message's tokens. `thinking`: whether its reasoning goes back to the provider."""
    return MESSAGE_TOKENS + sum(_part_tokens(part, thinking) for part in message.parts)


def transcript_tokens(messages: Sequence[Message]) -> int:
    """Estimate a transcript's tokens: only the running turn's signed reasoning goes back to its provider."""
    turn = last_user_row(messages)
    return sum(message_tokens(message, thinking=row > turn) for row, message in enumerate(messages))


def transcript_bytes(messages: Iterable[Message]) -> int:
    """Return a transcript's JSON bytes, with its pictures as they travel to the provider."""
    total = 0
    for message in messages:
        total += len(message.model_dump_json().encode())
        total += sum(int(part.size * BASE64_RATIO) for part in message.parts if isinstance(part, ImagePart))
    return total


@cache
def _wide() -> re.Pattern[str]:
    """Compiled with the first text that is not ASCII: start-up does not pay for it."""
    return re.compile(_WIDE)


def last_user_row(messages: Sequence[Message]) -> int:
    """Return the index of the newest user message, -1 when there is none."""
    return next((row for row in range(len(messages) - 1, -1, -1) if messages[row].role is Role.USER), -1)


def _part_tokens(part: Part, thinking: bool) -> int:
    match part:
        case TextPart():
            return text_tokens(part.text)
        case ImagePart():
            return IMAGE_TOKENS
        case ToolCallPart():
            return text_tokens(part.name) + text_tokens(part.arguments) + MESSAGE_TOKENS
        case ToolResultPart():
            return text_tokens(part.text) + MESSAGE_TOKENS
        case ReasoningPart():
            wanted = thinking and (part.signature or part.data or part.item_id)
            return text_tokens(part.text) + text_tokens(part.data or "") if wanted else 0
