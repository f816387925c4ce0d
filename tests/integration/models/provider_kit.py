"""Every provider by itself: the real SDK code, a real socket, and on the other side the scripted model or bytes by hand."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2

from hermes_contracts.conversation import Message, ToolSpec
from hermes_contracts.model_api import ModelEvent, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from hermes_contracts.providers import ApiMode
from hermes_gateway.models.addresses import guarded_client
from hermes_gateway.models.providers.errors import ProviderError
from hermes_gateway.models.providers.loading import make_providers
from hermes_gateway.models.target import ApiKey, AwsKeys, Credential, KnownModel, Medium, Target
from scripted_model.http_server import Connection, Request, listen
from scripted_model.memory import Memory
from scripted_model.server import Server

MODES: tuple[ApiMode, ...] = ("chat_completions", "responses", "anthropic_messages", "bedrock_converse")
KEY = "sk-very-secret-0123456789abcdef"
AWS = AwsKeys("AKIAVERYSECRETACCESS", "very/secret/0123456789+abcdef", "very-secret-session-token", "eu-central-1")
SECRETS = (KEY, AWS.access_key_id, AWS.secret_access_key, "very-secret-session-token")
MODELS: Mapping[ApiMode, str] = {
    "chat_completions": "gpt-5", "responses": "gpt-5", "anthropic_messages": "claude-sonnet-4-5",
    "bedrock_converse": "eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
}  # fmt: skip
KNOWN = KnownModel(context_window=200_000, max_output_tokens=32_000, vision=True, reasoning=True, prompt_cache=True)
TERMINAL = ToolSpec(
    name="terminal",
    description="Run a command",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)


async def wait_for(condition: Callable[[], Any], seconds: float = 5.0) -> Any:
    """Wait until a condition holds; fail when it does not in time."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "condition did not hold in time"
        await asyncio.sleep(0.005)
    return value


def target(mode: ApiMode, port: int, **changes: Any) -> Target:
    """Return a target at a local port."""
    credential: Credential = AWS if mode == "bedrock_converse" else ApiKey(KEY)
    path = "/v1" if mode in ("chat_completions", "responses") else ""
    found = Target(mode, mode, MODELS[mode], f"http://127.0.0.1:{port}{path}", credential, KNOWN)
    return replace(found, **changes)


def script(*steps: dict[str, Any], **fields: Any) -> str:
    return "#script " + json.dumps({"steps": steps, **fields})


def ask(*messages: str | Message, **fields: Any) -> ModelRequest:
    listed = tuple(Message.user(m) if isinstance(m, str) else m for m in messages)
    values: dict[str, Any] = {"turn_id": "t1", "step": 0, "system": "You are Hermes.", "conversation": "c1", **fields}
    return ModelRequest(messages=listed, **values)


@dataclass
class Kit:
    """Providers over one pool, and a server that keeps what it was asked."""

    http: httpx2.AsyncClient
    port: int
    memory: Memory = field(default_factory=Memory)

    def __post_init__(self) -> None:
        self.providers = make_providers(self.http)

    async def events(
        self, mode: ApiMode, request: ModelRequest, media: Mapping[str, Medium] | None = None, **changes: Any
    ) -> list[ModelEvent]:
        stream = self.providers[mode].stream(request, target(mode, self.port, **changes), media or {})
        async with aclosing(stream) as events:
            return [event async for event in events]

    async def play(self, mode: ApiMode, *steps: dict[str, Any], **changes: Any) -> list[ModelEvent]:
        return await self.events(mode, ask(script(*steps)), **changes)

    async def failure(self, mode: ApiMode, *steps: dict[str, Any], **changes: Any) -> ProviderError:
        """Return the error a step ends in."""
        try:
            events = await self.play(mode, *steps, **changes)
        except ProviderError as error:
            return error
        raise AssertionError(f"no error, but {events}")

    def asked(self) -> Request:
        """Return the newest request."""
        assert self.memory.kept
        return self.memory.kept[-1]

    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.asked().body))


def text(events: list[ModelEvent]) -> str:
    return "".join(e.text for e in events if isinstance(e, TextDelta))


def thoughts(events: list[ModelEvent]) -> str:
    return "".join(e.text for e in events if isinstance(e, ReasoningDelta))


def calls(events: list[ModelEvent]) -> list[tuple[str, str]]:
    """Return name and arguments of each call, in order of their index."""
    starts = sorted((e for e in events if isinstance(e, ToolCallStart)), key=lambda e: e.index)
    assert [start.index for start in starts] == list(range(len(starts)))
    return [
        (s.name, "".join(e.arguments for e in events if isinstance(e, ToolCallDelta) and e.index == s.index)) for s in starts
    ]


def client(**settings: Any) -> httpx2.AsyncClient:
    return guarded_client(["127.0.0.1"], **{"connect_seconds": 5.0, "idle_seconds": 10.0, **settings})


@asynccontextmanager
async def scripted_kit(**settings: Any) -> AsyncIterator[Kit]:
    """Providers in front of the scripted model."""
    server = Server(keep_requests=True)
    async with listen(server.handle, "127.0.0.1", 0) as port, client(**settings) as http:
        yield Kit(http, port, server.memory)


@asynccontextmanager
async def raw_kit(handler: Callable[[Request, Connection], Awaitable[None]], **settings: Any) -> AsyncIterator[Kit]:
    """Providers in front of a handler that writes what it likes."""
    async with listen(handler, "127.0.0.1", 0) as port, client(**settings) as http:
        yield Kit(http, port)
