"""OpenAI Responses → neutral: events of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
from hermes_gateway.models.providers.errors import ProviderError, Reason
from hermes_gateway.models.providers.rules import from_answer
from hermes_gateway.models.providers.shapes import index, mapping, mappings, number, string

_INCOMPLETE = {"max_output_tokens": FinishReason.LENGTH, "content_filter": FinishReason.REFUSED}


@dataclass
class _Item:
    """One output item as far as it was sent."""

    call: int | None = None
    """Which call it is, if it is one."""
    sent: int = 0
    """Characters of text or arguments that were handed on."""
    parts: int = 0
    """Pieces of a summary that began."""


class ResponsesReader:
    """Turns events into ours, in order. A wrong shape raises ValueError or TypeError, a failure ProviderError."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._items: dict[int, _Item] = {}
        self._calls = 0
        self._refused = False
        self._end: Mapping[str, object] | None = None
        self.complete = False
        """True once the response has ended."""

    def read(self, event: Mapping[str, object]) -> list[ModelEvent]:
        """Return our events for one of theirs; kinds that say nothing to us give none."""
        match event.get("type"):
            case "response.output_text.delta":
                return self._text(event)
            case "response.refusal.delta":
                self._refused = True
                return self._text(event)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._thought(string(event.get("delta")))
            case "response.reasoning_summary_part.added":
                return self._next_part(event)
            case "response.output_item.added":
                return self._added(index(event.get("output_index")), mapping(event.get("item")))
            case "response.function_call_arguments.delta":
                return self._arguments(index(event.get("output_index")), string(event.get("delta")))
            case "response.output_item.done":
                return self._done(index(event.get("output_index")), mapping(event.get("item")))
            case "response.completed" | "response.incomplete":
                self._end = mapping(event.get("response"))
                self.complete = True
            case "response.failed":
                raise _failure(mapping(mapping(event.get("response")).get("error")))
            case "error":
                raise _failure(event)
        return []

    def finish(self) -> Finish | None:
        """Return the end, or None when the response has not ended."""
        if self._end is None:
            return None
        reason = FinishReason.TOOL_CALLS if self._calls else FinishReason.STOP
        if self._end.get("status") == "incomplete":
            why = mapping(self._end.get("incomplete_details")).get("reason")
            reason = _INCOMPLETE.get(str(why), FinishReason.LENGTH)
        elif self._refused:
            reason = FinishReason.REFUSED
        usage = self._end.get("usage")
        return Finish(
            reason=reason,
            model=string(self._end.get("model")),
            usage=Usage(
                input_tokens=number(usage, "input_tokens"),
                output_tokens=number(usage, "output_tokens"),
                cached_input_tokens=number(usage, "input_tokens_details", "cached_tokens"),
                cache_write_tokens=number(usage, "input_tokens_details", "cache_write_tokens"),
                reasoning_tokens=number(usage, "output_tokens_details", "reasoning_tokens"),
                model_calls=1,
            ),
        )

    def _item(self, at: int) -> _Item:
        return self._items.setdefault(at, _Item())

    def _text(self, event: Mapping[str, object]) -> list[ModelEvent]:
        text = string(event.get("delta"))
        self._item(index(event.get("output_index"))).sent += len(text)
        return [TextDelta(text=text)] if text else []

    def _thought(self, text: str) -> list[ModelEvent]:
        return [ReasoningDelta(text=text, origin=self._origin)] if text else []

    def _next_part(self, event: Mapping[str, object]) -> list[ModelEvent]:
        item = self._item(index(event.get("output_index")))
        item.parts += 1
        return self._thought("\n\n") if item.parts > 1 else []

    def _added(self, at: int, item: Mapping[str, object]) -> list[ModelEvent]:
        if item.get("type") != "function_call" or self._item(at).call is not None:
            return []
        identity, name = string(item.get("call_id")) or string(item.get("id")), string(item.get("name"))
        if not identity or not name:
            raise ValueError("a call begins without id or name")
        self._item(at).call = self._calls
        self._calls += 1
        return [ToolCallStart(index=self._calls - 1, id=identity, name=name)]

    def _arguments(self, at: int, text: str) -> list[ModelEvent]:
        item = self._items.get(at)
        if item is None or item.call is None:
            raise ValueError("arguments for a call that did not begin")
        item.sent += len(text)
        return [ToolCallDelta(index=item.call, arguments=text)] if text else []

    def _done(self, at: int, item: Mapping[str, object]) -> list[ModelEvent]:
        """Hand on what came whole instead of in pieces, and what only the whole item holds."""
        match item.get("type"):
            case "function_call":
                begun = self._added(at, item)
                return begun + self._arguments(at, string(item.get("arguments"))[self._item(at).sent :])
            case "message" if not self._item(at).sent:
                text = "".join(string(part.get("text")) for part in mappings(item.get("content")))
                return [TextDelta(text=text)] if text else []
            case "reasoning" if encrypted := string(item.get("encrypted_content")):
                return [ReasoningDelta(data=encrypted, item_id=string(item.get("id")) or None, origin=self._origin)]
        return []


def _failure(error: Mapping[str, object]) -> ProviderError:
    inner = error.get("error")
    told = inner if isinstance(inner, Mapping) else error
    message = str(told.get("message") or "")
    words = f"{told.get('code') or ''} {told.get('type') or ''} {message}"
    found = from_answer(200, words, {}, quote=message)
    return ProviderError(Reason.SERVER_ERROR) if found.reason is Reason.UNKNOWN else found
