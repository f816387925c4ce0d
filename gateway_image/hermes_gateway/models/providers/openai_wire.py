"""Neutral ↔ OpenAI Chat Completions. Pure: the same request is the same value, key order and all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes_contracts.conversation import Message, Role, TextPart, ToolResultPart, Usage
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

_FINISH = {
    "stop": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.REFUSED,
}


def to_wire(request: ModelRequest, model: str, max_output_tokens: int | None, *, own_endpoint: bool) -> Json:
    """Return the body of a streaming call. Compatible servers know `max_tokens`; OpenAI itself wants the newer name."""
    body: Json = {"model": model}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in request.tools
        ]
    system = [{"role": "system", "content": request.system}] if request.system else []
    body["messages"] = [*system, *(wire for message in request.messages for wire in _messages(message))]
    if max_output_tokens is not None:
        body["max_completion_tokens" if own_endpoint else "max_tokens"] = max_output_tokens
    body["stream"] = True
    body["stream_options"] = {"include_usage": True}
    return body


def _messages(message: Message) -> Sequence[Json]:
    if message.role is Role.TOOL:
        return [
            {"role": "tool", "tool_call_id": part.call_id, "content": part.text}
            for part in message.parts
            if isinstance(part, ToolResultPart)
        ]
    if message.role is Role.USER:
        return [{"role": "user", "content": _text(message)}]
    wire: Json = {"role": "assistant", "content": _text(message)}
    if calls := message.tool_calls():
        wire["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    return [wire]


def _text(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, TextPart))


def _number(value: object, *path: str) -> int:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return int(value) if isinstance(value, (int, float)) else 0


def parse_usage(usage: object) -> Usage:
    """Fold OpenAI's numbers into ours."""
    return Usage(
        input_tokens=_number(usage, "prompt_tokens"),
        output_tokens=_number(usage, "completion_tokens"),
        cached_input_tokens=_number(usage, "prompt_tokens_details", "cached_tokens"),
        reasoning_tokens=_number(usage, "completion_tokens_details", "reasoning_tokens"),
        model_calls=1,
    )


class ChunkReader:
    """Turns chunks into events, in order. Chunks are plain JSON objects; a wrong shape raises ValueError or TypeError.

    Compatible servers leave out ids, indexes or usage: `call_prefix` names calls that come without an id.
    """

    def __init__(self, call_prefix: str) -> None:
        self._call_prefix = call_prefix
        self._open: dict[int, str] = {}
        self._refused = False
        self._model = ""
        self._reason: FinishReason | None = None
        self._usage = Usage(model_calls=1)
        self.complete = False
        """True once reason and usage are both known: nothing more is to come."""

    def read(self, chunk: Mapping[str, object]) -> list[ModelEvent]:
        """Return the events of one chunk."""
        self._model = str(chunk.get("model") or self._model)
        events: list[ModelEvent] = []
        for choice in _objects(chunk.get("choices")):
            events += self._delta(_object(choice.get("delta")))
            if (reason := choice.get("finish_reason")) is not None:
                self._reason = _FINISH.get(str(reason), FinishReason.STOP)
        if chunk.get("usage") is not None:
            self._usage = parse_usage(chunk["usage"])
            self.complete = self._reason is not None
        return events

    def finish(self) -> Finish | None:
        """Return the end, or None when the provider has not said that it is one."""
        if self._reason is None:
            return None
        reason = self._reason
        if self._refused:
            reason = FinishReason.REFUSED
        elif self._open and reason is FinishReason.STOP:
            reason = FinishReason.TOOL_CALLS
        return Finish(reason=reason, usage=self._usage, model=self._model)

    def _delta(self, delta: Mapping[str, object]) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        if thought := _string(delta.get("reasoning_content")) or _string(delta.get("reasoning")):
            events.append(ReasoningDelta(text=thought))
        if text := _string(delta.get("content")):
            events.append(TextDelta(text=text))
        if refusal := _string(delta.get("refusal")):
            self._refused = True
            events.append(TextDelta(text=refusal))
        for call in _objects(delta.get("tool_calls")):
            events += self._call(call)
        return events

    def _call(self, call: Mapping[str, object]) -> list[ModelEvent]:
        function = _object(call.get("function"))
        index = call.get("index")
        identity, name = _string(call.get("id")), _string(function.get("name"))
        if not isinstance(index, int):
            # Without an index, a new id or a name begins a call; everything else continues the last one.
            begins = (identity and identity not in self._open.values()) or (name and not identity)
            index = len(self._open) if begins else max(len(self._open) - 1, 0)
        events: list[ModelEvent] = []
        if index not in self._open:
            if not name:
                raise ValueError("a tool call begins without a name")
            self._open[index] = identity or f"{self._call_prefix}_{index}"
            events.append(ToolCallStart(index=index, id=self._open[index], name=name))
        if arguments := _string(function.get("arguments")):
            events.append(ToolCallDelta(index=index, arguments=arguments))
        return events


def _object(value: object) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError("expected an object")
    return value


def _objects(value: object) -> Sequence[Mapping[str, object]]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise TypeError("expected a list")
    return [_object(entry) for entry in value]


def _string(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value
