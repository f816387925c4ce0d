"""Routes of the sessions API."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response
from nats.aio.client import Client
from nats.js import JetStreamContext

from hermes_contracts import subjects
from hermes_gateway.gateway.hub import SubjectHub
from hermes_gateway.gateway.sessions_api.protocol import (
    CreateSession,
    PostMessage,
    SessionPage,
    SessionView,
    StopAnswer,
    TranscriptEntry,
    TranscriptPage,
    TurnView,
)  # fmt: skip
from hermes_gateway.gateway.sessions_api.replay import EventFeed, SessionStream
from hermes_gateway.gateway.sessions_api.service import SessionsService
from hermes_gateway.gateway.web.callers import IdempotencyKey, Problem, SessionsCaller, problems
from hermes_gateway.gateway.web.errors import ApiError
from hermes_gateway.gateway.web.sse import EventStream
from hermes_service import tracing

_MAX_EVENT_STREAMS = 200

_EVENT_STREAM: Problem = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events"}}

Wait = Annotated[float, Query(ge=0, le=600, description="Seconds to wait for the answer")]
Trace = Annotated[str | None, Header(include_in_schema=False)]


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
        message_id, watch = await sessions.post(caller, id, body.text, idempotency_key, trace, watched=wait > 0)
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

    @router.post("/{id}/stop", status_code=202, responses={200: {"model": StopAnswer}})
    async def stop_session(
        id: str,  # noqa: A002
        caller: SessionsCaller,
        response: Response,
        idempotency_key: IdempotencyKey = None,
    ) -> StopAnswer:
        """Stop what the session's agent is doing: 200 when it has stopped, 202 when it has only been told."""
        answer = await sessions.stop(caller, id, idempotency_key)
        response.status_code = 202 if answer.result is None else 200
        return answer

    return router


def build_events_router(
    sessions: SessionsService, bus: Client, js: JetStreamContext, hub: SubjectHub, *, heartbeat_seconds: float
) -> APIRouter:
    """Build the route of the event stream."""
    router = APIRouter(prefix="/api/sessions", tags=["Sessions"], responses=problems(404, 503))
    open_streams: set[SessionStream] = set()

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
        if len(open_streams) >= _MAX_EVENT_STREAMS:
            raise ApiError(503, "too many event streams are open here; try again", retry_after_seconds=5)
        feed = EventFeed(bus, js, id, last_event_id)
        stream = SessionStream(feed, hub, subjects.deltas_of(id) if deltas else None, heartbeat_seconds)
        await stream.open()
        open_streams.add(stream)

        async def close() -> None:
            open_streams.discard(stream)
            await stream.close()

        return EventStream(stream.frames(), close=close)

    return router
