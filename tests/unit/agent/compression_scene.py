"""Conversations to compact, and engines to compact them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime

from hermes_agent.compression.budget import Budget
from hermes_agent.compression.compaction import Compactor, Options
from hermes_agent.compression.engine import Ask, CompressionEngine, ModelEngine, PlainEngine
from hermes_agent.compression.side_model import Patience
from hermes_agent.compression.sizes import text_tokens, transcript_tokens
from hermes_agent.model.base import ModelCall
from hermes_agent.testing.model import Reply, Wait, say
from hermes_contracts.agent_config import CompressionConfig
from hermes_contracts.conversation import (
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import Finish, ModelError, ModelEvent, ModelRequest, Purpose
from tests.unit.agent.agent_scene import Scene

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
WORDS = (
    "alpha", "beta", "gamma", "delta", "пример", "例え", "한국", "café", "/workspace/src/app.py", "https://example.org/x",
    "#42", "deadbeef1", "naïve",
)  # fmt: skip
TOOLS = {
    "terminal": '{{"command": "make step-{n}"}}',
    "read_file": '{{"path": "src/file{n}.py"}}',
    "write_file": '{{"path": "out{n}.txt", "content": "{long}"}}',
    "send_mail": '{{"to": "person{n}@example.org"}}',
}


def budget(window: int = 32_000, *, level: int = 0, **config: int) -> Budget:
    return Budget.of(window, CompressionConfig(**config), level=level, now=NOW)  # type: ignore[arg-type]


async def write_summary(system: str, text: str, max_output_tokens: int) -> str:
    """Answer as an auxiliary model would."""
    assert "record of a conversation" in system and "<material>" in text and max_output_tokens > 0
    return "### Goal\nBuild the thing.\n### Done\n1. Ran steps with terminal."


def engines(ask: Ask = write_summary) -> list[CompressionEngine]:
    return [ModelEngine(ask), PlainEngine()]


def words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(count))


def tool_round(calls: Sequence[tuple[str, str, str, str]], text: str = "") -> list[Message]:
    """Return an assistant message with calls (id, name, arguments, result) and the message with their results."""
    spoken: tuple[Part, ...] = (TextPart(text=text),) if text else ()
    asked = tuple(ToolCallPart(id=i, name=name, arguments=arguments) for i, name, arguments, _ in calls)
    results = tuple(ToolResultPart(call_id=i, name=name, text=result) for i, name, _, result in calls)
    return [Message(role=Role.ASSISTANT, parts=(*spoken, *asked)), Message(role=Role.TOOL, parts=results)]


def conversation(
    seed: int, turns: int, *, rounds: int = 3, result_words: int = 120, ends_in_turn: bool = True
) -> list[Message]:
    """Return a legal random conversation; it ends with a question, results, or an answer."""
    rng = random.Random(seed)
    messages: list[Message] = []
    number = 0
    for turn in range(turns):
        parts: list[Part] = [TextPart(text=f"request {turn}: {words(rng, rng.randrange(1, 60))}")]
        if rng.random() < 0.1:
            parts.append(ImagePart(media_id="m" + "a" * 25, media_type="image/png", size=50_000))
        messages.append(Message(role=Role.USER, parts=tuple(parts)))
        for _ in range(rng.randrange(rounds + 1)):
            calls = []
            for _ in range(rng.randrange(1, 4)):
                number += 1
                name = rng.choice(list(TOOLS))
                arguments = TOOLS[name].format(n=number, long="x" * rng.randrange(2_000))
                calls.append((f"c{number}", name, arguments, words(rng, rng.randrange(1, result_words))))
            messages += tool_round(calls, rng.choice(["", "Let me look."]))
            if rng.random() < 0.3:
                head = messages[-2]
                thought = ReasoningPart(text=words(rng, 50), signature="sig", origin="anthropic_messages/m")
                messages[-2] = Message(role=Role.ASSISTANT, parts=(thought, *head.parts))
        messages.append(Message.assistant(f"answer {turn}: {words(rng, rng.randrange(1, 80))}"))
    last = rng.random()
    if ends_in_turn and last < 0.8:
        messages.pop()
    return messages


class CountingModel:
    """A model with a window: counts every request, refuses what is too long, and writes summaries when asked to.

    `script` answers the requests of turns; `summary` those of compression, and may raise or wait.
    """

    def __init__(self, script: Callable[[ModelRequest], Reply], window: int = 8_000) -> None:
        self.script = script
        self.window = window
        self.summary: Callable[[ModelRequest], Reply] = lambda request: say(f"### Goal\nRecord {len(self.summaries)}.")
        self.requests: list[ModelRequest] = []
        self.sizes: list[int] = []
        self.summaries: list[ModelRequest] = []
        self.bodies: list[bytes] = []
        self.counts = True
        self.names_window = False
        self.max_bytes = 10**9

    async def stream(self, call: ModelCall) -> AsyncGenerator[ModelEvent, None]:
        body = call.body()
        request = ModelRequest.model_validate_json(body)
        side = request.purpose is Purpose.COMPRESSION
        size = self.count(request)
        (self.summaries if side else self.requests).append(request)
        if not side:
            self.bodies.append(body)
            self.sizes.append(size)
        if size > self.window and not side:
            named = self.window if self.names_window else 0
            yield ModelError(code=ErrorCode.CONTEXT_OVERFLOW, message="prompt is too long", context_window=named)
            return
        if len(body) > self.max_bytes:
            yield ModelError(code=ErrorCode.PAYLOAD_TOO_LARGE, message="request entity too large")
            return
        output = 0
        for piece in self.summary(request) if side else self.script(request):
            if isinstance(piece, HermesError):
                raise piece
            if isinstance(piece, Wait):
                await asyncio.sleep(piece.seconds)
            elif isinstance(piece, Finish):
                usage = (
                    Usage(input_tokens=size, output_tokens=output, model_calls=1) if self.counts else Usage(model_calls=1)
                )
                yield piece.model_copy(update={"usage": usage, "context_window": self.window})
            else:
                output += text_tokens(piece.model_dump_json())
                yield piece

    @staticmethod
    def count(request: ModelRequest) -> int:
        tools = sum(text_tokens(tool.model_dump_json()) for tool in request.tools)
        return text_tokens(request.system) + tools + transcript_tokens(request.messages)


def compacting(
    *, enabled: bool = True, asks: list[int] | None = None, patience: Patience | None = None, **config: int
) -> Callable[[Scene], Compactor]:
    """Return what makes a scene's compactor."""

    def make(scene: Scene) -> Compactor:
        async def window() -> int:
            if asks is not None:
                asks.append(1)
            return getattr(scene.model, "window", 0)

        return Compactor(
            scene.store.client(scene.epoch),
            scene.model,
            scene.deltas,
            CompressionConfig(enabled=enabled, **config),  # type: ignore[arg-type]
            window,
            scene.prompts().rebuild,
            Options(patience=patience or Patience(silence=5, total=10), now=lambda: scene.today),
        )

    return make
