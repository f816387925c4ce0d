"""OpenAI Chat Completions → neutral: chunks of a stream to events."""

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
from hermes_gateway.models.providers.shapes import mapping, mappings, number, string

_FINISH = {
    "stop": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.REFUSED,
}


def parse_usage(usage: object) -> Usage:
    """Fold the numbers into ours."""
    return Usage(
        input_tokens=number(usage, "prompt_tokens"),
        output_tokens=number(usage, "completion_tokens"),
        cached_input_tokens=number(usage, "prompt_tokens_details", "cached_tokens")
        or number(usage, "prompt_cache_hit_tokens"),
        cache_write_tokens=number(usage, "prompt_tokens_details", "cache_write_tokens"),
        reasoning_tokens=number(usage, "completion_tokens_details", "reasoning_tokens"),
        model_calls=1,
    )


class ChunkReader:
    """Turns chunks into events, in order. Chunks are plain JSON objects; a wrong shape raises ValueError or TypeError.

    Compatible servers leave out ids, indexes or usage: `call_prefix` names calls that come without an id.
    """

    def __init__(self, call_prefix: str, origin: str) -> None:
        self._call_prefix = call_prefix
        self._origin = origin
        self._open: dict[int, str] = {}
        self._refused = False
        self._model = ""
        self._reason: FinishReason | None = None
        self._usage = Usage(model_calls=1)
        self.complete = False
        """True once reason and usage are both known: nothing more is to come."""

    def read(self, event: Mapping[str, object]) -> list[ModelEvent]:
        """Return the events of one chunk."""
        self._model = str(event.get("model") or self._model)
        events: list[ModelEvent] = []
        for choice in mappings(event.get("choices")):
            events += self._delta(mapping(choice.get("delta")))
            if (reason := choice.get("finish_reason")) is not None:
                self._reason = _FINISH.get(str(reason), FinishReason.STOP)
        if event.get("usage") is not None:
            self._usage = parse_usage(event["usage"])
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
        if thought := string(delta.get("reasoning_content")) or string(delta.get("reasoning")):
            events.append(ReasoningDelta(text=thought, origin=self._origin))
        if text := string(delta.get("content")):
            events.append(TextDelta(text=text))
        if refusal := string(delta.get("refusal")):
            self._refused = True
            events.append(TextDelta(text=refusal))
        for call in mappings(delta.get("tool_calls")):
            events += self._call(call)
        return events

    def _call(self, call: Mapping[str, object]) -> list[ModelEvent]:
        function = mapping(call.get("function"))
        index = call.get("index")
        identity, name = string(call.get("id")), string(function.get("name"))
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
        if extra := call.get("extra_content"):
            signature = string(mapping(mapping(extra).get("google")).get("thought_signature"))
            events.append(ReasoningDelta(data=signature, item_id=self._open[index], origin=self._origin))
        if arguments := string(function.get("arguments")):
            events.append(ToolCallDelta(index=index, arguments=arguments))
        return events
