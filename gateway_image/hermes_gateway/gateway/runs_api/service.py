"""What the runs API does, apart from HTTP. A run is a turn, and a small record of what its id means."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from hermes_contracts.access import ApiKeyRecord
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import RoutingKey
from hermes_contracts.store_api import CommandKind
from hermes_gateway.gateway.approvals.desk import AnswerDesk
from hermes_gateway.gateway.ingest import message_for, route_to
from hermes_gateway.gateway.openai_api import reading as chat_reading
from hermes_gateway.gateway.openai_api.calls import CHANNEL, Call, CallHeaders, Calls, require_profile
from hermes_gateway.gateway.responses_api import reading
from hermes_gateway.gateway.responses_api.naming import named_client_id
from hermes_gateway.gateway.responses_api.protocol import ResponsesRequest
from hermes_gateway.gateway.responses_api.records import ResponseRecord, ResponseRecords
from hermes_gateway.gateway.runs_api.approving import RunApproval, RunApproved, RunQuestions
from hermes_gateway.gateway.runs_api.events import RunEvents
from hermes_gateway.gateway.runs_api.protocol import Run, RunRequest, RunTold, RunUsage
from hermes_gateway.gateway.runs_api.standing import SILENCE
from hermes_gateway.gateway.runs_api.watching import RunWatch
from hermes_gateway.gateway.sessions_api.service import SessionsService
from hermes_gateway.gateway.turns import Turns, answer_of_turn
from hermes_gateway.gateway.web.errors import ApiError, from_hermes


@dataclass(frozen=True)
class StartedRun:
    """A run whose message is on the bus. `repeated`: its Idempotency-Key was used before, for the same."""

    record: ResponseRecord
    repeated: bool


class RunsService:
    """Handles runs. Every look-up is by owner and id, and within the key's namespace and Profiles."""

    def __init__(
        self,
        calls: Calls,
        turns: Turns,
        sessions: SessionsService,
        responses: ResponseRecords,
        records: ResponseRecords,
        desk: AnswerDesk,
    ) -> None:
        self._calls = calls
        self._turns = turns
        self._sessions = sessions
        self._responses = responses
        self._records = records
        self._questions = RunQuestions(calls, desk)

    async def start(self, caller: ApiKeyRecord, request: RunRequest, headers: CallHeaders) -> StartedRun:
        """Put a run's message on the bus. Raises ApiError or HermesError; nothing is published on any 4xx."""
        model = self.model_of(caller, request.model)
        profile = require_profile(self._calls.profiles, caller, model)
        if request.conversation_history:
            why = "the agent keeps its conversations itself: name one with session_id"
            raise chat_reading.invalid("conversation_history", why)
        asked = ResponsesRequest(
            model=model,
            input=request.input,
            instructions=request.instructions,
            previous_response_id=request.previous_response_id,
            conversation=request.session_id,
        )
        saying, _ = reading.read_input(asked)
        client_id = await self._client_id(caller, asked, headers)
        message = await self._calls.address(caller, profile, saying, client_id, headers.idempotency_key)
        record = ResponseRecord(
            id=_run_id(message.route.sid, message.update_id),
            owner=caller.owner,
            namespace=caller.namespace,
            model=model,
            sid=message.route.sid,
            client_id=client_id,
            update_id=message.update_id,
            created_at=int(time.time()),
        )
        # Before the message: an id that was given out can be asked for, whatever dies next.
        record = await self._records.keep(record)
        await self._calls.post(message, headers.traceparent)
        return StartedRun(record, message.repeated)

    def model_of(self, caller: ApiKeyRecord, named: str | None) -> str:
        """Return the Profile of a call. Raises ApiError 400 when it must be named."""
        if named is None and len(caller.profiles) > 1:
            raise chat_reading.invalid("model", f"this key has several: name one of {', '.join(caller.profiles)}")
        return named or caller.profiles[0]

    async def get(self, caller: ApiKeyRecord, identity: str) -> Run:
        """Return a run as it is now. Raises ApiError 404."""
        record = await self._records.find(caller, identity, "run_id")
        standing = await self._questions.standing(record)
        status, answer = standing.status, standing.answer
        return Run(
            run_id=record.id,
            status=status,
            created_at=record.created_at,
            model=record.model,
            session_id=record.client_id,
            session=record.sid,
            output=answer.reply if answer is not None and status != "failed" else None,
            error=(SILENCE if standing.silenced else answer.reply) if answer is not None and status == "failed" else None,
            approvals=list(standing.questions.waiting),
            usage=RunUsage.of(standing.usage) if answer is not None else None,
        )

    async def approve(self, caller: ApiKeyRecord, identity: str, body: RunApproval, trace: str) -> RunApproved:
        """Take an answer to what a run asks. Raises ApiError 403, 404 or 409."""
        record = await self._records.find(caller, identity, "run_id")
        return await self._questions.answer(caller, record, body, trace)

    async def watch(self, caller: ApiKeyRecord, identity: str) -> tuple[ResponseRecord, Call]:
        """Begin to listen to a run; whoever gets the call closes it. Raises ApiError 404."""
        record = await self._records.find(caller, identity, "run_id")
        require_profile(self._calls.profiles, caller, record.model)
        return record, await self._follow(record, record.update_id)

    async def _follow(self, record: ResponseRecord, update: str) -> Call:
        profile = self._calls.profiles.get(record.namespace, record.model)
        if profile is None:
            raise HermesError(ErrorCode.NOT_FOUND, f"the Profile {record.model!r} is not there any more")
        route = route_to(profile, record.owner, RoutingKey(channel=CHANNEL, account=record.owner, chat=record.client_id))
        inbound = message_for(route, update_id=update, text="").model_copy(update={"sid": record.sid})
        watch = await self._turns.follow(inbound)
        try:
            settled = answer_of_turn(await self._questions.turn(record, update))
        except BaseException:
            await watch.close()
            raise
        return Call(route, inbound, watch, settled)

    async def frames(self, record: ResponseRecord, call: Call) -> AsyncGenerator[bytes, None]:
        """Give out a run's events until it has ended."""
        watch = RunWatch(record, self._questions, self._follow, self._calls.heartbeat_seconds)
        try:
            async with aclosing(watch.frames(call)) as frames:
                async for piece in frames:
                    yield piece
        except HermesError as error:
            yield RunEvents(record.id).error(from_hermes(error).detail())

    async def stop(self, caller: ApiKeyRecord, identity: str, key: str | None) -> RunTold:
        """Stop a run. Raises ApiError 404, or 409 when it does not run."""
        record = await self._running(caller, identity)
        answer = await self._sessions.command(caller, record.sid, CommandKind.STOP, {}, key, None)
        return RunTold(run_id=record.id, status="stopping", result=answer.result)

    async def steer(self, caller: ApiKeyRecord, identity: str, text: str, key: str | None) -> RunTold:
        """Tell a run something. Raises ApiError 404, or 409 when it does not run."""
        record = await self._running(caller, identity)
        answer = await self._sessions.command(caller, record.sid, CommandKind.STEER, {"text": text}, key, None)
        return RunTold(run_id=record.id, status="steered", result=answer.result)

    async def _running(self, caller: ApiKeyRecord, identity: str) -> ResponseRecord:
        """Return a run's record, if the turn that a session's commands reach is this run's."""
        record = await self._records.find(caller, identity, "run_id")
        status = (await self._questions.standing(record)).status
        if status == "running":
            return record
        waits = "no agent has taken this run yet; try again when its status is `running`"
        asks = "this run waits for an answer: give it, or say no, with POST /v1/runs/{run_id}/approval"
        why = {"queued": waits, "waiting_for_approval": asks}.get(status, "this run has ended")
        raise ApiError(409, why, code="run_not_active", final=True)

    async def _client_id(self, caller: ApiKeyRecord, asked: ResponsesRequest, headers: CallHeaders) -> str:
        named = await named_client_id(self._calls, self._responses, caller, asked, headers.session, field="session_id")
        if named is not None:
            return named
        if headers.idempotency_key is not None:
            # The same key must find the same session.
            return "run-" + chat_reading.short_hash(headers.idempotency_key)
        return chat_reading.new_client_id()


def _run_id(sid: str, update_id: str) -> str:
    return "run_" + chat_reading.short_hash(f"{sid}/{update_id}")
