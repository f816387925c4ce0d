"""A chat call: its message, and the answer whole or streamed."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from hermes_contracts.access import ApiKeyRecord
from hermes_contracts.envelopes import Delta
from hermes_contracts.errors import HermesError
from hermes_contracts.projection import ProfileProjection
from hermes_gateway.gateway.openai_api import protocol, reading
from hermes_gateway.gateway.openai_api.calls import Call, CallHeaders, Calls, Gone, require_profile
from hermes_gateway.gateway.openai_api.protocol import ChatRequest
from hermes_gateway.gateway.openai_api.streaming import AnswerText, Chunks
from hermes_gateway.gateway.turns import Answer
from hermes_gateway.gateway.web.errors import from_hermes
from hermes_gateway.gateway.web.sse import DONE, frame


@dataclass(frozen=True)
class ChatCall:
    """A chat call that is on its way, without the history it came with."""

    call: Call
    model: str
    stream: bool
    include_usage: bool

    @property
    def id(self) -> str:
        """The completion's id."""
        return reading.completion_id(self.call.route.sid, self.call.inbound.update_id)


class ChatService:
    """Handles chat calls."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def models(self, caller: ApiKeyRecord) -> list[ProfileProjection]:
        """Return the Profiles a key may use, those that are not ready too."""
        return self._calls.profiles.existing(caller.namespace, caller.profiles)

    async def begin(self, caller: ApiKeyRecord, request: ChatRequest, headers: CallHeaders) -> ChatCall:
        """Put the call's message on the bus; whoever gets the call closes it. Raises ApiError or HermesError; nothing is
        published on any 4xx."""
        profile = require_profile(self._calls.profiles, caller, request.model)
        saying = reading.read_request(request)
        if headers.session is not None:
            client_id = await self._calls.session_named(caller, request.model, headers.session)
        else:
            client_id = reading.derive_client_id(
                request.user or headers.session_key, [(m.role, m.content) for m in request.messages]
            )
        message = await self._calls.address(caller, profile, saying, client_id, headers.idempotency_key)
        call = await self._calls.send(message, headers.traceparent, deltas=bool(request.stream))
        options = request.stream_options
        usage = options is not None and options.include_usage
        return ChatCall(call, request.model, stream=bool(request.stream), include_usage=usage)

    async def answer(self, chat: ChatCall, gone: Gone) -> protocol.ChatCompletion:
        """Wait for the answer. Raises ApiError 504 when it takes too long, 499 when the client left."""
        call = chat.call
        where = f"/api/sessions/{call.route.sid}/turns/{call.inbound.update_id}"
        answer = await self._calls.wait(call, gone, where)
        return protocol.ChatCompletion(
            id=chat.id,
            created=int(time.time()),
            model=chat.model,
            choices=[protocol.Choice(message=protocol.AnswerMessage(content=answer.reply))],
            usage=protocol.CompletionUsage.of(answer.usage),
            hermes=call.extension(answer),
        )

    async def stream(self, chat: ChatCall) -> AsyncGenerator[bytes, None]:
        """Give out the frames of a streamed answer."""
        chunks = Chunks(chat.id, chat.model, int(time.time()), chat.include_usage)
        text = AnswerText()
        yield chunks.role()
        call = chat.call
        frames = call.frames(
            self._calls.heartbeat_seconds,
            lambda delta: _progress(delta, text, chunks),
            lambda answer: _ending(call, answer, text, chunks),
        )
        try:
            async with aclosing(frames):
                async for piece in frames:
                    yield piece
        except HermesError as error:
            yield frame({"error": from_hermes(error).detail().model_dump()})
            yield DONE


def _progress(delta: Delta, text: AnswerText, chunks: Chunks) -> list[bytes]:
    piece = text.take(delta)
    if delta.kind in ("tool_started", "tool_finished"):
        return [chunks.tool(delta)]
    if delta.kind in ("notice", "restart"):
        return [chunks.remark(delta)]
    return [chunks.text(piece)] if piece else []


def _ending(call: Call, answer: Answer, text: AnswerText, chunks: Chunks) -> list[bytes]:
    missing = text.finish(answer.reply)
    pieces = [chunks.text(missing)] if missing else []
    return [*pieces, *chunks.last(call.extension(answer), answer.usage), DONE]
