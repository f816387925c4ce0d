"""What people and agents see when a provider misbehaves: every fault that the scripted model can play."""

from __future__ import annotations

import asyncio
import socket
from email.utils import formatdate
from pathlib import Path
from time import time
from typing import Any

import pytest

from hermes_contracts.errors import ErrorCode
from hermes_contracts.model_api import Finish, Heartbeat, ModelError, Restart
from tests.integration.models.harness import ONCE, Models, ask, running, secret, text, wait_for

WIRES = pytest.mark.parametrize("profile", ["openai", "anthropic"])


@WIRES
@pytest.mark.parametrize(
    ("step", "code", "retryable"),
    [
        ({"error": "auth"}, ErrorCode.AUTH, False),
        ({"status": 403}, ErrorCode.AUTH, False),
        ({"error": "billing"}, ErrorCode.BILLING, False),
        ({"status": 402}, ErrorCode.BILLING, False),
        ({"error": "rate_limit"}, ErrorCode.RATE_LIMIT, True),
        ({"error": "overloaded"}, ErrorCode.OVERLOADED, True),
        ({"status": 529}, ErrorCode.OVERLOADED, True),
        ({"status": 503}, ErrorCode.OVERLOADED, True),
        ({"status": 500}, ErrorCode.SERVER_ERROR, True),
        ({"status": 502}, ErrorCode.SERVER_ERROR, True),
        ({"error": "context_overflow"}, ErrorCode.CONTEXT_OVERFLOW, False),
        ({"error": "model_not_found"}, ErrorCode.MODEL_NOT_FOUND, False),
        ({"error": "content_refused"}, ErrorCode.CONTENT_REFUSED, False),
        ({"error": "invalid"}, ErrorCode.INVALID, False),
        ({"malformed": "html"}, ErrorCode.PROVIDER_PROTOCOL, True),
        ({"say": "some text that is long", "chunk": 4, "malformed": "sse"}, ErrorCode.PROVIDER_PROTOCOL, True),
        ({"say": "some text", "cut_after_bytes": 0}, ErrorCode.PROVIDER_PROTOCOL, True),
        ({"say": "some text", "cut_after_bytes": 700}, ErrorCode.PROVIDER_PROTOCOL, True),
        ({"say": "some", "error": "overloaded", "error_in_stream": True}, ErrorCode.OVERLOADED, True),
        ({"say": "some", "error": "server_error", "error_in_stream": True}, ErrorCode.SERVER_ERROR, True),
        ({"say": "some", "error": "rate_limit", "error_in_stream": True}, ErrorCode.RATE_LIMIT, True),
        ({"say": "some", "error": "context_overflow", "error_in_stream": True}, ErrorCode.CONTEXT_OVERFLOW, False),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else None,
)
async def test_a_fault_becomes_one_plain_error(
    models: Models, profile: str, step: dict[str, Any], code: ErrorCode, retryable: bool
) -> None:
    error = await models.error(step, profile=profile)
    assert (error.code, error.retryable) == (code, retryable), error
    assert error.message[0].isupper() and error.message.rstrip().endswith((".", "'", "required"))
    tries = 1 if not retryable or error.retry_after_seconds else 5 if code is ErrorCode.OVERLOADED else 3
    assert len(models.memory.requests) == tries
    outcomes = await wait_for(lambda: len(models.records) == tries and [r.outcome for r in models.records])
    assert outcomes == [code.value] * tries, "each attempt is in the books"


@WIRES
async def test_retry_after_in_seconds_and_as_a_date(models: Models, profile: str) -> None:
    error = await models.error({"status": 429, "headers": {"retry-after": "7"}}, profile=profile)
    assert error.retry_after_seconds == 7
    date = formatdate(time() + 60, usegmt=True)
    error = await models.error({"error": "overloaded", "headers": {"retry-after": date}}, profile=profile)
    assert error.retry_after_seconds is not None and 50 < error.retry_after_seconds <= 60


@WIRES
@pytest.mark.parametrize(
    "step", [{"status": 500}, {"say": "half an ", "repeat": 40, "chunk": 8, "cut_after_bytes": 900}], ids=["status", "cut"]
)
async def test_a_fault_that_happens_once_is_told_and_mended(models: Models, profile: str, step: dict[str, Any]) -> None:
    events = await models.play({**step, "times": 1}, {"say": "well again"}, profile=profile)
    assert text(events) == "well again" and isinstance(events[-1], Finish)
    (restart,) = [e for e in events if isinstance(e, Restart)]
    assert restart.attempt == 2 and restart.provider == profile and restart.message.endswith(".")
    assert [r.outcome for r in await wait_for(lambda: len(models.records) == 2 and models.records)][1] == "ok"


@WIRES
async def test_silence_is_filled_with_heartbeats_and_ends_in_a_timeout(tmp_path: Path, profile: str) -> None:
    async with running(tmp_path, policy=ONCE, heartbeat_seconds=0.1, idle_seconds=0.75) as models:
        events = await models.play({"say": "firstsecond", "chunk": 5, "hang_seconds": 600}, profile=profile)
        assert text(events) == "first"
        assert sum(isinstance(e, Heartbeat) for e in events) >= 3
        last = events[-1]
        assert isinstance(last, ModelError) and last.code is ErrorCode.TIMEOUT and last.retryable
        for place in ("headers", "start"):
            error = await models.error({"hang_seconds": 600, "hang_at": place}, profile=profile)
            assert error.code is ErrorCode.TIMEOUT


@WIRES
async def test_a_slow_first_token_and_a_slow_stream_are_no_fault(tmp_path: Path, profile: str) -> None:
    async with running(tmp_path, heartbeat_seconds=0.1, idle_seconds=1.0) as models:
        step = {"say": "abc", "chunk": 1, "first_ms": 500, "pause_ms": 300}
        events = await models.play(step, profile=profile)
        assert text(events) == "abc" and isinstance(events[-1], Finish)


async def test_a_call_that_never_ends_is_ended(tmp_path: Path) -> None:
    async with running(tmp_path, call_seconds=0.5) as models:
        step = {"say": "x", "repeat": 100_000, "pause_ms": 50}
        error = await models.error(step, profile="openai")
        assert error.code is ErrorCode.TIMEOUT and "longer than" in error.message


async def test_a_provider_that_is_not_there(models: Models) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    model = {"provider": "openai", "name": "m", "secretRef": {"name": "key"}}
    models.add_profile("nowhere", {**model, "baseUrl": f"http://127.0.0.1:{port}/v1"}, key=secret())
    error = (await models.events(ask("hello"), "nowhere"))[-1]
    assert isinstance(error, ModelError)
    assert error.code is ErrorCode.UNAVAILABLE and error.retryable


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_redirects_are_not_followed(models: Models, provider: str) -> None:
    asked: list[bytes] = []

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        writer.write(
            f"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:{models.scripted_port}/v1/chat/completions\r\n"
            "Content-Length: 0\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(redirect, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        model = {"provider": provider, "name": "m", "secretRef": {"name": "key"}}
        models.add_profile("redirected", {**model, "baseUrl": f"http://127.0.0.1:{port}"}, key=secret())
        error = (await models.events(ask("hello"), "redirected"))[-1]
    assert isinstance(error, ModelError) and "redirect" in error.message
    assert len(asked) == 1 and not models.memory.requests
