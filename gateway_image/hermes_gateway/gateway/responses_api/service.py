"""What the Responses API does, apart from HTTP."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from hermes_contracts.access import ApiKeyRecord
from hermes_contracts.envelopes import Delta
from hermes_contracts.errors import HermesError
from hermes_contracts.store_api import GetTurnRequest, TurnState
from hermes_gateway.gateway.openai_api import reading as chat_reading
from hermes_gateway.gateway.openai_api.calls import CHANNEL, Call, CallHeaders, Calls, Gone, require_profile
from hermes_gateway.gateway.openai_api.streaming import AnswerText
from hermes_gateway.gateway.responses_api import reading
from hermes_gateway.gateway.responses_api.naming import named_client_id
from hermes_gateway.gateway.responses_api.protocol import (
    NamedBack,
    OutputMessage,
    OutputText,
    ResponseObject,
    ResponseProblem,
    ResponsesRequest,
    ResponseUsage,
    Status,
)  # fmt: skip
from hermes_gateway.gateway.responses_api.records import ResponseRecord, ResponseRecords
from hermes_gateway.gateway.responses_api.streaming import ResponseEvents
from hermes_gateway.gateway.turns import Answer, answer_of_turn
from hermes_gateway.gateway.web.errors import from_hermes

_FAILED = (TurnState.FAILED, TurnState.DEAD)


@dataclass(frozen=True)
class ResponseCall:
    """A response whose message is on the bus."""

    call: Call
    record: ResponseRecord
    stored: bool

    def show(self, answer: Answer | None, pending: Status = "in_progress") -> ResponseObject:
        """Show it, with its answer once there is one."""
        extension = self.call.extension(answer) if answer else None
        return render(self.record, answer, pending, stored=self.stored).model_copy(update={"hermes": extension})


class ResponsesService:
    """Handles responses."""

    def __init__(self, calls: Calls, records: ResponseRecords) -> None:
        self._calls = calls
        self._records = records

    async def begin(self, caller: ApiKeyRecord, request: ResponsesRequest, headers: CallHeaders) -> ResponseCall:
        """Put the message on the bus; whoever gets the call closes it. Raises ApiError or HermesError; nothing is published
        on any 4xx."""
        profile = require_profile(self._calls.profiles, caller, request.model)
        saying, items = reading.read_input(request)
        named = await named_client_id(self._calls, self._records, caller, request, headers.session)
        client_id = named or chat_reading.derive_client_id(request.user or headers.session_key, items)
        message = await self._calls.address(caller, profile, saying, client_id, headers.idempotency_key)
        record = ResponseRecord(
            id=reading.response_id(message.route.sid, message.update_id),
            owner=caller.owner,
            namespace=caller.namespace,
            model=request.model,
            sid=message.route.sid,
            client_id=client_id,
            update_id=message.update_id,
            created_at=int(time.time()),
            previous=request.previous_response_id,
            metadata=request.metadata or {},
            background=bool(request.background),
            user=request.user,
        )
        stored = request.store is not False
        if stored:
            # Before the message: an id that was given out can be asked for, whatever dies next.
            record = await self._records.keep(record)
        if request.background:
            return ResponseCall(await self._calls.post(message, headers.traceparent), record, stored)
        call = await self._calls.send(message, headers.traceparent, deltas=bool(request.stream))
        return ResponseCall(call, record, stored)

    async def answer(self, begun: ResponseCall, gone: Gone) -> ResponseObject:
        """Wait for the answer. Raises ApiError 504 when it takes too long, 499 when the client left."""
        if begun.record.background:
            return begun.show(begun.call.settled, "queued")
        turn = f"/api/sessions/{begun.record.sid}/turns/{begun.record.update_id}"
        where = f"/v1/responses/{begun.record.id}" if begun.stored else turn
        return begun.show(await self._calls.wait(begun.call, gone, where))

    async def get(self, caller: ApiKeyRecord, identity: str) -> ResponseObject:
        """Return a response as it is now. Raises ApiError 404."""
        record = await self._records.find(caller, identity, "response_id")
        turn = await self._calls.turn(
            GetTurnRequest(
                sid=record.sid, owner=record.owner, channel=CHANNEL, account=record.owner, update_id=record.update_id
            )
        )
        return render(record, answer_of_turn(turn), "in_progress" if turn.found else "queued", stored=True)

    async def delete(self, caller: ApiKeyRecord, identity: str) -> None:
        """Forget a response: its id means nothing any more. Its session keeps what was said. Raises ApiError 404."""
        await self._records.forget(await self._records.find(caller, identity, "response_id"))

    async def stream(self, begun: ResponseCall) -> AsyncGenerator[bytes, None]:
        """Give out the frames of a streamed response."""
        events, text, call = ResponseEvents(begun.record.id), AnswerText(), begun.call
        for piece in events.begin(begun.show(None)):
            yield piece
        frames = call.frames(
            self._calls.heartbeat_seconds,
            lambda delta: _progress(delta, text, events),
            lambda answer: _ending(begun, answer, text, events),
        )
        try:
            async with aclosing(frames):
                async for piece in frames:
                    yield piece
        except HermesError as error:
            for piece in events.error(from_hermes(error).detail()):
                yield piece


def render(record: ResponseRecord, answer: Answer | None, pending: Status, *, stored: bool) -> ResponseObject:
    """Show a response. A turn that failed is a failed response whose error says what the person would have read."""
    failed = answer is not None and answer.state in _FAILED
    output: list[OutputMessage] = []
    if answer is not None and not failed:
        output.append(OutputMessage(id=reading.message_item_id(record.id), content=[OutputText(text=answer.reply)]))
    status: Status = pending if answer is None else "failed" if failed else "completed"
    return ResponseObject(
        id=record.id,
        created_at=record.created_at,
        status=status,
        background=record.background,
        error=ResponseProblem(message=answer.reply) if answer is not None and failed else None,
        metadata=record.metadata,
        model=record.model,
        output=output,
        previous_response_id=record.previous,
        conversation=NamedBack(id=record.client_id),
        store=stored,
        usage=ResponseUsage.of(answer.usage) if answer is not None else None,
        user=record.user,
    )


def _progress(delta: Delta, text: AnswerText, events: ResponseEvents) -> list[bytes]:
    piece = text.take(delta)
    if delta.kind in ("tool_started", "tool_finished"):
        return events.tool(delta)
    if delta.kind in ("notice", "restart"):
        return events.remark(delta)
    return events.text(piece) if piece else []


def _ending(begun: ResponseCall, answer: Answer, text: AnswerText, events: ResponseEvents) -> list[bytes]:
    response = begun.show(answer)
    if response.status == "failed":
        return events.fail(response)
    missing = text.finish(answer.reply)
    return [*(events.text(missing) if missing else []), *events.complete(response)]
