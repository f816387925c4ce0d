"""Amazon Bedrock Converse → neutral: events of a stream."""

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
from hermes_gateway.models.providers.shapes import index as index_of, mapping, number, string

_FINISH = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "malformed_tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "guardrail_intervened": FinishReason.REFUSED,
    "content_filtered": FinishReason.REFUSED,
}


class ConverseReader:
    """Turns events, each an object of its one kind, into ours. A wrong shape raises ValueError or TypeError."""

    def __init__(self, model: str, origin: str) -> None:
        self._model = model
        self._origin = origin
        self._calls: dict[int, int] = {}
        self._ends: dict[int, dict[str, str]] = {}
        self._reason: FinishReason | None = None
        self._usage = Usage(model_calls=1)
        self.complete = False
        """True once the numbers are known, which come last."""

    def read(self, event: Mapping[str, object]) -> list[ModelEvent]:
        """Return our events for one of theirs; kinds that say nothing to us give none."""
        for kind, value in event.items():
            match kind:
                case "contentBlockDelta":
                    inner = mapping(value)
                    return self._delta(index_of(inner.get("contentBlockIndex")), mapping(inner.get("delta")))
                case "contentBlockStart":
                    inner = mapping(value)
                    return self._start(index_of(inner.get("contentBlockIndex")), mapping(inner.get("start")))
                case "contentBlockStop":
                    return self._stop(index_of(mapping(value).get("contentBlockIndex")))
                case "messageStop":
                    reason = string(mapping(value).get("stopReason"))
                    self._reason = _FINISH.get(reason, FinishReason.STOP)
                case "metadata":
                    self._count(mapping(value).get("usage"))
                    self.complete = self._reason is not None
        return []

    def finish(self) -> Finish | None:
        """Return the end, or None when the message has not stopped."""
        if not self.complete or self._reason is None:
            return None
        return Finish(reason=self._reason, usage=self._usage, model=self._model)

    def _start(self, index: int, start: Mapping[str, object]) -> list[ModelEvent]:
        use = mapping(start.get("toolUse"))
        if not use:
            return []
        identity, name = string(use.get("toolUseId")), string(use.get("name"))
        if not identity or not name:
            raise ValueError("a call begins without id or name")
        self._calls[index] = len(self._calls)
        return [ToolCallStart(index=self._calls[index], id=identity, name=name)]

    def _delta(self, index: int, delta: Mapping[str, object]) -> list[ModelEvent]:
        if "text" in delta:
            return [TextDelta(text=string(delta["text"]))]
        if "toolUse" in delta:
            if index not in self._calls:
                raise ValueError("arguments for a call that did not begin")
            text = string(mapping(delta["toolUse"]).get("input"))
            return [ToolCallDelta(index=self._calls[index], arguments=text)] if text else []
        if "reasoningContent" in delta:
            thought = mapping(delta["reasoningContent"])
            for theirs, ours in (("signature", "signature"), ("redactedContent", "data")):
                if theirs in thought:
                    end = self._ends.setdefault(index, {})
                    end[ours] = end.get(ours, "") + string(thought[theirs])
            if text := string(thought.get("text")):
                return [ReasoningDelta(text=text, origin=self._origin)]
        return []

    def _stop(self, index: int) -> list[ModelEvent]:
        """A signature ends its block, so it leaves when all of it is there."""
        end = self._ends.pop(index, None)
        if end is None:
            return []
        return [ReasoningDelta(signature=end.get("signature"), data=end.get("data"), origin=self._origin)]

    def _count(self, usage: object) -> None:
        cached, written = number(usage, "cacheReadInputTokens"), number(usage, "cacheWriteInputTokens")
        self._usage = Usage(
            input_tokens=number(usage, "inputTokens") + cached + written,
            output_tokens=number(usage, "outputTokens"),
            cached_input_tokens=cached,
            cache_write_tokens=written,
            model_calls=1,
        )
