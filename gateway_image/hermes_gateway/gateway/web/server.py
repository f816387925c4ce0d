"""Runs an application on a socket until its task is cancelled, then lets calls in flight finish."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp

from hermes_contracts.errors import ErrorCode, HermesError


class _Server(uvicorn.Server):
    """Signals are the process's matter, not each listener's."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise HermesError(ErrorCode.NOT_CONFIGURED, f"cannot listen on {host}:{port}: {error.strerror}") from error
    return found


@asynccontextmanager
async def serve(app: ASGIApp, host: str, port: int, *, shutdown_seconds: int) -> AsyncIterator[int]:
    """Serve while the context lasts; yields the port. On leaving, waits `shutdown_seconds` for calls in flight."""
    listener = _listen(host, port)
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=True,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=shutdown_seconds,
        backlog=1024,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve([listener]))
    try:
        await server.listening.wait()
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        try:
            await task
        finally:
            listener.close()
