"""HTTP/1.1 over asyncio, as little as this needs: a handler may be silent, cut a body anywhere, and sees clients leave."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import cast

import httptools

MAX_BODY = 64 * 1024 * 1024
HIGH_WATER = 256 * 1024


@dataclass
class Request:
    """A request, whole."""

    method: str = ""
    path: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


Handler = Callable[[Request, "Connection"], Awaitable[None]]


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Overloaded" if status == 529 else "Unknown"


class Connection(asyncio.Protocol):
    """One connection: requests are handled one after the other; the running one is cancelled when the client goes."""

    def __init__(self, handler: Handler, open_connections: set[Connection]) -> None:
        self._handler = handler
        self._open = open_connections
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiting: deque[Request] = deque()
        self._writable = asyncio.Event()
        self.peer = ""
        self._writable.set()
        self._parser = httptools.HttpRequestParser(self)
        self._request = Request()
        self._parts: list[bytes] = []
        self._size = 0

    # ---- asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports are no subclass
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        self.peer = ":".join(map(str, (transport.get_extra_info("peername") or ("",))[:2]))
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio names it)
        """Stop what runs for a client that is gone."""
        self._open.discard(self)
        self._transport = None
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Feed the parser."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()

    def pause_writing(self) -> None:
        """Make `drain` wait."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let `drain` go on."""
        self._writable.set()

    # ---- the parser's callbacks

    def on_message_begin(self) -> None:
        """Start a request."""
        self._request, self._parts, self._size = Request(), [], 0

    def on_url(self, url: bytes) -> None:
        """Take the path without its query."""
        self._request.path += url.split(b"?")[0].decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._request.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._size += len(body)
        if self._size > MAX_BODY:
            self.send(413, {"content-type": "text/plain"}, b"body too large\n")
            self.close()
            return
        self._parts.append(body)

    def on_message_complete(self) -> None:
        """Handle the request, or queue it behind the running one."""
        self._request.method = self._parser.get_method().decode("latin-1")
        self._request.body = b"".join(self._parts)
        self._waiting.append(self._request)
        if self._task is None:
            self._next()

    def _next(self) -> None:
        self._task = None
        if self._waiting and self._transport is not None:
            self._task = asyncio.ensure_future(self._handler(self._waiting.popleft(), self))
            self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.close()
            raise task.exception() or RuntimeError  # reaches the loop's handler, which reports it
        self._next()

    # ---- what handlers call

    def send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a whole answer."""
        self.write(self._head(status, {**headers, "content-length": str(len(body))}) + body)

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head of an answer whose body follows in parts."""
        self.write(self._head(status, {**headers, "transfer-encoding": "chunked"}))

    def send_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head of an answer whose body is what `write` sends until the connection is closed."""
        self.write(self._head(status, headers))

    async def part(self, data: bytes) -> None:
        """Send a part of the body, waiting for a slow client."""
        if data:
            self.write(b"%x\r\n%b\r\n" % (len(data), data))
            await self._writable.wait()

    def end(self) -> None:
        """Finish the body."""
        self.write(b"0\r\n\r\n")

    def close(self) -> None:
        """Close after what was written; without an `end` the client sees a cut body."""
        if self._transport is not None:
            self._transport.close()

    def _head(self, status: int, headers: Mapping[str, str]) -> bytes:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"HTTP/1.1 {status} {_reason(status)}\r\n{lines}\r\n".encode("latin-1")

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        if self._transport is not None:
            self._transport.write(data)


@asynccontextmanager
async def listen(handler: Handler, host: str, port: int) -> AsyncIterator[int]:
    """Serve while the context lasts; yields the port. Port 0 takes any free one."""
    connections: set[Connection] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(handler, connections), host, port, backlog=1024)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for connection in list(connections):
            connection.close()
        await server.wait_closed()
