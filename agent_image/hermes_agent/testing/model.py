"""A model that follows a script, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from hermes_agent.model.base import ModelCall
from hermes_contracts.conversation import Role, Usage
from hermes_contracts.errors import HermesError
from hermes_contracts.model_api import (
    Finish,
    FinishReason,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)

USAGE = Usage(input_tokens=10, output_tokens=5, model_calls=1)


@dataclass(frozen=True)
class Wait:
    """Be silent for this many seconds."""

    seconds: float


Piece = ModelEvent | HermesError | Wait
Reply = Sequence[Piece]


def say(text: str, *, reason: FinishReason = FinishReason.STOP) -> list[Piece]:
    """Answer with a text."""
    pieces: list[Piece] = [TextDelta(text=text)] if text else []
    return [*pieces, Finish(reason=reason, usage=USAGE)]


def call(*calls: tuple[str, str, str], text: str = "", reason: FinishReason = FinishReason.TOOL_CALLS) -> list[Piece]:
    """Ask for calls, each (id, name, arguments as JSON text)."""
    pieces: list[Piece] = [TextDelta(text=text)] if text else []
    for index, (call_id, name, arguments) in enumerate(calls):
        half = len(arguments) // 2
        pieces += [
            ToolCallStart(index=index, id=call_id, name=name),
            ToolCallDelta(index=index, arguments=arguments[:half]),
            ToolCallDelta(index=index, arguments=arguments[half:]),
        ]
    return [*pieces, Finish(reason=reason, usage=USAGE)]


class ScriptedModel:
    """Answers call by call from a list, or by a function of the request; an exhausted list says "done"."""

    def __init__(self, script: Sequence[Reply] | Callable[[ModelRequest], Reply] = ()) -> None:
        self._script = script
        self._next = 0
        self.requests: list[ModelRequest] = []
        self.bodies: list[bytes] = []
        self.hook: Callable[[str], None] = lambda _when: None

    def _reply(self, request: ModelRequest) -> Reply:
        if callable(self._script):
            return self._script(request)
        self._next += 1
        return self._script[self._next - 1] if self._next <= len(self._script) else say("done")

    async def stream(self, call: ModelCall) -> AsyncGenerator[ModelEvent, None]:
        """Follow the script."""
        body = call.body()
        request = ModelRequest.model_validate_json(body)
        self.bodies.append(body)
        self.requests.append(request)
        self.hook("before")
        for piece in self._reply(request):
            if isinstance(piece, HermesError):
                raise piece
            if isinstance(piece, Wait):
                await asyncio.sleep(piece.seconds)
                continue
            yield piece
            await asyncio.sleep(0)
        self.hook("after")


def step_of(request: ModelRequest) -> int:
    """Return the number of assistant messages since the last user message: where in a turn a request is."""
    count = 0
    for message in reversed(request.messages):
        if message.role is Role.USER:
            break
        count += message.role is Role.ASSISTANT
    return count
