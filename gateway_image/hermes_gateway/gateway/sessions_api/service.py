"""What the sessions API does, apart from HTTP."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping

from hermes_contracts.access import ApiKeyRecord
from hermes_contracts.envelopes import Inbound, Route
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import RoutingKey
from hermes_contracts.store_api import (
    CREATE_SESSION,
    DELETE_SESSION,
    GET_SESSION,
    LIST_SESSIONS,
    PUT_COMMAND,
    TRANSCRIPT,
    CommandKind,
    CreateSessionRequest,
    GetTurnRequest,
    ListSessionsRequest,
    OwnedSession,
    OwnedSessionRequest,
    PutCommandRequest,
    TranscriptReply,
    TranscriptRequest,
    Turn,
)  # fmt: skip
from hermes_gateway.gateway.idempotency import IdempotencyKeys, fingerprint, parse_update_id
from hermes_gateway.gateway.ingest import message_for, route_to
from hermes_gateway.gateway.openai_api.calls import CHANNEL, require_profile
from hermes_gateway.gateway.openai_api.reading import is_session_id, new_client_id, parse_session_header
from hermes_gateway.gateway.pictures import Picture, read_pictures, store_pictures
from hermes_gateway.gateway.profiles import ProfileCache
from hermes_gateway.gateway.sessions_api.protocol import (
    CommandAnswer,
    CreateSession,
    PostMessage,
    SessionPage,
    SessionView,
    TurnView,
    parse_cursor,
    render_cursor,
)  # fmt: skip
from hermes_gateway.gateway.turns import Answer, GatewayLeaves, Turns, Watch
from hermes_gateway.gateway.web.errors import ApiError
from hermes_service.rpc import StoreClient

_FIRST_POLL_SECONDS = 0.1
_LONGEST_POLL_SECONDS = 1.0


class SessionsService:
    """Handles calls on sessions. Every look-up is by owner and id, and within the key's namespace and Profiles."""

    def __init__(
        self,
        profiles: ProfileCache,
        turns: Turns,
        keys: IdempotencyKeys,
        store: StoreClient,
        *,
        command_wait_seconds: float,
    ) -> None:
        self._profiles = profiles
        self._turns = turns
        self._keys = keys
        self._store = store
        self._command_wait_seconds = command_wait_seconds

    async def create(self, caller: ApiKeyRecord, body: CreateSession) -> SessionView:
        """Make a session, or return the one with this client id."""
        profile = require_profile(self._profiles, caller, body.profile)
        client_id = parse_session_header(body.id) if body.id is not None else new_client_id()
        if is_session_id(client_id):
            raise ApiError(400, "id: looks like one of our session ids; choose another", code="invalid_value", param="id")
        route = route_to(profile, caller.owner, RoutingKey(channel=CHANNEL, account=caller.owner, chat=client_id))
        return SessionView.of(await self._store.call(CREATE_SESSION, CreateSessionRequest(route=route, title=body.title)))

    async def list(self, caller: ApiKeyRecord, profile: str | None, cursor: str | None, limit: int) -> SessionPage:
        """Return a page. It may hold fewer than `limit`, when some are of Profiles the key may not use."""
        request = ListSessionsRequest(
            owner=caller.owner, namespace=caller.namespace, profile=profile, before=parse_cursor(cursor), limit=limit
        )
        reply = await self._store.call(LIST_SESSIONS, request)
        shown = [SessionView.of(session) for session in reply.sessions if session.profile in caller.profiles]
        following = render_cursor(reply.sessions[-1]) if reply.more and reply.sessions else None
        return SessionPage(data=shown, has_more=following is not None, next_cursor=following)

    async def get(self, caller: ApiKeyRecord, sid: str) -> OwnedSession:
        """Return one session. Raises ApiError 404."""
        if not is_session_id(sid):
            raise not_found(sid)
        try:
            session = await self._store.call(GET_SESSION, OwnedSessionRequest(sid=sid, owner=caller.owner))
        except HermesError as error:
            if error.code is ErrorCode.NOT_FOUND:
                raise not_found(sid) from error
            raise
        if session.namespace != caller.namespace or session.profile not in caller.profiles:
            raise not_found(sid)
        return session

    async def transcript(self, caller: ApiKeyRecord, sid: str, after: int, limit: int) -> TranscriptReply:
        """Return a page of a session's messages."""
        await self.get(caller, sid)
        return await self._store.call(TRANSCRIPT, TranscriptRequest(sid=sid, owner=caller.owner, after=after, limit=limit))

    async def post(
        self, caller: ApiKeyRecord, sid: str, body: PostMessage, key: str | None, traceparent: str, *, watched: bool
    ) -> tuple[str, Watch | None]:
        """Put a message on the bus; returns its id, and the watch of its turn, which the caller closes."""
        if not body.text.strip() and not body.images:
            raise ApiError(400, "text: is empty, and there are no images", code="invalid_value", param="text")
        pictures = await read_pictures(body.pictures())
        session = await self.get(caller, sid)
        if session.key.get("channel") != CHANNEL:
            where = session.key.get("channel")
            raise ApiError(409, f"session {sid} lives on the channel {where}; write to it there", final=True)
        profile = require_profile(self._profiles, caller, session.profile)
        route = route_to(profile, caller.owner, RoutingKey.model_validate(session.key))
        if route.sid != sid:
            # Its namespace was deleted and made again: what is stored belongs to a Profile that is gone.
            raise not_found(sid)
        inbound = await self._message(caller, route, body.text, pictures, key)
        await store_pictures(self._store, sid, pictures)
        if watched:
            return inbound.update_id, await self._turns.submit(route, inbound, traceparent, deltas=False)
        await self._turns.post(route, inbound, traceparent)
        return inbound.update_id, None

    async def turn(self, caller: ApiKeyRecord, sid: str, message_id: str) -> TurnView:
        """Return what became of a message. A session without a row has no turn yet: `waiting`."""
        if not is_session_id(sid):
            raise not_found(sid)
        message_id = parse_update_id(message_id, "message_id")
        request = GetTurnRequest(sid=sid, owner=caller.owner, channel=CHANNEL, account=caller.owner, update_id=message_id)
        turn = await self._turns.find(request)
        if turn.found:
            await self.get(caller, sid)
        return TurnView.of(sid, message_id, turn)

    async def wait(self, sid: str, message_id: str, watch: Watch, seconds: float) -> TurnView:
        """Wait a while for a message's answer; shows the turn as waiting when there is none yet."""
        try:
            async for happening in watch.happenings(seconds):
                if isinstance(happening, Answer):
                    turn = Turn(
                        found=True,
                        turn_id=happening.turn_id,
                        state=happening.state,
                        reply=happening.reply,
                        reason=happening.reason,
                        usage=happening.usage,
                    )
                    return TurnView.of(sid, message_id, turn)
        except (TimeoutError, GatewayLeaves):
            pass
        state = "running" if watch.turn_id else "waiting"
        return TurnView(session=sid, message_id=message_id, state=state, turn=watch.turn_id)

    async def command(
        self,
        caller: ApiKeyRecord,
        sid: str,
        kind: CommandKind,
        arguments: Mapping[str, str],
        key: str | None,
        wait_seconds: float | None,
    ) -> CommandAnswer:
        """Record a command and give the agent a while to carry it out."""
        await self.get(caller, sid)
        said = (f"{name}={value}" for name, value in sorted(arguments.items()))
        update_id = await self.update_id(caller, key, "command", sid, kind, *said)
        request = PutCommandRequest(
            sid=sid, owner=caller.owner, account=caller.owner, update_id=update_id, kind=kind, arguments=dict(arguments)
        )
        deadline = time.monotonic() + (self._command_wait_seconds if wait_seconds is None else wait_seconds)
        pause = _FIRST_POLL_SECONDS
        while True:
            reply = await self._store.call(PUT_COMMAND, request)
            left = deadline - time.monotonic()
            if reply.result is not None or left <= 0 or self._turns.leaving:
                return CommandAnswer(command_id=reply.command_id, result=reply.result)
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.3, _LONGEST_POLL_SECONDS)

    async def update_id(self, caller: ApiKeyRecord, key: str | None, *content: str) -> str:
        """Return what a request is called: by its key, which then means this content and no other, else by chance."""
        if key is None:
            return secrets.token_hex(16)
        update_id = parse_update_id(key, "Idempotency-Key")
        await self._keys.claim(caller.namespace, caller.owner, update_id, fingerprint(*content))
        return update_id

    async def delete(self, caller: ApiKeyRecord, sid: str) -> None:
        """Delete a session and all it holds."""
        await self.get(caller, sid)
        await self._store.call(DELETE_SESSION, OwnedSessionRequest(sid=sid, owner=caller.owner))

    async def _message(
        self, caller: ApiKeyRecord, route: Route, text: str, pictures: tuple[Picture, ...], key: str | None
    ) -> Inbound:
        images = tuple(picture.part for picture in pictures)
        if key is None:
            return message_for(route, update_id=secrets.token_hex(16), text=text, images=images)
        update_id = parse_update_id(key, "Idempotency-Key")
        content = fingerprint(route.sid, "", text, *(image.media_id for image in images))
        await self._keys.claim(caller.namespace, caller.owner, update_id, content)
        return message_for(route, update_id=update_id, text=text, images=images)


def not_found(sid: str) -> ApiError:
    """Say that there is no such session, whether or not somebody else has it."""
    return ApiError(404, f"no session {sid[:64]!r}", code="not_found", param="id")
