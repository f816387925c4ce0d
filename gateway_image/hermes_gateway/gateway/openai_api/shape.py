"""What calls of OpenAI's protocols share as HTTP: the headers they come with, and the answer whole or streamed."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Header, Response
from pydantic import BaseModel

from hermes_gateway.gateway.openai_api.calls import Call, CallHeaders
from hermes_gateway.gateway.openai_api.reading import SESSION_HEADER, SESSION_KEY_HEADER, invalid
from hermes_gateway.gateway.web.callers import IdempotencyKey, Problem, Trace, problems
from hermes_gateway.gateway.web.sse import EventStream
from hermes_service import tracing

_SESSION_KEY = re.compile(r"[\x21-\x7e]{1,256}")

ANSWERS: Problem = {
    **problems(404, 409, 413, 429, 503, 504),
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "The answer"},
}


async def _headers(
    idempotency_key: IdempotencyKey = None,
    session: Annotated[str | None, Header(alias=SESSION_HEADER, description="Conversation to continue")] = None,
    session_key: Annotated[
        str | None, Header(alias=SESSION_KEY_HEADER, description="Tells the people behind one key apart, as `user` does")
    ] = None,
    traceparent: Trace = None,
) -> CallHeaders:
    if session_key is not None and not _SESSION_KEY.fullmatch(session_key):
        raise invalid(SESSION_KEY_HEADER, "use 1 to 256 visible ASCII characters")
    return CallHeaders(session, idempotency_key, tracing.accept(traceparent), session_key)


CallHeadersOf = Annotated[CallHeaders, Depends(_headers)]
"""The headers of a call, as a handler's parameter."""


async def give(
    call: Call,
    headers: CallHeaders,
    stream: AsyncGenerator[bytes, None] | None,
    answer: Callable[[], Awaitable[BaseModel]],
) -> Response:
    """Answer a call: with the stream, or with what `answer` returns. The call is closed afterwards in either case."""
    told = headers.answer(call.client_id, call.route.sid, call.inbound.update_id)
    if stream is not None:
        return EventStream(stream, close=call.close, headers=told)
    try:
        body = await answer()
    finally:
        await call.close()
    return Response(body.model_dump_json(), media_type="application/json", headers=told)
