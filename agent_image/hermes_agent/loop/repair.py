"""Makes of a stored row what every provider takes back: a bad row must never end a conversation. Pure.

What this agent wrote is clean already and comes back as it is, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import TypeAdapter, ValidationError

from hermes_agent.model.hygiene import clean_id, clean_name, clean_text, readable_arguments
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

UNREADABLE = "(This message could not be read.)"
_PART: TypeAdapter[Part] = TypeAdapter(Part)
_BELONGS = {
    Role.USER: (TextPart, ImagePart),
    Role.ASSISTANT: (TextPart, ReasoningPart, ToolCallPart),
    Role.TOOL: (ToolResultPart,),
}


def read_row(row: object) -> Message:
    """Return a row of the store as a message, whatever is in it."""
    try:
        message = Message.model_validate(row)
    except ValidationError:
        message = _salvage(row)
    return repair(message)


def repair(message: Message) -> Message:
    """Return the message clean: texts, names, ids and arguments fit, ids different, only parts that its role may have."""
    taken: set[str] = set()
    parts = tuple(_clean(part, taken) for part in message.parts if isinstance(part, _BELONGS[message.role]))
    if not parts and message.role is not Role.TOOL:
        parts = (TextPart(text=UNREADABLE),)
    return message if parts == message.parts else Message(role=message.role, parts=parts)


def _salvage(row: object) -> Message:
    """Keep the parts of a broken row that can be read."""
    facts = row if isinstance(row, Mapping) else {}
    try:
        role = Role(str(facts.get("role")))
    except ValueError:
        role = Role.USER
    found: list[Part] = []
    parts = facts.get("parts")
    for part in parts if isinstance(parts, list | tuple) else ():
        try:
            found.append(_PART.validate_python(part))
        except ValidationError:
            continue
    return Message(role=role, parts=tuple(found))


def _clean(part: Part, taken: set[str]) -> Part:
    match part:
        case TextPart(text=text):
            return _with(part, text=clean_text(text))
        case ToolCallPart():
            return _with(
                part,
                id=_different(clean_id(part.id) or "call", taken),
                name=clean_name(part.name),
                arguments=readable_arguments(part.arguments),
            )
        case ToolResultPart():
            call_id = _different(clean_id(part.call_id) or "call", taken)
            return _with(part, call_id=call_id, name=clean_name(part.name), text=clean_text(part.text))
        case ReasoningPart(text=text):
            # A signature covers its text: a signed thought goes back as it came or not at all.
            return part if part.signature or part.data else _with(part, text=clean_text(text))
        case _:
            return part


def _with(part: Part, **values: str) -> Part:
    same = all(getattr(part, name) == value for name, value in values.items())
    return part if same else part.model_copy(update=values)


def _different(call_id: str, taken: set[str]) -> str:
    unique, number = call_id, 1
    while unique in taken:
        number += 1
        unique = f"{call_id}-{number}"
    taken.add(unique)
    return unique
