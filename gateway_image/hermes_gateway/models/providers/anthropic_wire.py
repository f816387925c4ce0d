"""Neutral ↔ Anthropic Messages. Pure: the same request is the same value, key order and all."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hermes_contracts.conversation import (
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from hermes_contracts.model_api import (
    Finish,
    FinishReason,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)

Json = dict[str, object]

REDACTED = "redacted:"
"""Start of a signature that holds a redacted thinking block's data."""
DEFAULT_MAX_TOKENS = 8192
_MAX_TOKENS: tuple[tuple[str, int], ...] = (
    ("claude-3-opus", 4096), ("claude-3-sonnet", 4096), ("claude-3-haiku", 4096), ("claude-3-5", 8192),
    ("claude-3-7", 32_000), ("claude-opus-4", 32_000), ("claude-sonnet-4", 32_000), ("claude-haiku-4", 32_000),
)  # fmt: skip
"""Longest answers by start of the model's name, in tokens: the API wants a number, and every model named allows this one."""

_MARK: Json = {"type": "ephemeral"}
_FINISH = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "pause_turn": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.REFUSED,
}


def default_max_tokens(model: str) -> int:
    """Return the longest answer to ask for when nobody says."""
    return next((tokens for start, tokens in _MAX_TOKENS if model.startswith(start)), DEFAULT_MAX_TOKENS)


def to_wire(request: ModelRequest, model: str, max_output_tokens: int | None) -> Json:
    """Return the body of a streaming call, with cache markers at the ends of tools, system and the last two messages."""
    body: Json = {"model": model, "max_tokens": max_output_tokens or default_max_tokens(model)}
    if request.tools:
        tools: list[Json] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in request.tools
        ]
        tools[-1]["cache_control"] = _MARK
        body["tools"] = tools
    if request.system:
        body["system"] = [{"type": "text", "text": request.system, "cache_control": _MARK}]
    messages = [(role, blocks) for role, blocks in map(_message, request.messages) if blocks]
    for _, blocks in messages[-2:]:
        _mark(blocks)
    body["messages"] = [{"role": role, "content": blocks} for role, blocks in messages]
    body["stream"] = True
    return body


def _message(message: Message) -> tuple[str, list[Json]]:
    """Return role and blocks; what the API refuses (empty text, unsigned thinking) is left out."""
    role = "assistant" if message.role is Role.ASSISTANT else "user"
    return role, [block for part in message.parts if (block := _block(part)) is not None]


def _block(part: Part) -> Json | None:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case ReasoningPart(signature=None):
            return None
        case ReasoningPart(signature=str(signature)) if signature.startswith(REDACTED):
            return {"type": "redacted_thinking", "data": signature.removeprefix(REDACTED)}
        case ReasoningPart():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature}
        case ToolCallPart():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": _input(part.arguments)}
        case ToolResultPart():
            block: Json = {"type": "tool_result", "tool_use_id": part.call_id, "content": part.text or "(no output)"}
            if part.is_error:
                block["is_error"] = True
            return block


def _input(arguments: str) -> Json:
    """Return arguments as the object that the API wants; broken ones are shown to the model as it wrote them."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"invalid_json": arguments}


def _mark(blocks: list[Json]) -> None:
    for block in reversed(blocks):
        if block["type"] not in ("thinking", "redacted_thinking"):
            block["cache_control"] = _MARK
            return


class EventReader:
    """Turns stream events into ours, in order. Events are JSON objects; a wrong shape raises ValueError or TypeError."""

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}
        self._model = ""
        self._numbers: dict[str, int] = {}
        self._reason: FinishReason | None = None
        self.complete = False
        """True once the message has stopped."""

    def read(self, event: Mapping[str, object]) -> list[ModelEvent]:
        """Return our events for one of theirs; kinds that say nothing to us give none."""
        match event.get("type"):
            case "message_start":
                message = _object(event.get("message"))
                self._model = str(message.get("model", ""))
                self._count(_object(message.get("usage")))
            case "content_block_start":
                return self._start(_index(event), _object(event.get("content_block")))
            case "content_block_delta":
                return self._delta(_index(event), _object(event.get("delta")))
            case "message_delta":
                if (reason := _object(event.get("delta")).get("stop_reason")) is not None:
                    self._reason = _FINISH.get(str(reason), FinishReason.STOP)
                self._count(_object(event.get("usage") or {}))
            case "message_stop":
                self.complete = True
        return []

    def finish(self) -> Finish | None:
        """Return the end, or None when the message has not stopped."""
        if not self.complete or self._reason is None:
            return None
        return Finish(reason=self._reason, usage=self._usage(), model=self._model)

    def _start(self, index: int, block: Mapping[str, object]) -> list[ModelEvent]:
        match block.get("type"):
            case "tool_use":
                number = self._calls[index] = len(self._calls)
                return [ToolCallStart(index=number, id=_text(block, "id"), name=_text(block, "name"))]
            case "redacted_thinking":
                return [ReasoningDelta(signature=REDACTED + _text(block, "data"))]
            case "text" if block.get("text"):
                return [TextDelta(text=_text(block, "text"))]
        return []

    def _delta(self, index: int, delta: Mapping[str, object]) -> list[ModelEvent]:
        match delta.get("type"):
            case "text_delta":
                return [TextDelta(text=_text(delta, "text"))]
            case "thinking_delta":
                return [ReasoningDelta(text=_text(delta, "thinking"))]
            case "signature_delta":
                return [ReasoningDelta(signature=_text(delta, "signature"))]
            case "input_json_delta" if delta.get("partial_json"):
                if index not in self._calls:
                    raise ValueError("arguments for a call that did not begin")
                return [ToolCallDelta(index=self._calls[index], arguments=_text(delta, "partial_json"))]
        return []

    def _count(self, usage: Mapping[str, object]) -> None:
        """Take over numbers; those of a later event are totals and replace earlier ones."""
        details = usage.get("output_tokens_details")
        flat = {**usage, **(details if isinstance(details, Mapping) else {})}
        self._numbers.update({name: value for name, value in flat.items() if isinstance(value, int)})

    def _usage(self) -> Usage:
        def number(name: str) -> int:
            return self._numbers.get(name, 0)

        cached = number("cache_read_input_tokens")
        return Usage(
            input_tokens=number("input_tokens") + number("cache_creation_input_tokens") + cached,
            output_tokens=number("output_tokens"),
            cached_input_tokens=cached,
            reasoning_tokens=number("thinking_tokens"),
            model_calls=1,
        )


def _index(event: Mapping[str, object]) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise TypeError("expected an index")
    return index


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError("expected an object")
    return value


def _text(block: Mapping[str, object], name: str) -> str:
    value = block.get(name)
    if not isinstance(value, str):
        raise TypeError(f"expected {name} to be text")
    return value
