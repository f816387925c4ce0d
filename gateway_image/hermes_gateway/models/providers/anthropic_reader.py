"""Anthropic Messages → neutral: events of a stream."""

from __future__ import annotations

from collections.abc import Mapping

from hermes_contracts.conversation import Usage
from hermes_contracts.model_api import (
    Finish,
    FinishReason,
    ModelEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from hermes_gateway.models.providers.shapes import Json, index as index_of, mapping, number, string

_FINISH = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "pause_turn": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.REFUSED,
}


class EventReader:
    """Turns stream events into ours, in order. Events are JSON objects; a wrong shape raises ValueError or TypeError."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._calls: dict[int, int] = {}
        self._signatures: dict[int, str] = {}
        self._model = ""
        self._usage: Json = {}
        self._reason: FinishReason | None = None
        self.complete = False
        """True once the message has stopped."""

    def read(self, event: Mapping[str, object]) -> list[ModelEvent]:
        """Return our events for one of theirs; kinds that say nothing to us give none."""
        match event.get("type"):
            case "content_block_delta":
                return self._delta(index_of(event.get("index")), mapping(event.get("delta")))
            case "content_block_start":
                return self._start(index_of(event.get("index")), mapping(event.get("content_block")))
            case "content_block_stop":
                return self._stop(index_of(event.get("index")))
            case "message_start":
                message = event.get("message")
                if not isinstance(message, Mapping):
                    raise TypeError("expected a message")
                self._model = string(message.get("model"))
                self._usage.update(mapping(message.get("usage")))
            case "message_delta":
                if (reason := mapping(event.get("delta")).get("stop_reason")) is not None:
                    self._reason = _FINISH.get(str(reason), FinishReason.STOP)
                # Numbers of a later event are totals and replace earlier ones; those it leaves out stay.
                self._usage.update({k: v for k, v in mapping(event.get("usage")).items() if v is not None})
            case "message_stop":
                self.complete = True
        return []

    def finish(self) -> Finish | None:
        """Return the end, or None when the message has not stopped."""
        if not self.complete or self._reason is None:
            return None
        written = number(self._usage, "cache_creation_input_tokens")
        cached = number(self._usage, "cache_read_input_tokens")
        usage = Usage(
            input_tokens=number(self._usage, "input_tokens") + written + cached,
            output_tokens=number(self._usage, "output_tokens"),
            cached_input_tokens=cached,
            cache_write_tokens=written,
            reasoning_tokens=number(self._usage, "output_tokens_details", "thinking_tokens"),
            model_calls=1,
        )
        return Finish(reason=self._reason, usage=usage, model=self._model)

    def _start(self, index: int, block: Mapping[str, object]) -> list[ModelEvent]:
        match block.get("type"):
            case "tool_use":
                identity, name = string(block.get("id")), string(block.get("name"))
                if not identity or not name:
                    raise ValueError("a call begins without id or name")
                number_of = self._calls[index] = len(self._calls)
                return [ToolCallStart(index=number_of, id=identity, name=name)]
            case "redacted_thinking":
                return [ReasoningDelta(data=string(block.get("data")), origin=self._origin)]
            case "thinking":
                self._signatures[index] = string(block.get("signature"))
            case "text" if block.get("text"):
                return [TextDelta(text=string(block.get("text")))]
        return []

    def _delta(self, index: int, delta: Mapping[str, object]) -> list[ModelEvent]:
        match delta.get("type"):
            case "text_delta":
                return [TextDelta(text=_text(delta, "text"))]
            case "input_json_delta" if delta.get("partial_json"):
                if index not in self._calls:
                    raise ValueError("arguments for a call that did not begin")
                return [ToolCallDelta(index=self._calls[index], arguments=_text(delta, "partial_json"))]
            case "thinking_delta":
                return [ReasoningDelta(text=_text(delta, "thinking"), origin=self._origin)]
            case "signature_delta":
                self._signatures[index] = self._signatures.get(index, "") + _text(delta, "signature")
        return []

    def _stop(self, index: int) -> list[ModelEvent]:
        """A signature ends its block, so it leaves when all of it is there."""
        signature = self._signatures.pop(index, "")
        return [ReasoningDelta(signature=signature, origin=self._origin)] if signature else []


def _text(block: Mapping[str, object], name: str) -> str:
    if name not in block or block[name] is None:
        raise TypeError(f"expected {name} to be text")
    return string(block[name])
