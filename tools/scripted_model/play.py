"""Sends a step: pauses, silence, cuts and all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from scripted_model import anthropic_format, bedrock_format, openai_format, responses_format
from scripted_model.asked import Asked, Format
from scripted_model.http_server import Connection
from scripted_model.memory import Seen
from scripted_model.pieces import encode, token_id
from scripted_model.provider_errors import ProviderError, error_body, error_headers, error_of
from scripted_model.script import Step

_BROKEN_EVENT = b'data: {"id": "broken", "choices": [{"delta": {"content": \n\n'
_BROKEN_BODY = b'{"id": "broken", "choices": [{"mess'
_HTML = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>\n"
_FLUSH = 64 * 1024
_STREAMS = {
    "openai": openai_format.stream,
    "responses": responses_format.stream,
    "anthropic": anthropic_format.stream,
    "bedrock": bedrock_format.stream,
}
_WHOLES = {
    "openai": openai_format.whole,
    "responses": responses_format.whole,
    "anthropic": anthropic_format.whole,
    "bedrock": bedrock_format.whole,
}
_REQUEST_ID: Mapping[Format, str] = {
    "openai": "x-request-id", "responses": "x-request-id", "anthropic": "request-id", "bedrock": "x-amzn-requestid"
}  # fmt: skip


class _Cut(Exception):
    """The script's number of bytes has been sent."""


class _Body:
    """Joins what may leave at once into few writes, and stops where the script cuts."""

    def __init__(self, connection: Connection, limit: int | None) -> None:
        self._connection = connection
        self._left = limit
        self._parts: list[bytes] = []
        self._size = 0

    async def add(self, data: bytes) -> None:
        cut = self._left is not None and len(data) >= self._left
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        self._parts.append(data)
        self._size += len(data)
        if cut:
            await self.flush()
            raise _Cut
        if self._size >= _FLUSH:
            await self.flush()

    async def flush(self) -> None:
        await self._connection.part(b"".join(self._parts))
        self._parts, self._size = [], 0


async def play(step: Step, asked: Asked, connection: Connection, seen: Seen) -> None:
    """Send a step's answer and note in `seen` how it went."""
    error = error_of(step, asked.format)
    seen.status = step.status or 200
    if step.hang_seconds and step.hang_at == "headers":
        await asyncio.sleep(step.hang_seconds)
    try:
        if error is not None and not step.error_in_stream:
            seen.status = error.status
            _send_error(error, step, asked, connection)
            seen.outcome = "error"
        elif step.malformed == "html":
            connection.send(seen.status, {"content-type": "text/html", **step.headers}, _HTML)
            seen.outcome = "error"
        elif asked.stream:
            await _stream(step, asked, error, connection)
            seen.outcome = "complete" if error is None and step.malformed is None else "error"
        else:
            await _whole(step, asked, connection)
            seen.outcome = "complete"
    except _Cut:
        seen.outcome = "cut"
        connection.close()


def _request_id(asked: Asked) -> dict[str, str]:
    return {_REQUEST_ID[asked.format]: token_id("req_", asked)}


def _send_error(error: ProviderError, step: Step, asked: Asked, connection: Connection) -> None:
    names: Mapping[str, str] = {
        "content-type": "application/json", **_request_id(asked), **error_headers(error, asked.format), **step.headers
    }  # fmt: skip
    connection.send(error.status, names, encode(error_body(error, asked.format, token_id("req_", asked))))


async def _stream(step: Step, asked: Asked, error: ProviderError | None, connection: Connection) -> None:
    bedrock = asked.format == "bedrock"
    content_type = bedrock_format.CONTENT_TYPE if bedrock else "text/event-stream; charset=utf-8"
    connection.start(
        step.status or 200, {"content-type": content_type, "cache-control": "no-cache", **_request_id(asked), **step.headers}
    )
    body = _Body(connection, step.cut_after_bytes)
    if step.hang_seconds and step.hang_at == "start":
        await asyncio.sleep(step.hang_seconds)
    pieces = 0
    for data, is_piece in _STREAMS[asked.format](step, asked, error):
        if is_piece:
            pieces += 1
            silence = (step.first_ms if pieces == 1 else step.pause_ms) / 1000
            if pieces == 2 and step.hang_seconds and step.hang_at == "middle":
                silence += step.hang_seconds
            if silence:
                await body.flush()
                await asyncio.sleep(silence)
            if pieces == 2 and step.malformed is not None:
                await body.add(bedrock_format.broken_event() if bedrock else _BROKEN_EVENT)
                break
        await body.add(data)
    await body.flush()
    connection.end()


async def _whole(step: Step, asked: Asked, connection: Connection) -> None:
    data = _BROKEN_BODY if step.malformed else _WHOLES[asked.format](step, asked)
    silence = step.first_ms / 1000 + (step.hang_seconds if step.hang_at != "headers" else 0)
    if silence:
        await asyncio.sleep(silence)
    headers = {"content-type": "application/json", **_request_id(asked), **step.headers}
    if step.cut_after_bytes is None:
        connection.send(step.status or 200, headers, data)
        return
    connection.start(step.status or 200, headers)
    await _Body(connection, step.cut_after_bytes).add(data)
    connection.end()
