"""Routes of the sessions API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response
from nats.aio.client import Client
from nats.js import JetStreamContext

from hermes_contracts import names, subjects
from hermes_contracts.access import ApiKeyRecord
from hermes_contracts.store_api import CommandKind
from hermes_gateway.gateway.hub import SubjectHub
from hermes_gateway.gateway.sessions_api.protocol import (
    CommandAnswer,
    Compress,
    CreateSession,
    Directive,
    PostMessage,
    SessionPage,
    SessionView,
    TranscriptEntry,
    TranscriptPage,
    TurnView,
)  # fmt: skip
from hermes_gateway.gateway.sessions_api.replay import EventFeed, OpenStreams, SessionStream
from hermes_gateway.gateway.sessions_api.service import SessionsService
from hermes_gateway.gateway.web.callers import IdempotencyKey, Problem, SessionsCaller, Trace, problems
from hermes_gateway.gateway.web.sse import EventStream
from hermes_service import tracing

_EVENT_STREAM: Problem = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events"}}
_COMMAND: Problem = {**problems(404, 409, 503), 200: {"model": CommandAnswer}}

Wait = Annotated[float, Query(ge=0, le=600, description="Seconds to wait for the answer")]
CommandWait = Annotated[float | None, Query(ge=0, le=600, description="Seconds to wait for the result; 2 without it")]


def build_router(sessions: SessionsService) -> APIRouter:
    """Build the routes, apart from events."""
    router = APIRouter(prefix="/api/sessions", tags=["Sessions"], responses=problems(404, 503))

    @router.post("", status_code=201)
    async def create_session(body: CreateSession, caller: SessionsCaller) -> SessionView:
        """Make a session, or return the one that has this client id."""
        return await sessions.create(caller, body)

    @router.get("")
    async def list_sessions(
        caller: SessionsCaller,
        profile: Annotated[str | None, Query(max_length=200)] = None,
        cursor: Annotated[str | None, Query(max_length=200)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> SessionPage:
        """List the key owner's sessions, newest activity first."""
        return await sessions.list(caller, profile, cursor, limit)

    @router.get("/{id}")
    async def get_session(id: str, caller: SessionsCaller) -> SessionView:  # noqa: A002 - the path's own word
        """Show one session."""
        return SessionView.of(await sessions.get(caller, id))

    @router.delete("/{id}", status_code=204)
    async def delete_session(id: str, caller: SessionsCaller) -> Response:  # noqa: A002
        """Delete a session, its transcript and its files."""
        await sessions.delete(caller, id)
        return Response(status_code=204)

    @router.get("/{id}/messages")
    async def get_transcript(
        id: str,  # noqa: A002
        caller: SessionsCaller,
        after: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
    ) -> TranscriptPage:
        """Read the transcript, oldest first."""
        reply = await sessions.transcript(caller, id, after, limit)
        return TranscriptPage(data=[TranscriptEntry.of(message) for message in reply.messages], has_more=reply.more)

    @router.post("/{id}/messages", status_code=202, responses=problems(404, 409, 413, 429, 503) | {200: {"model": TurnView}})
    async def post_message(
        id: str,  # noqa: A002
        body: PostMessage,
        caller: SessionsCaller,
        response: Response,
        wait: Wait = 0,
        idempotency_key: IdempotencyKey = None,
        traceparent: Trace = None,
    ) -> TurnView:
        """Send a message: 202 with its id, or 200 with the answer if it comes within `wait` seconds."""
        trace = tracing.accept(traceparent)
        message_id, watch = await sessions.post(caller, id, body, idempotency_key, trace, watched=wait > 0)
        if watch is None:
            return TurnView(session=id, message_id=message_id, state="waiting")
        try:
            turn = await sessions.wait(id, message_id, watch, wait)
        finally:
            await watch.close()
        response.status_code = 202 if turn.state in ("waiting", "received", "running") else 200
        return turn

    @router.get("/{id}/turns/{message_id}")
    async def get_turn(id: str, message_id: str, caller: SessionsCaller) -> TurnView:  # noqa: A002
        """Show what became of a message, by the id that sending it returned."""
        return await sessions.turn(caller, id, message_id)

    add_commands(router, sessions)
    return router


