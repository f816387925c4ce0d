"""A chat call, from the request to the answer: which session, publish, wait or stream."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, cast

from hermes_contracts.access import ApiKeyRecord
from hermes_contracts.envelopes import Delta, Inbound, Route
from hermes_contracts.errors import HermesError
from hermes_contracts.names import RoutingKey
from hermes_contracts.projection import ProfileProjection
from hermes_contracts.store_api import GET_SESSION, GetTurnRequest, OwnedSessionRequest
from hermes_gateway.gateway.idempotency import IdempotencyKeys, fingerprint, parse_update_id
from hermes_gateway.gateway.ingest import message_for, route_to
from hermes_gateway.gateway.openai_api import protocol, reading
from hermes_gateway.gateway.openai_api.protocol import ChatRequest, HermesExtension
from hermes_gateway.gateway.openai_api.streaming import AnswerText, Chunks
from hermes_gateway.gateway.profiles import ProfileCache
from hermes_gateway.gateway.turns import Answer, GatewayLeaves, Tick, Turns, Watch, answer_of_turn
from hermes_gateway.gateway.web.errors import ApiError, from_hermes
from hermes_gateway.gateway.web.sse import DONE, HEARTBEAT, frame
from hermes_service.rpc import StoreClient

CHANNEL = "api"

Gone = Callable[[], Awaitable[bool]]
"""Tells whether the client has left."""


@dataclass(frozen=True)
class CallHeaders:
    """The headers of a call that matter here."""

    session: str | None
    idempotency_key: str | None
    traceparent: str


@dataclass(frozen=True)
class Call:
    """A message that is on its way: `watch` follows its turn, or `settled` is the answer it had before."""

    request: ChatRequest
    route: Route
    inbound: Inbound
    watch: Watch | None
    settled: Answer | None = None

    @property
    def client_id(self) -> str:
        """The conversation's id as the client may send it again."""
        return self.route.key.chat

    def extension(self, answer: Answer) -> HermesExtension:
        """Say how the turn ended."""
        outcome = cast('Literal["done", "failed", "dead", "merged"]', str(answer.state))
        return HermesExtension(
            session=self.route.sid,
            message_id=self.inbound.update_id,
            turn=answer.turn_id,
            outcome=outcome,
            reason=answer.reason,
        )


def require_profile(profiles: ProfileCache, caller: ApiKeyRecord, name: str) -> ProfileProjection:
    """Return a Profile the key may use. Raises ApiError 403, 404 or 503."""
    if not profiles.synced:
        raise ApiError(503, "the gateway is starting", code="unavailable", retry_after_seconds=2)
    profile = profiles.get(caller.namespace, name)
    if profile is not None and name not in caller.profiles:
        raise ApiError(403, f"the API key {caller.id} may not use {name!r}", code="model_not_allowed", param="model")
    if profile is None:
        raise ApiError(404, f"the model {name!r} does not exist", code="model_not_found", param="model")
    if not profile.ready:
        not_ready = f"the model {name!r} is not ready: {profile.message}"
        raise ApiError(503, not_ready, code="model_not_ready", param="model", retry_after_seconds=5)
    return profile


