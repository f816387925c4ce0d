"""Turns a stream of events into one answer, bounded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from hermes_agent.model.think import ThinkSplitter
from hermes_contracts.conversation import ReasoningPart, Usage
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import (
    Finish,
    FinishReason,
    ModelError,
    ModelEvent,
    ReasoningDelta,
    Restart,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)

MAX_ANSWER_BYTES = 300_000
"""Longest text, reasoning and arguments of one answer together, in UTF-8: a step, escaped, has to fit the bus."""
MAX_CALLS = 64
THINK_BLOCK = "text/think-block"
"""`origin` of thinking that was written into the text: no provider wants it back."""


class ModelFailed(HermesError):
    """The models service itself said that this call failed, after all it tried: asking again at once is of no use."""

    def __init__(self, event: ModelError) -> None:
        super().__init__(event.code, event.message, retryable=event.retryable, retry_after_seconds=event.retry_after_seconds)
        self.context_window = event.context_window
        """With CONTEXT_OVERFLOW: the limit that the provider named, in tokens; 0 when it named none."""


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
    context_window: int = 0
    """Tokens that the model can read; 0 when nobody knows."""
    provider: str = ""
    place: str = ""
    """Where in the Profile the model stands that answered."""


OnDelta = Callable[[str, str], None]
"""Told of each piece: kind `text`, `reasoning`, `restart`, `notice`, or `alive` (nothing but a sign of life)."""


@dataclass
class Collector:
    """An answer that is coming in; `text_so_far` is there when the stream breaks."""

    on_delta: OnDelta
    text: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    reasoning: list[ReasoningPart] = field(default_factory=list)
    calls: dict[int, RawCall] = field(default_factory=dict)
    pieces: dict[int, list[str]] = field(default_factory=dict)
    size: int = 0
    splitter: ThinkSplitter = field(default_factory=ThinkSplitter)
    thoughts: list[str] = field(default_factory=list)
    """Thinking found in the text."""
    origin: str = ""
    """Who thinks, as said before the end of a block."""

    def take(self, event: ModelEvent) -> None:
        """Take an event that is not the last. Raises HermesError when it is not legal here."""
        match event:
            case TextDelta(text=text):
                self._grow(text)
                for kind, piece in self.splitter.feed(text):
                    self._said(kind, piece)
            case ReasoningDelta():
                self._think(event)
            case ToolCallStart(index=index, id=call_id, name=name):
                if len(self.calls) >= MAX_CALLS:
                    raise HermesError(
                        ErrorCode.PROVIDER_PROTOCOL, f"the model asked for more than {MAX_CALLS} calls at once"
                    )
                self.calls[index] = RawCall(call_id[:256], name[:256])
                self.pieces[index] = []
                self.on_delta("alive", "")
            case ToolCallDelta(index=index, arguments=arguments):
                if index not in self.pieces:
                    raise HermesError(
                        ErrorCode.PROVIDER_PROTOCOL, "arguments came for a call that never began", retryable=True
                    )
                self._grow(arguments)
                self.pieces[index].append(arguments)
                self.on_delta("alive", "")
            case Restart(message=message):
                self._forget()
                self.on_delta("restart", "")
                self.on_delta("notice", message)
            case _:
                self.on_delta("alive", "")

    def text_so_far(self) -> str:
        """Return the text that came, without thinking."""
        return "".join(self.text)

    def _said(self, kind: str, piece: str) -> None:
        if kind == "text":
            self.text.append(piece)
            self.on_delta("text", piece)
        elif kind == "thought":
            self.thoughts.append(piece)
            self.on_delta("reasoning", piece)
        else:
            self.thoughts.extend(self.text)
            self.text.clear()
            self.on_delta("restart", "")

    def _think(self, event: ReasoningDelta) -> None:
        self._grow(event.text)
        self._grow(event.data or "")
        self.thinking.append(event.text)
        if event.signature is not None or event.data is not None or event.item_id is not None:
            self._close_thinking(event)
        else:
            self.origin = event.origin or self.origin
        self.on_delta("reasoning" if event.text else "alive", event.text)

    def _close_thinking(self, last: ReasoningDelta | None = None) -> None:
        text = "".join(self.thinking)
        self.thinking.clear()
        if not text and last is None:
            return
        last = last or ReasoningDelta()
        self.reasoning.append(
            ReasoningPart(
                text=text,
                signature=last.signature,
                data=last.data,
                item_id=last.item_id,
                origin=last.origin or self.origin,
            )
        )

    def _forget(self) -> None:
        """Drop everything: another attempt begins."""
        self.text, self.thinking, self.thoughts, self.reasoning = [], [], [], []
        self.calls, self.pieces = {}, {}
        self.size, self.origin, self.splitter = 0, "", ThinkSplitter()

    def _grow(self, piece: str) -> None:
        self.size += len(piece) if piece.isascii() else len(piece.encode("utf-8", "replace"))
        if self.size > MAX_ANSWER_BYTES:
            raise HermesError(ErrorCode.TOO_LARGE, f"the answer is longer than {MAX_ANSWER_BYTES} bytes")

    def answer(self, finish: Finish) -> Answer:
        """Return what came, whole."""
        for kind, piece in self.splitter.end():
            self._said(kind, piece)
        self._close_thinking()
        if thoughts := "".join(self.thoughts).strip():
            self.reasoning.append(ReasoningPart(text=thoughts, origin=THINK_BLOCK))
        for index, call in self.calls.items():
            call.arguments = "".join(self.pieces[index])
        ordered = tuple(self.calls[index] for index in sorted(self.calls))
        usage = finish.usage if finish.usage.model_calls else finish.usage.model_copy(update={"model_calls": 1})
        return Answer(
            self.text_so_far(),
            tuple(self.reasoning),
            ordered,
            finish.reason,
            usage,
            finish.context_window,
            finish.provider,
            finish.place,
        )


async def gather(events: AsyncGenerator[ModelEvent, None], collector: Collector) -> Answer:
    """Read a stream to its end. Raises HermesError when it ends badly; ModelFailed when the models service said so."""
    finish: Finish | None = None
    async with aclosing(events):
        async for event in events:
            if finish is not None:
                continue
            if isinstance(event, Finish):
                # Read on to the end, so that the connection can serve the next call.
                finish = event
            elif isinstance(event, ModelError):
                raise ModelFailed(event)
            else:
                collector.take(event)
    if finish is None:
        raise HermesError(ErrorCode.PROVIDER_PROTOCOL, "the model's answer was cut off", retryable=True)
    return collector.answer(finish)


async def collect(events: AsyncGenerator[ModelEvent, None], on_delta: OnDelta) -> Answer:
    """Read a stream to its end into an answer of its own; `on_delta` is told of each piece. Raises HermesError."""
    return await gather(events, Collector(on_delta))
