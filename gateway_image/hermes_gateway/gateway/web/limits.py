"""Bounds on what a client sends, enforced while it is read; and a count of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermes_gateway.gateway import metrics
from hermes_gateway.gateway.web.errors import ApiError

_DISCARD_SECONDS = 2.0

Gate = Callable[[Scope], None]
"""Looks at a request before its body is read; raises ApiError to refuse it."""


class Guard:
    """Lets a request pass the gate, then reads its whole body within size and time, then hands it on.

    Refusing before reading keeps people without a key from making us parse what they send.
    """

    def __init__(self, app: ASGIApp, *, listener: str, max_bytes: int, timeout_seconds: float, gate: Gate) -> None:
        self._app = app
        self._listener = listener
        self._max_bytes = max_bytes
        self._timeout_seconds = timeout_seconds
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                metrics.REQUESTS.labels(self._listener, f"{message['status'] // 100}xx").inc()
            await send(message)

        incoming = _Incoming(receive)
        try:
            self._gate(scope)
            body = await self._read(scope, incoming)
        except ApiError as error:
            whole = await self._discard(incoming)
            await error.response({} if whole else {"Connection": "close"})(scope, receive, counting)
            return
        if body is not None:
            await self._app(scope, _replay(body, receive), counting)

    async def _read(self, scope: Scope, incoming: _Incoming) -> bytes | None:
        """Return the body; None when the client went away."""
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > self._max_bytes:
                raise self._too_large()
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._timeout_seconds):
                while not incoming.ended:
                    piece = await incoming.piece()
                    size += len(piece)
                    if size > self._max_bytes:
                        raise self._too_large()
                    pieces.append(piece)
        except TimeoutError:
            seconds = self._timeout_seconds
            raise ApiError(408, f"the request body did not arrive within {seconds:g} s", code="request_timeout") from None
        return None if incoming.gone else b"".join(pieces)

    async def _discard(self, incoming: _Incoming) -> bool:
        """Read on for a moment: a connection closed while the client writes is reset, and our answer lost with it.

        Returns whether the body was read to its end, so that the connection can be used again.
        """
        left = self._max_bytes
        try:
            async with asyncio.timeout(_DISCARD_SECONDS):
                while left > 0 and not incoming.ended:
                    left -= len(await incoming.piece())
        except TimeoutError:
            pass
        return incoming.ended

    def _too_large(self) -> ApiError:
        return ApiError(413, f"the request body is larger than {self._max_bytes} bytes", code="request_too_large")


class _Incoming:
    """A body on its way in: pieces, until it has `ended` or the client is `gone`, which is an end, too."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.ended = False
        self.gone = False

    async def piece(self) -> bytes:
        """Return the next piece."""
        message = await self._receive()
        self.gone = message["type"] == "http.disconnect"
        self.ended = self.gone or not message.get("more_body", False)
        found: bytes = message.get("body", b"")
        return found


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def header(scope: Scope, name: bytes) -> str | None:
    """Return a request header; None when it is missing or sent twice."""
    found = [value for key, value in scope["headers"] if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else None
