"""Makes messages smaller without a model, keeping every call and every result in its place. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

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

NOTE_FROM_CHARACTERS = 200
"""Results up to this length are not worth a note."""
STRING_CHARACTERS = 200
MAX_DEPTH = 12
MAX_ITEMS = 50
IMAGE_NOTE = "[A picture was here; it was taken out to make room.]"


def shorten(text: str, characters: int) -> str:
    """Return the text with its middle taken out, and how much that was."""
    if len(text) <= characters:
        return text
    head = max(0, characters * 2 // 3)
    tail = max(0, characters - head)
    note = f"\n[... {len(text) - head - tail} characters taken out to make room ...]\n"
    return text[:head] + note + (text[-tail:] if tail else "")


def shrink_arguments(arguments: str, characters: int = STRING_CHARACTERS, clean: Callable[[str], str] | None = None) -> str:
    """Return a call's arguments with long strings cut; it stays the JSON object that it was.

    `clean` goes over each string before it is cut: what it looks for is whole then.
    """
    if len(arguments) <= characters and clean is None:
        return arguments
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return "{}"
    return json.dumps(_shrink(value, characters, clean or str, 0), ensure_ascii=False)


def _shrink(value: object, characters: int, clean: Callable[[str], str], depth: int) -> object:
    if isinstance(value, str):
        text = clean(value)
        return text if len(text) <= characters else f"{text[:characters]}[... {len(text) - characters} more characters]"
    if depth >= MAX_DEPTH:
        return None
    if isinstance(value, dict):
        kept = list(value.items())[:MAX_ITEMS]
        return {key[:STRING_CHARACTERS]: _shrink(item, characters, clean, depth + 1) for key, item in kept}
    if isinstance(value, list):
        return [_shrink(item, characters, clean, depth + 1) for item in value[:MAX_ITEMS]]
    return value


def note_of(result: ToolResultPart, call: ToolCallPart | None) -> str:
    """Say in one line what a result was, in place of the result."""
    arguments = shrink_arguments(call.arguments, 120)[:200] if call else ""
    lines = result.text.count("\n") + 1
    first = next((line.strip() for line in result.text.splitlines() if line.strip()), "")[:100]
    kind = "an error" if result.is_error else "a result"
    called = f"{result.name} {arguments}".strip()
    return f"[{called}: {kind} of {len(result.text)} characters in {lines} lines, taken out to make room. It began: {first}]"


def prune_results(messages: Sequence[Message]) -> list[Message]:
    """Replace results longer than `NOTE_FROM_CHARACTERS` by notes; a note that is there already stays."""
    calls: dict[str, ToolCallPart] = {}
    pruned: list[Message] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            calls = {call.id: call for call in message.tool_calls()}
        pruned.append(_with_parts(message, [_pruned(part, calls) for part in message.parts]))
    return pruned


def _pruned(part: Part, calls: dict[str, ToolCallPart]) -> Part:
    if not isinstance(part, ToolResultPart) or len(part.text) <= NOTE_FROM_CHARACTERS:
        return part
    note = note_of(part, calls.get(part.call_id))
    return part.model_copy(update={"text": note}) if len(note) < len(part.text) else part


def cut_results(message: Message, characters: int) -> Message:
    """Cut each result to so many characters."""
    return _with_parts(
        message,
        [
            part.model_copy(update={"text": shorten(part.text, characters)}) if isinstance(part, ToolResultPart) else part
            for part in message.parts
        ],
    )


def slim(message: Message, characters: int) -> Message:
    """Cut what an assistant wrote and what it asked for; thinking goes."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ReasoningPart):
            continue
        if isinstance(part, TextPart):
            parts.append(TextPart(text=shorten(part.text, characters)))
        elif isinstance(part, ToolCallPart):
            parts.append(part.model_copy(update={"arguments": shrink_arguments(part.arguments)}))
        else:
            parts.append(part)
    return _with_parts(message, parts)


def without_images(message: Message) -> Message:
    """Replace pictures by a note."""
    return _with_parts(
        message, [TextPart(text=IMAGE_NOTE) if isinstance(part, ImagePart) else part for part in message.parts]
    )


def without_thinking(message: Message) -> Message:
    """Drop reasoning, unless nothing else is in the message."""
    return _with_parts(message, [part for part in message.parts if not isinstance(part, ReasoningPart)])


def _with_parts(message: Message, parts: list[Part]) -> Message:
    kept = tuple(parts) or (TextPart(text="(thinking only)"),)
    return message if kept == message.parts else Message(role=message.role, parts=kept)
