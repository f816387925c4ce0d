"""Turns a stream of events into one answer, bounded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from hermes_contracts.conversation import ReasoningPart, Usage
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import (
    Finish,
    FinishReason,
    ModelError,
    ModelEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)

MAX_ANSWER_BYTES = 300_000
"""Longest text, reasoning and arguments of one answer together, in UTF-8: a step, escaped, has to fit the bus."""
MAX_CALLS = 64


@dataclass
class RawCall:
    """A call as the model wrote it; nothing about it is checked yet."""

    id: str
    name: str
    arguments: str = ""


@dataclass(frozen=True)
class Answer:
    """What one model call brought."""

    text: str
    reasoning: tuple[ReasoningPart, ...]
    calls: tuple[RawCall, ...]
    finish: FinishReason
    usage: Usage


@dataclass
class _Collector:
    on_delta: Callable[[str, str], None]
    text: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    reasoning: list[ReasoningPart] = field(default_factory=list)
    calls: dict[int, RawCall] = field(default_factory=dict)
    pieces: dict[int, list[str]] = field(default_factory=dict)
    size: int = 0

    def take(self, event: ModelEvent) -> None:
        match event:
            case TextDelta(text=text):
                self._grow(text)
                self.text.append(text)
                self.on_delta("text", text)
            case ReasoningDelta(text=text, signature=signature):
                self._grow(text)
                self.thinking.append(text)
                if signature is not None:
                    self._close_thinking(signature)
                if text:
                    self.on_delta("reasoning", text)
            case ToolCallStart(index=index, id=call_id, name=name):
                if len(self.calls) >= MAX_CALLS:
                    raise HermesError(
                        ErrorCode.PROVIDER_PROTOCOL, f"the model asked for more than {MAX_CALLS} calls at once"
                    )
                self.calls[index] = RawCall(call_id[:256], name[:256])
                self.pieces[index] = []
            case ToolCallDelta(index=index, arguments=arguments):
                if index not in self.pieces:
                    raise HermesError(
                        ErrorCode.PROVIDER_PROTOCOL, "arguments came for a call that never began", retryable=True
                    )
                self._grow(arguments)
                self.pieces[index].append(arguments)
            case _:
                pass

    def _grow(self, piece: str) -> None:
        self.size += len(piece) if piece.isascii() else len(piece.encode("utf-8", "replace"))
        if self.size > MAX_ANSWER_BYTES:
            raise HermesError(ErrorCode.TOO_LARGE, f"the answer is longer than {MAX_ANSWER_BYTES} bytes")

    def _close_thinking(self, signature: str | None) -> None:
        text = "".join(self.thinking)
        self.thinking.clear()
        if text or signature:
            self.reasoning.append(ReasoningPart(text=text, signature=signature))

    def answer(self, finish: Finish) -> Answer:
        self._close_thinking(None)
        for index, call in self.calls.items():
            call.arguments = "".join(self.pieces[index])
        ordered = tuple(self.calls[index] for index in sorted(self.calls))
        usage = finish.usage if finish.usage.model_calls else finish.usage.model_copy(update={"model_calls": 1})
        return Answer("".join(self.text), tuple(self.reasoning), ordered, finish.reason, usage)


async def collect(events: AsyncGenerator[ModelEvent, None], on_delta: Callable[[str, str], None]) -> Answer:
    """Read a stream to its end; `on_delta(kind, text)` is told of each piece. Raises HermesError when it ends badly."""
    collector = _Collector(on_delta)
    finish: Finish | None = None
    async with aclosing(events):
        async for event in events:
            if finish is not None:
                continue
            if isinstance(event, Finish):
                # Read on to the end, so that the connection can serve the next call.
                finish = event
            elif isinstance(event, ModelError):
                raise HermesError(
                    event.code, event.message, retryable=event.retryable, retry_after_seconds=event.retry_after_seconds
                )
            else:
                collector.take(event)
    if finish is None:
        raise HermesError(ErrorCode.PROVIDER_PROTOCOL, "the model's answer was cut off", retryable=True)
    return collector.answer(finish)
