"""One message by OpenAI's protocols, chat or responses: which session it goes to, publish, wait."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, cast

from hermes_contracts.access import ApiKeyRecord
from hermes_contracts.envelopes import Delta, Inbound, Route
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import RoutingKey
from hermes_contracts.projection import ProfileProjection
from hermes_contracts.store_api import GET_SESSION, GetTurnRequest, OwnedSessionRequest, Turn
from hermes_gateway.gateway.idempotency import IdempotencyKeys, fingerprint, parse_update_id
from hermes_gateway.gateway.ingest import message_for, route_to
from hermes_gateway.gateway.openai_api import reading
from hermes_gateway.gateway.openai_api.protocol import HermesExtension
from hermes_gateway.gateway.openai_api.reading import Saying
from hermes_gateway.gateway.pictures import Picture, read_pictures, store_pictures
from hermes_gateway.gateway.profiles import ProfileCache
from hermes_gateway.gateway.turns import Answer, GatewayLeaves, Tick, Turns, Watch, answer_of_turn
from hermes_gateway.gateway.web.errors import ApiError
from hermes_gateway.gateway.web.sse import HEARTBEAT
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
    session_key: str | None = None
    """Whom the caller speaks for, where the body's `user` does not say."""

    def answer(self, client_id: str, sid: str, update_id: str) -> dict[str, str]:
        """Return the headers that say where an answer belongs."""
        mine = {reading.SESSION_KEY_HEADER: self.session_key} if self.session_key else {}
        return {reading.SESSION_HEADER: client_id, "Hermes-Session": sid, "Hermes-Message-Id": update_id, **mine}


@dataclass(frozen=True)
class Message:
    """A message whose session, id and pictures are known, on its way to the bus. `repeated`: its id was used before."""

    route: Route
    update_id: str
    saying: Saying
    pictures: tuple[Picture, ...]
    repeated: bool

    @property
    def client_id(self) -> str:
        """The conversation's id as the client may send it again."""
        return self.route.key.chat


@dataclass(frozen=True)
class Call:
    """A message that is on its way: `watch` follows its turn, or `settled` is the answer it had before."""

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

    async def frames(
        self, heartbeat_seconds: float, of_delta: Callable[[Delta], list[bytes]], of_answer: Callable[[Answer], list[bytes]]
    ) -> AsyncGenerator[bytes, None]:
        """Give out what the two make of the turn as it runs, its end included, and heartbeats while it is silent.

        Raises HermesError when the turn cannot be followed any more.
        """
        if self.settled is not None:
            for piece in of_answer(self.settled):
                yield piece
            return
        assert self.watch is not None
        quiet_since = time.monotonic()
        async for happening in self.watch.happenings(None):
            if isinstance(happening, Tick):
                pieces = [HEARTBEAT] if time.monotonic() - quiet_since >= heartbeat_seconds else []
            else:
                pieces = of_delta(happening) if isinstance(happening, Delta) else of_answer(happening)
            for piece in pieces:
                quiet_since = time.monotonic()
                yield piece

    async def close(self) -> None:
        """Stop listening. The turn is not touched."""
        if self.watch is not None:
            await self.watch.close()


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


class Calls:
    """Puts messages on the bus and waits for what becomes of them."""

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
        self.profiles = profiles
        self.store = store
        self.heartbeat_seconds = heartbeat_seconds
        self._turns = turns
        self._keys = keys
        self._answer_timeout_seconds = answer_timeout_seconds

    async def address(
        self, caller: ApiKeyRecord, profile: ProfileProjection, saying: Saying, client_id: str, key: str | None
    ) -> Message:
        """Give a message its session and its id. Raises ApiError 400, 409 or 413, or HermesError UNAVAILABLE."""
        pictures = await read_pictures(saying.pictures)
        route = route_to(profile, caller.owner, RoutingKey(channel=CHANNEL, account=caller.owner, chat=client_id))
        if key is None:
            return Message(route, secrets.token_hex(16), saying, pictures, repeated=False)
        update_id = parse_update_id(key, "Idempotency-Key")
        content = fingerprint(route.sid, saying.instructions, saying.text, *(p.part.media_id for p in pictures))
        new = await self._keys.claim(caller.namespace, caller.owner, update_id, content)
        return Message(route, update_id, saying, pictures, repeated=not new)

    async def send(self, message: Message, traceparent: str, *, deltas: bool) -> Call:
        """Put a message on the bus. Whoever gets the Call closes it. Raises ApiError or HermesError; nothing is published on
        any 4xx."""
        route, saying = message.route, message.saying
        inbound = message_for(
            route,
            update_id=message.update_id,
            text=saying.text,
            instructions=saying.instructions,
            images=tuple(picture.part for picture in message.pictures),
        )
        if message.repeated:
            settled = answer_of_turn(await self.turn(turn_request(inbound)))
            if settled is not None:
                return Call(route, inbound, None, settled)
        await store_pictures(self.store, route.sid, message.pictures)
        return Call(route, inbound, await self._turns.submit(route, inbound, traceparent, deltas=deltas))

    async def post(self, message: Message, traceparent: str) -> Call:
        """Put a message on the bus without waiting for its turn. Raises as `send` does."""
        call = await self.send(message, traceparent, deltas=False)
        await call.close()
        return call

    async def turn(self, request: GetTurnRequest) -> Turn:
        """Return what the store knows of a turn; a session without a row has none. Raises HermesError."""
        try:
            return await self._turns.find(request)
        except HermesError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return Turn(found=False)
            raise

    async def session_named(self, caller: ApiKeyRecord, model: str, named: str, param: str = reading.SESSION_HEADER) -> str:
        """Return the client id of the session that `param` names, by either of its ids. Raises ApiError 400, 404."""
        value = reading.parse_session_header(named, param)
        if not reading.is_session_id(value):
            return value
        missing = ApiError(404, f"no session {value} of this model", code="not_found", param=param)
        try:
            session = await self.store.call(GET_SESSION, OwnedSessionRequest(sid=value, owner=caller.owner))
        except HermesError as error:
            if error.code is ErrorCode.NOT_FOUND:
                raise missing from error
            raise
        if (session.namespace, session.profile, session.key.get("channel")) != (caller.namespace, model, CHANNEL):
            raise missing
        return session.key.get("chat", "")

    async def wait(self, call: Call, gone: Gone, where: str) -> Answer:
        """Wait for the answer. Raises ApiError 504 when it takes too long, naming the address `where` it will be, 499 when
        the client left."""
        if call.settled is not None:
            return call.settled
        assert call.watch is not None
        try:
            async for happening in call.watch.happenings(self._answer_timeout_seconds):
                if isinstance(happening, Answer):
                    return happening
                if isinstance(happening, Tick) and await gone():
                    raise ApiError(499, "the client left; the turn goes on", code="client_closed_request")
        except (TimeoutError, GatewayLeaves) as error:
            why = str(error) or f"no answer within {self._answer_timeout_seconds:g} s"
            late = f"{why}; the turn goes on, its answer will be at GET {where}"
            raise ApiError(504, late, code="answer_timeout", final=True) from None
        raise AssertionError("unreachable: happenings end with an answer or an exception")


def turn_request(inbound: Inbound) -> GetTurnRequest:
    """Return the question for a message's turn."""
    return GetTurnRequest(
        sid=inbound.sid,
        owner=inbound.owner,
        channel=inbound.channel,
        account=inbound.account,
        update_id=inbound.update_id,
    )
