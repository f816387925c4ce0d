"""The whole product as processes, one installation a module, with a receiver for the answers to webhooks."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest_asyncio

from hermes_contracts.access import WebhookRoute
from local_stack.processes import free_port
from local_stack.runner import LocalRunner
from local_stack.stack import NAMESPACE, Stack, running_stack, stack_folder

WEBHOOK_SECRET = "a-secret-of-this-test-only"


@dataclass
class Receiver:
    """Somebody's server that gets answers: keeps what came, refuses as often as it is told to."""

    port: int
    received: list[dict[str, Any]] = field(default_factory=list)
    refuse: int = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length"))
        body = await reader.readexactly(length)
        if self.refuse:
            self.refuse -= 1
            writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        else:
            self.received.append(json.loads(body))
            writer.write(b"HTTP/1.1 204 Fine\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@dataclass
class World:
    stack: Stack
    runner: LocalRunner
    receiver: Receiver

    async def say(self, session: str, text: str, *, key: str | None = None) -> str:
        """Send a message and return its answer. With a key it is sent until it is answered: one turn all the same."""
        headers = {"Authorization": f"Bearer {self.stack.api_key}", "X-Hermes-Session-Id": session}
        body = {"model": "default", "messages": [{"role": "user", "content": text}]}
        if key:
            headers["Idempotency-Key"] = key
        async with asyncio.timeout(120):
            while True:
                try:
                    async with httpx.AsyncClient(base_url=self.stack.api_url, timeout=100) as client:
                        response = await client.post("/v1/chat/completions", json=body, headers=headers)
                    if response.status_code == 200:
                        return str(response.json()["choices"][0]["message"]["content"])
                    assert key, response.text
                    assert response.status_code in (503, 504), response.text
                except httpx.TransportError:
                    assert key
                await asyncio.sleep(0.1)

    async def api(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.stack.api_key}"}
        async with httpx.AsyncClient(base_url=self.stack.api_url, timeout=60, headers=headers) as client:
            return await client.request(method, path, **arguments)

    async def session(self, chat: str) -> dict[str, Any]:
        """Return a session as the API shows it."""
        found = (await self.api("GET", "/api/sessions")).json()["data"]
        return next(s for s in found if chat in json.dumps(s))

    async def transcript(self, chat: str) -> list[dict[str, Any]]:
        sid = (await self.session(chat))["id"]
        messages: list[dict[str, Any]] = []
        while True:
            after = messages[-1]["sequence"] if messages else 0
            page = (await self.api("GET", f"/api/sessions/{sid}/messages?after={after}")).json()
            messages += page["data"]
            if not page["has_more"]:
                return messages

    async def workspace(self, chat: str) -> Path:
        return self.stack.folder / "sessions" / (await self.session(chat))["id"] / "workspace"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def world() -> AsyncIterator[World]:
    receiver = Receiver(free_port())
    server = await asyncio.start_server(receiver.handle, "127.0.0.1", receiver.port)
    route = WebhookRoute(
        name="ci",
        namespace=NAMESPACE,
        profile="default",
        secret=WEBHOOK_SECRET,
        reply_url=f"http://127.0.0.1:{receiver.port}/answers",
    )
    with stack_folder() as folder:
        async with server, running_stack(folder, webhooks=(route,)) as stack:
            runner = LocalRunner(stack)
            task = asyncio.create_task(runner.run())
            try:
                yield World(stack, runner, receiver)
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
