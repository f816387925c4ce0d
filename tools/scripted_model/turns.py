"""A request's conversation, whichever format it came in: who spoke, what was called, what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Format = Literal["openai", "responses", "anthropic", "bedrock"]
Json = Mapping[str, object]


@dataclass(frozen=True)
class Turn:
    """What one side said before the other went on. `raw` is the part of the request it was read from."""

    speaker: Literal["person", "model", "tools", "system"]
    raw: object
    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Name and argument text of each call."""
    results: tuple[str, ...] = ()


def as_object(value: object) -> Json:
    """Return an object; anything else is an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """Return a list; anything else is an empty one."""
    return value if isinstance(value, list) else []


def text_of(content: object) -> str:
    """Return the text of a message's content: a string, or a list of parts of any format."""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in map(as_object, as_list(content)) if "text" in part)


def turns_of(data: Json, kind: Format) -> list[Turn]:
    """Return the turns of a request, in order."""
    match kind:
        case "openai":
            return _joined(_chat(as_object(m)) for m in as_list(data.get("messages")))
        case "responses":
            given = data.get("input")
            items: list[object] = [{"role": "user", "content": given}] if isinstance(given, str) else as_list(given)
            return _joined(_response_item(as_object(item)) for item in items)
        case "anthropic":
            return [_message(as_object(m)) for m in as_list(data.get("messages"))]
        case _:
            return [_converse(as_object(m)) for m in as_list(data.get("messages"))]


def tools_of(data: Json, kind: Format) -> dict[str, Json]:
    """Return the parameter schemas of the offered tools, by name."""
    found: dict[str, Json] = {}
    listed = as_object(data.get("toolConfig")).get("tools") if kind == "bedrock" else data.get("tools")
    for tool in map(as_object, as_list(listed)):
        match kind:
            case "openai":
                spec = as_object(tool.get("function"))
                schema = spec.get("parameters")
            case "responses":
                spec, schema = tool, tool.get("parameters")
            case "anthropic":
                spec, schema = tool, tool.get("input_schema")
            case _:
                spec = as_object(tool.get("toolSpec"))
                schema = as_object(spec.get("inputSchema")).get("json")
        if spec.get("name"):
            found[str(spec["name"])] = as_object(schema)
    return found


def _joined(turns: Iterable[Turn]) -> list[Turn]:
    """Join what these formats write as items of their own: results of one round, and the items of one answer."""
    found: list[Turn] = []
    for turn in turns:
        last = found[-1] if found else None
        items = isinstance(turn.raw, dict) and "type" in turn.raw
        if (
            last is not None
            and last.speaker == turn.speaker
            and (turn.speaker == "tools" or (turn.speaker == "model" and items))
        ):
            raw = [*(last.raw if isinstance(last.raw, list) else [last.raw]), turn.raw]
            found[-1] = Turn(turn.speaker, raw, last.text + turn.text, last.calls + turn.calls, last.results + turn.results)
        else:
            found.append(turn)
    return found


def _chat(message: Json) -> Turn:
    text = text_of(message.get("content"))
    match message.get("role"):
        case "user":
            return Turn("person", message, text)
        case "tool":
            return Turn("tools", message, results=(text,))
        case "assistant":
            functions = [as_object(as_object(call).get("function")) for call in as_list(message.get("tool_calls"))]
            return Turn("model", message, text, tuple((str(f.get("name")), str(f.get("arguments"))) for f in functions))
    return Turn("system", message, text)


def _response_item(item: Json) -> Turn:
    match item.get("type", "message"):
        case "function_call_output":
            return Turn("tools", item, results=(text_of(item.get("output")),))
        case "function_call":
            return Turn("model", item, calls=((str(item.get("name")), str(item.get("arguments"))),))
        case "reasoning":
            return Turn("model", item)
    text = text_of(item.get("content"))
    match item.get("role"):
        case "user":
            return Turn("person", item, text)
        case "assistant":
            return Turn("model", {"type": "message", **item}, text)
    return Turn("system", item, text)


def _message(message: Json) -> Turn:
    content = message.get("content")
    parts = [as_object(part) for part in as_list(content)]
    if message.get("role") == "assistant":
        uses = [part for part in parts if part.get("type") == "tool_use"]
        return Turn("model", message, text_of(content), _calls(uses))
    results = [part for part in parts if part.get("type") == "tool_result"]
    if parts and len(results) == len(parts):
        return Turn("tools", message, results=tuple(text_of(part.get("content")) for part in results))
    said = content if isinstance(content, str) else [part for part in parts if part.get("type") == "text"]
    return Turn("person", message, text_of(said))


def _converse(message: Json) -> Turn:
    blocks = [block for part in as_list(message.get("content")) if "cachePoint" not in (block := as_object(part))]
    if message.get("role") == "assistant":
        return Turn("model", message, text_of(blocks), _calls([as_object(b["toolUse"]) for b in blocks if "toolUse" in b]))
    results = [as_object(block["toolResult"]) for block in blocks if "toolResult" in block]
    if blocks and len(results) == len(blocks):
        return Turn("tools", message, results=tuple(text_of(result.get("content")) for result in results))
    return Turn("person", message, text_of(blocks))


def _calls(uses: Sequence[Json]) -> tuple[tuple[str, str], ...]:
    return tuple((str(use.get("name", "")), json.dumps(use.get("input"))) for use in uses)
