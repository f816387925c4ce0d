"""`POST /v1/stream` and `GET /v1/model` as an ASGI application: admits, streams, and stops when the client goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any
from urllib.parse import parse_qs

import structlog
from pydantic import ValidationError

from hermes_contracts import PROTOCOL_VERSION
from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.errors import ErrorBody, ErrorCode, HermesError
from hermes_contracts.model_api import CONTENT_TYPE, MODEL_PATH, STREAM_PATH, ModelRequest, Purpose, SessionClaims
from hermes_gateway.models.metrics import ModelsMetrics
from hermes_gateway.models.service import ModelsService
from hermes_gateway.models.stream import relay
from hermes_gateway.models.tokens import TokenVerifier
from hermes_service.tracing import accept, span

log = structlog.get_logger()

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_STATUS = {
    ErrorCode.INVALID: 422,
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.TOO_LARGE: 413,
    ErrorCode.NOT_CONFIGURED: 409,
    ErrorCode.UNAVAILABLE: 503,
}
_STREAM_HEADERS = [
    (b"content-type", CONTENT_TYPE.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class _Gone(Exception):
    """The client closed the connection."""


class Endpoint:
    """The application."""

    def __init__(
        self,
        service: ModelsService,
        tokens: TokenVerifier,
        metrics: ModelsMetrics,
        *,
        max_body_bytes: int,
        heartbeat_seconds: float,
    ) -> None:
        self._service = service
        self._tokens = tokens
        self._metrics = metrics
        self._max_body_bytes = max_body_bytes
        self._heartbeat_seconds = heartbeat_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        try:
            if (scope["path"], scope["method"]) == (MODEL_PATH, "GET"):
                await _answer(send, 200, await self._info(scope, headers))
                return
            claims, profile, request = await self._admit(scope, headers, receive)
        except HermesError as error:
            self._metrics.refused.labels(error.code.value).inc()
            log.info("models.refused", code=error.code.value, reason=error.message)
            await _refuse(send, error.body())
        except _Gone:
            return
        else:
            with (
                span("model.call", accept(headers.get(b"traceparent")), sid=claims.sub),
                self._metrics.active.track_inprogress(),
            ):
                await self._stream(claims, profile, request, receive, send)

    async def _info(self, scope: Scope, headers: dict[bytes, str]) -> bytes:
        claims = self._tokens.verify(headers.get(b"authorization"))
        query = parse_qs(scope["query_string"].decode("ascii", "replace"))
        asked = query.get("purpose", [Purpose.TURN.value])[0]
        if asked not in list(Purpose):
            raise HermesError(ErrorCode.INVALID, f"purpose: expected one of {', '.join(Purpose)}")
        profile = await self._service.profile_of(claims)
        chosen = query.get("model", [""])[0]
        return self._service.info(claims, profile, Purpose(asked), chosen).model_dump_json().encode()

    async def _admit(
        self, scope: Scope, headers: dict[bytes, str], receive: Receive
    ) -> tuple[SessionClaims, ProfileSpec, ModelRequest]:
        if scope["path"] != STREAM_PATH or scope["method"] != "POST":
            raise HermesError(ErrorCode.NOT_FOUND, f"try POST {STREAM_PATH} or GET {MODEL_PATH}")
        claims = self._tokens.verify(headers.get(b"authorization"))
        body = await _read(receive, headers.get(b"content-length", ""), self._max_body_bytes)
        request = _parse(body)
        return claims, await self._service.profile_of(claims), request

    async def _stream(
        self, claims: SessionClaims, profile: ProfileSpec, request: ModelRequest, receive: Receive, send: Send
    ) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        ended = False

        async def write(data: bytes, *, last: bool) -> None:
            nonlocal ended
            ended = last
            await send({"type": "http.response.body", "body": data, "more_body": not last})

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            if not ended:
                raise _Gone

        try:
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(watch())
                events = self._service.events(claims, profile, request)
                await relay(events, write, heartbeat_seconds=self._heartbeat_seconds)
                watcher.cancel()
        except* _Gone:
            log.info("models.client_gone", sid=claims.sub, turn_id=request.turn_id)


async def _read(receive: Receive, length: str, limit: int) -> bytes:
    """Return the body. Raises HermesError TOO_LARGE, _Gone when the client left.

    A body somewhat too large is read to its end and dropped: a client that still writes would not see our answer.
    """
    if length.isdigit() and int(length) > 2 * limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        part = message.get("body", b"")
        size += len(part)
        if size <= limit:
            parts.append(part)
        more = message.get("more_body", False)
        if size > 2 * limit or (size > limit and not more):
            raise _too_large(limit)
        if not more:
            return b"".join(parts)


def _parse(body: bytes) -> ModelRequest:
    try:
        request = ModelRequest.model_validate_json(body)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False, include_context=False)[:3]
        where = "; ".join(f"{'.'.join(map(str, p['loc'])) or 'body'}: {p['msg']}" for p in problems)
        raise HermesError(ErrorCode.INVALID, f"the request is malformed: {where}"[:500]) from error
    if request.version not in (PROTOCOL_VERSION, PROTOCOL_VERSION - 1):
        raise HermesError(ErrorCode.INVALID, f"version: this service speaks {PROTOCOL_VERSION}, not {request.version}")
    return request


def _too_large(limit: int) -> HermesError:
    return HermesError(ErrorCode.TOO_LARGE, f"the request has more than {limit} bytes")


async def _refuse(send: Send, body: ErrorBody) -> None:
    extra = [(b"connection", b"close")] if body.code is ErrorCode.TOO_LARGE else []
    await _answer(send, _STATUS.get(body.code, 500), body.model_dump_json().encode(), extra)


async def _answer(send: Send, status: int, data: bytes, extra: Sequence[tuple[bytes, bytes]] = ()) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode()), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data, "more_body": False})
