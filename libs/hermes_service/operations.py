"""The operations listener of every process: `/metrics`, `/livez`, `/readyz`, on a port that is never exposed to people."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Check = Callable[[], str | None]
"""A named check: None when well, else one sentence that says what is wrong."""

_MAX_REQUEST = 8192


class Operations:
    """Health checks by name, answered as plain text; metrics in Prometheus' format."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._registry = registry
        self.live: dict[str, Check] = {}
        self.ready: dict[str, Check] = {}

    @asynccontextmanager
    async def serve(self, host: str, port: int) -> AsyncIterator[int]:
        """Listen while the context lasts; yields the port."""
        server = await asyncio.start_server(self._handle, host, port, limit=_MAX_REQUEST)
        async with server:
            yield server.sockets[0].getsockname()[1]

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5):
                head = await reader.readuntil(b"\r\n\r\n")
                status, kind, body = self._answer(head.split(b" ", 2)[1].split(b"?")[0].decode("latin-1"))
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
                    "Connection: close\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, IndexError):
            pass  # a probe that went away or speaks no HTTP gets no answer
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _answer(self, path: str) -> tuple[str, str, bytes]:
        if path == "/metrics":
            return "200 OK", CONTENT_TYPE_LATEST, generate_latest(self._registry)
        checks = {"/livez": self.live, "/readyz": self.ready}.get(path)
        if checks is None:
            return "404 Not Found", "text/plain", b"try /metrics, /livez or /readyz\n"
        return _report(checks)


def _report(checks: Mapping[str, Check]) -> tuple[str, str, bytes]:
    found = {name: check() for name, check in checks.items()}
    text = "".join(f"{name}: {problem or 'ok'}\n" for name, problem in found.items()) or "ok\n"
    bad = any(found.values())
    return ("503 Service Unavailable" if bad else "200 OK"), "text/plain; charset=utf-8", text.encode()