@dataclass(frozen=True)
class Commanding:
    """A request that tells a session's agent something beside its messages."""

    sid: str
    caller: ApiKeyRecord
    response: Response
    wait_seconds: float | None
    key: str | None

    async def do(self, sessions: SessionsService, kind: CommandKind, **said: str) -> CommandAnswer:
        """Record the command and answer it: 200 when it is done, 202 when not yet."""
        answer = await sessions.command(self.caller, self.sid, kind, said, self.key, self.wait_seconds)
        self.response.status_code = 202 if answer.result is None else 200
        return answer


async def _commanding(
    id: str,  # noqa: A002
    caller: SessionsCaller,
    response: Response,
    wait: CommandWait = None,
    idempotency_key: IdempotencyKey = None,
) -> Commanding:
    return Commanding(id, caller, response, wait, idempotency_key)


CommandOf = Annotated[Commanding, Depends(_commanding)]


def add_commands(router: APIRouter, sessions: SessionsService) -> None:
    """Add the routes that tell a session's agent something beside its messages."""

    @router.post("/{id}/stop", status_code=202, responses=_COMMAND)
    async def stop_session(command: CommandOf) -> CommandAnswer:
        """Stop what the session's agent is doing: 200 when it has stopped, 202 when it has only been told."""
        return await command.do(sessions, CommandKind.STOP)

    @router.post("/{id}/steer", status_code=202, responses=_COMMAND)
    async def steer_session(command: CommandOf, body: Directive) -> CommandAnswer:
        """Tell the running turn something without ending it: the model reads it after its next tool result."""
        return await command.do(sessions, CommandKind.STEER, text=body.text)

    @router.post("/{id}/redirect", status_code=202, responses=_COMMAND)
    async def redirect_session(command: CommandOf, body: Directive) -> CommandAnswer:
        """Give the running turn another goal: what it does now is dropped, the turn goes on with this."""
        return await command.do(sessions, CommandKind.REDIRECT, text=body.text)

    @router.post("/{id}/compress", status_code=202, responses=_COMMAND)
    async def compress_session(command: CommandOf, body: Compress | None = None) -> CommandAnswer:
        """Compact a conversation: the agent sums up its older part, once no turn runs."""
        asked = body or Compress()
        which = asked.conversation or names.conversation_id(command.sid)
        return await command.do(sessions, CommandKind.COMPRESS, conversation=which, focus=asked.focus)


def build_events_router(
    sessions: SessionsService,
    bus: Client,
    js: JetStreamContext,
    hub: SubjectHub,
    streams: OpenStreams,
    *,
    heartbeat_seconds: float,
) -> APIRouter:
    """Build the route of the event stream."""
    router = APIRouter(prefix="/api/sessions", tags=["Sessions"], responses=problems(404, 503))

    @router.get("/{id}/events", response_class=Response, responses=_EVENT_STREAM)
    async def watch_session(
        id: str,  # noqa: A002
        caller: SessionsCaller,
        deltas: Annotated[bool, Query(description="Send pieces of running turns, too; these are not replayed")] = False,
        last_event_id: Annotated[
            int | None, Header(alias="Last-Event-ID", ge=0, description="Replay what came after this; 0 replays all")
        ] = None,
    ) -> Response:
        """Watch a session: its durable events, numbered, as server-sent events."""
        await sessions.get(caller, id)
        feed = EventFeed(bus, js, id, last_event_id)
        stream = SessionStream(feed, hub, subjects.deltas_of(id) if deltas else None, heartbeat_seconds)

        async def close() -> None:
            streams.discard(stream)
            await stream.close()

        streams.add(stream)
        try:
            await stream.open()
        except BaseException:
            await close()
            raise

        return EventStream(stream.frames(), close=close)

    return router