class ChatService:
    """Handles chat calls."""

    def __init__(
        self,
        profiles: ProfileCache,
        turns: Turns,
        keys: IdempotencyKeys,
        store: StoreClient,
        *,
        answer_timeout_seconds: float,
        heartbeat_seconds: float,
    ) -> None:
        self._profiles = profiles
        self._turns = turns
        self._keys = keys
        self._store = store
        self._answer_timeout_seconds = answer_timeout_seconds
        self._heartbeat_seconds = heartbeat_seconds

    def models(self, caller: ApiKeyRecord) -> list[ProfileProjection]:
        """Return the Profiles a key may use, those that are not ready too."""
        return self._profiles.existing(caller.namespace, caller.profiles)

    async def begin(self, caller: ApiKeyRecord, request: ChatRequest, headers: CallHeaders) -> Call:
        """Put the call's message on the bus. Whoever gets the Call closes its watch. Raises ApiError or HermesError; nothing
        is published on any 4xx."""
        profile = require_profile(self._profiles, caller, request.model)
        saying = reading.read_request(request)
        client_id = await self._client_id(caller, request, headers)
        route = route_to(profile, caller.owner, RoutingKey(channel=CHANNEL, account=caller.owner, chat=client_id))
        update_id, repeated = await self._claim(caller, route, saying, headers.idempotency_key)
        inbound = message_for(route, update_id=update_id, text=saying.text, instructions=saying.instructions)
        if repeated:
            settled = await self._settled(inbound)
            if settled is not None:
                return Call(request, route, inbound, None, settled)
        watch = await self._turns.submit(route, inbound, headers.traceparent, deltas=bool(request.stream))
        return Call(request, route, inbound, watch)

    async def answer(self, call: Call, gone: Gone) -> protocol.ChatCompletion:
        """Wait for the answer. Raises ApiError 504 when it takes too long, 499 when the client left."""
        answer = call.settled or await self._wait(call, gone)
        return protocol.ChatCompletion(
            id=reading.completion_id(call.route.sid, call.inbound.update_id),
            created=int(time.time()),
            model=call.request.model,
            choices=[protocol.Choice(message=protocol.AnswerMessage(content=answer.reply))],
            usage=protocol.CompletionUsage.of(answer.usage),
            hermes=call.extension(answer),
        )

    async def stream(self, call: Call) -> AsyncGenerator[bytes, None]:
        """Give out the frames of a streamed answer."""
        options = call.request.stream_options
        identity = reading.completion_id(call.route.sid, call.inbound.update_id)
        include_usage = options is not None and options.include_usage
        chunks = Chunks(identity, call.request.model, int(time.time()), include_usage)
        text = AnswerText()
        yield chunks.role()
        if call.settled is not None:
            for piece in _ending(call, call.settled, text, chunks):
                yield piece
            return
        assert call.watch is not None
        quiet_since = time.monotonic()
        try:
            async for happening in call.watch.happenings(None):
                if isinstance(happening, Tick):
                    pieces = [HEARTBEAT] if time.monotonic() - quiet_since >= self._heartbeat_seconds else []
                elif isinstance(happening, Delta):
                    pieces = _progress(happening, text, chunks)
                else:
                    pieces = _ending(call, happening, text, chunks)
                for piece in pieces:
                    quiet_since = time.monotonic()
                    yield piece
        except HermesError as error:
            yield frame({"error": from_hermes(error).detail().model_dump()})
            yield DONE

    async def _client_id(self, caller: ApiKeyRecord, request: ChatRequest, headers: CallHeaders) -> str:
        if headers.session is None:
            return reading.derive_client_id(request)
        value = reading.parse_session_header(headers.session)
        if not reading.is_session_id(value):
            return value
        session = await self._store.call(GET_SESSION, OwnedSessionRequest(sid=value, owner=caller.owner))
        known = (session.namespace, session.profile, session.key.get("channel"))
        if known != (caller.namespace, request.model, CHANNEL):
            raise ApiError(404, f"no session {value} of this model", code="not_found", param="X-Hermes-Session-Id")
        return session.key.get("chat", "")

    async def _claim(self, caller: ApiKeyRecord, route: Route, saying: reading.Saying, key: str | None) -> tuple[str, bool]:
        """Return the message's update id, and whether it was used before."""
        if key is None:
            return secrets.token_hex(16), False
        update_id = parse_update_id(key, "Idempotency-Key")
        content = fingerprint(route.sid, saying.instructions, saying.text)
        return update_id, not await self._keys.claim(caller.namespace, caller.owner, update_id, content)

    async def _settled(self, inbound: Inbound) -> Answer | None:
        request = GetTurnRequest(
            sid=inbound.sid,
            owner=inbound.owner,
            channel=inbound.channel,
            account=inbound.account,
            update_id=inbound.update_id,
        )
        try:
            return answer_of_turn(await self._turns.find(request))
        except HermesError as error:
            if from_hermes(error).status == 404:
                return None
            raise

    async def _wait(self, call: Call, gone: Gone) -> Answer:
        assert call.watch is not None
        try:
            async for happening in call.watch.happenings(self._answer_timeout_seconds):
                if isinstance(happening, Answer):
                    return happening
                if isinstance(happening, Tick) and await gone():
                    raise ApiError(499, "the client left; the turn goes on", code="client_closed_request")
        except (TimeoutError, GatewayLeaves) as error:
            why = str(error) or f"no answer within {self._answer_timeout_seconds:g} s"
            where = f"/api/sessions/{call.route.sid}/turns/{call.inbound.update_id}"
            late = f"{why}; the turn goes on, its answer will be at GET {where}"
            raise ApiError(504, late, code="answer_timeout", final=True) from None
        raise AssertionError("unreachable: happenings end with an answer or an exception")


def _progress(delta: Delta, text: AnswerText, chunks: Chunks) -> list[bytes]:
    piece = text.take(delta)
    if delta.kind in ("tool_started", "tool_finished"):
        return [chunks.tool(delta)]
    return [chunks.text(piece)] if piece else []


def _ending(call: Call, answer: Answer, text: AnswerText, chunks: Chunks) -> list[bytes]:
    missing = text.finish(answer.reply)
    pieces = [chunks.text(missing)] if missing else []
    return [*pieces, *chunks.last(call.extension(answer), answer.usage), DONE]
