"""Bounds on what a client sends, enforced while it is read; and a count of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermes_gateway.gateway import metrics
from hermes_gateway.gateway.web.errors import ApiError

_DISCARD_SECONDS = 2.0

Gate = Callable[[Scope], None]
"""Looks at a request before its body is read; raises ApiError to refuse it."""


class BodyBudget:
    """Bytes of bodies in flight, by caller and together: neither one key nor all of them may fill the memory."""

    def __init__(self, per_caller: int, together: int) -> None:
        self._per_caller = per_caller
        self._together = together
        self._held: dict[str, int] = {}
        self._all = 0

    def charge(self, caller: str, size: int) -> None:
        """Count bytes for a caller. Raises ApiError 429 when the caller has too many in flight, 503 when all have."""
        held = self._held.get(caller, 0) + size
        if held > self._per_caller:
            mine = f"calls of this key hold more than {self._per_caller} bytes of request bodies: wait for their answers"
            raise ApiError(429, mine, code="too_many_bytes_in_flight", retry_after_seconds=2)
        if self._all + size > self._together:
            busy = "too many large calls are in flight here; try again"
            raise ApiError(503, busy, code="too_many_bytes_in_flight", retry_after_seconds=2)
        self._held[caller] = held
        self._all += size

    def release(self, caller: str, size: int) -> None:
        """Give counted bytes back."""
        self._all -= size
        left = self._held.get(caller, 0) - size
        if left > 0:
            self._held[caller] = left
        else:
            self._held.pop(caller, None)


@dataclass
class _Charge:
    """What one request has been charged for its body."""

    budget: BodyBudget | None
    caller: str
    size: int = 0

    def add(self, size: int) -> None:
        if self.budget is not None and size:
            self.budget.charge(self.caller, size)
            self.size += size

    def release(self) -> None:
        if self.budget is not None and self.size:
            self.budget.release(self.caller, self.size)
            self.size = 0


class Guard:
    """Lets a request pass the gate, then reads its whole body within size and time, then hands it on.

    Refusing before reading keeps people without a key from making us parse what they send.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        listener: str,
        max_bytes: int,
        timeout_seconds: float,
        gate: Gate,
        budget: BodyBudget | None = None,
    ) -> None:
        self._app = app
        self._listener = listener
        self._max_bytes = max_bytes
        self._timeout_seconds = timeout_seconds
        self._gate = gate
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                metrics.REQUESTS.labels(self._listener, f"{message['status'] // 100}xx").inc()
            await send(message)

        charge = _Charge(self._budget, "")
        try:
            body = await self._admit(scope, receive, counting, charge)
            if body is not None:
                # Charged for until the answer is out: the framework holds the body as long as its handler runs.
                await self._app(scope, _replay(body, receive), counting)
        finally:
            charge.release()

    async def _admit(self, scope: Scope, receive: Receive, send: Send, charge: _Charge) -> bytes | None:
        """Return the body of a request that may pass; None when it was refused, which is answered, or the client left."""
        incoming = _Incoming(receive)
        try:
            self._gate(scope)
            # Requests that need no key share one account.
            charge.caller = getattr(scope.get("state", {}).get("caller"), "id", "")
            return await self._read(scope, incoming, charge)
        except ApiError as error:
            charge.release()
            whole = await self._discard(incoming)
            await error.response({} if whole else {"Connection": "close"})(scope, receive, send)
            return None

    async def _read(self, scope: Scope, incoming: _Incoming, charge: _Charge) -> bytes | None:
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
                    charge.add(len(piece))
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
