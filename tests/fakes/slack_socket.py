"""Slack's side of Socket Mode, on a real WebSocket: envelopes go out, and again until somebody acknowledges them."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

APP_TOKEN = "xapp-1-A0APP-token-of-the-app"


@dataclass
class FakeSockets:
    """Connections of the app. Slack sends each envelope over one of them."""

    url: str = ""
    open: list[web.WebSocketResponse] = field(default_factory=list)
    opened: int = 0
    """Connections ever."""
    drop: int = 0
    """Acknowledgements to lose: Slack did not get them, and sends again."""
    retries: list[int] = field(default_factory=list)
    """`retry_attempt` of every envelope that went out."""
    _acks: dict[str, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)

    async def connect(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one connection."""
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": len(self.open) + 1})
        self.open.append(socket)
        self.opened += 1
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self._acknowledge(json.loads(message.data))
        finally:
            self.open.remove(socket)
        return socket

    def _acknowledge(self, ack: dict[str, Any]) -> None:
        if self.drop:
            self.drop -= 1
            return
        waiting = self._acks.get(ack["envelope_id"])
        if waiting is not None and not waiting.done():
            waiting.set_result(ack.get("payload") or {})

    async def deliver(self, kind: str, payload: dict[str, Any], *, patience_seconds: float = 1.0) -> dict[str, Any]:
        """Send an envelope until it is acknowledged, as Slack does; returns what came with that."""
        for attempt in range(20):
            while not self.open:
                await asyncio.sleep(0.02)
            identity = str(uuid.uuid4())
            self._acks[identity] = asyncio.get_running_loop().create_future()
            envelope = {
                "envelope_id": identity, "type": kind, "payload": payload, "accepts_response_payload": kind != "events_api",
                "retry_attempt": attempt, "retry_reason": "timeout" if attempt else "",
            }  # fmt: skip
            self.retries.append(attempt)
            try:
                await self.open[-1].send_json(envelope)
                async with asyncio.timeout(patience_seconds):
                    return await self._acks[identity]
            except (TimeoutError, ConnectionError):
                continue
        raise AssertionError("nobody acknowledged it")

    async def refresh(self) -> None:
        """Ask the app to connect anew, as Slack does every few hours."""
        for socket in list(self.open):
            await socket.send_json({"type": "disconnect", "reason": "refresh_requested"})

    async def cut(self) -> None:
        """Close every connection without a word."""
        for socket in list(self.open):
            await socket.close()


@asynccontextmanager
async def fake_sockets() -> AsyncIterator[FakeSockets]:
    """Run the server."""
    sockets = FakeSockets()
    app = web.Application()
    app.router.add_get("/link", sockets.connect)
    runner = web.AppRunner(app, shutdown_timeout=0.5)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    sockets.url = f"ws://{host}:{port}/link?ticket=t"
    try:
        yield sockets
    finally:
        await runner.cleanup()
