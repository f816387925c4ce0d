"""Limits hold while a body is read, and a request that is refused is not read by anybody."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hermes_gateway.gateway.web.errors import ApiError
from hermes_gateway.gateway.web.limits import Guard


class Application:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.bodies.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def call(
    pieces: list[bytes], *, headers: list[tuple[bytes, bytes]] | None = None, refuse: bool = False, stall: bool = False
) -> tuple[int, dict[bytes, bytes], list[bytes]]:
    app = Application()

    def gate(_: Any) -> None:
        if refuse:
            raise ApiError(401, "no")

    guard = Guard(app, listener="test", max_bytes=10, timeout_seconds=0.05, gate=gate)
    waiting = list(pieces)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if stall and not waiting:
            await asyncio.Event().wait()
        piece = waiting.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(waiting) or stall}

    async def send(message: Any) -> None:
        sent.append(message)

    await guard({"type": "http", "path": "/", "headers": headers or []}, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"]), app.bodies


async def test_a_body_arrives_whole() -> None:
    assert (await call([b"12345", b"", b"67890"]))[::2] == (200, [b"1234567890"])


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"11")]])
async def test_one_byte_too_many(headers: list[tuple[bytes, bytes]]) -> None:
    status, _, bodies = await call([b"1234567890", b"1"], headers=headers)
    assert (status, bodies) == (413, [])


async def test_a_flood_is_not_read_to_its_end() -> None:
    status, headers, bodies = await call([b"x" * 10] * 100)
    assert (status, bodies) == (413, [])
    assert headers[b"connection"] == b"close"


async def test_a_body_that_does_not_come() -> None:
    status, _, bodies = await call([b"12"], stall=True)
    assert (status, bodies) == (408, [])


async def test_the_gate_comes_first() -> None:
    status, headers, bodies = await call([b"x"], refuse=True)
    assert (status, bodies) == (401, [])
    assert headers[b"www-authenticate"] == b"Bearer"
