"""uvicorn inside a process that has its own way to start and end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import structlog
import uvicorn

log = structlog.get_logger()


class _Server(uvicorn.Server):
    """Leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


async def serve_http(
    application: Any, host: str, port: int, grace_seconds: int, on_port: Callable[[int], None] | None = None
) -> None:
    """Serve an ASGI application until cancelled; then take no more connections and let running answers finish."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=1024)
    config = uvicorn.Config(
        application, http="httptools", ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False,
        proxy_headers=False,
        server_header=False, date_header=False, timeout_keep_alive=75, timeout_graceful_shutdown=grace_seconds,
    )  # fmt: skip
    server = _Server(config)
    log.info("http.started", host=host, port=listener.getsockname()[1])
    if on_port is not None:
        on_port(listener.getsockname()[1])
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await serving
        raise
    finally:
        listener.close()
