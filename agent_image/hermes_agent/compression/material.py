"""What the summariser reads: the messages that are taken out, as text, redacted and within a bound. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_agent.compression.redact import redact
from hermes_agent.compression.shrink import IMAGE_NOTE, shorten, shrink_arguments
from hermes_contracts.conversation import ImagePart, Message, Part, Role, TextPart, ToolCallPart, ToolResultPart

_CAPS = (4_000, 2_000, 1_000, 500, 250, 120)
"""Longest part, in characters: the first cap with which everything fits is taken."""
_RESULT_CHARACTERS = 1_200
_CALL_CHARACTERS = 500
_LEFT_OUT = "[... {count} pieces in between are left out ...]"


def material_of(messages: Sequence[Message], characters: int) -> str:
    """Return the messages as text of at most about so many characters."""
    pieces = [piece for message in messages for part in message.parts if (piece := _piece(part, message.role))]
    for cap in _CAPS:
        texts = [_render(piece, cap) for piece in pieces]
        if sum(len(text) + 1 for text in texts) <= characters:
            return "\n".join(texts)
    return _ends([_render(piece, _CAPS[-1]) for piece in pieces], characters)


def _ends(texts: Sequence[str], characters: int) -> str:
    """Return as many pieces as fit from both ends: three quarters from the newer one."""
    first, last, left = 0, len(texts), characters * 3 // 4
    while last > 0 and left >= len(texts[last - 1]):
        last -= 1
        left -= len(texts[last]) + 1
    left = characters // 4
    while first < last and left >= len(texts[first]):
        left -= len(texts[first]) + 1
        first += 1
    note = [_LEFT_OUT.format(count=last - first)] if last > first else []
    return "\n".join([*texts[:first], *note, *texts[last:]])


def _render(piece: tuple[str, str, int], cap: int) -> str:
    label, text, most = piece
    return f"{label}{shorten(text, min(cap, most))}"


def _piece(part: Part, role: Role) -> tuple[str, str, int] | None:
    """Return label, redacted text and the most characters of it. It is cut first, far enough that no secret is halved."""
    match part:
        case TextPart(text=text):
            return (f"{role.value.upper()}: ", _clean(text), _CAPS[0]) if text.strip() else None
        case ToolCallPart(name=name, arguments=arguments):
            return f"CALL {name} ", _clean(shrink_arguments(arguments, clean=redact)), _CALL_CHARACTERS
        case ToolResultPart(name=name, text=text, is_error=is_error):
            return f"{'ERROR' if is_error else 'RESULT'} of {name}: ", _clean(text), _RESULT_CHARACTERS
        case ImagePart():
            return "", IMAGE_NOTE, _CAPS[0]
        case _:
            return None


def _clean(text: str) -> str:
    return redact(shorten(text.strip(), _CAPS[0] * 3 // 2))
