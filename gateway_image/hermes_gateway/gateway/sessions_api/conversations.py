"""Routes of what a session's owner does with its conversation: title, model, taking exchanges back, saying one again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hermes_contracts import names
from hermes_contracts.access import ApiKeyRecord
from hermes_contracts.envelopes import ConversationId, Inbound, Route
from hermes_contracts.names import RoutingKey
from hermes_contracts.projection import ProfileProjection
from hermes_contracts.store_api import MAX_UNDONE, ConversationSettings, UndoReply
from hermes_gateway.gateway.conversations import sentences
from hermes_gateway.gateway.conversations.desk import (
    ConversationDesk,
    Saying,
    model_in_use,
    offered_model,
    said_again,
)  # fmt: skip
from hermes_gateway.gateway.openai_api.calls import CHANNEL, require_profile
from hermes_gateway.gateway.profiles import ProfileCache
from hermes_gateway.gateway.sessions_api.protocol import TurnView
from hermes_gateway.gateway.sessions_api.service import SessionsService
from hermes_gateway.gateway.web.callers import IdempotencyKey, SessionsCaller, Trace, problems
from hermes_gateway.gateway.web.errors import ApiError
from hermes_service import tracing

Post = Callable[[Route, Inbound, str], Awaitable[object]]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Settings(_Body):
    """What to set; what is left out stays."""

    title: Annotated[str, StringConstraints(max_length=200)] | None = None
    """Stays, whatever the agent would call it; empty: the agent's own."""
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """One of `models`, or `default` for the Profile's own; counts from the next message on."""
    conversation: ConversationId | None = None
    """Which one; without it, the session's own."""


class SettingsView(BaseModel):
    """A conversation's title, the model that answers in it, and those that may be chosen."""

    title: str
    model: str
    models: list[str]

    @classmethod
    def of(cls, found: ConversationSettings, profile: ProfileProjection) -> SettingsView:
        """Show what the store and the Profile say."""
        models = [profile.model, *profile.choices]
        return cls(title=found.title, model=model_in_use(profile, found.model), models=models)


class Undo(_Body):
    """How many exchanges to take back, the last ones first."""

    exchanges: int = Field(default=1, ge=1, le=MAX_UNDONE)
    conversation: ConversationId | None = None
    """Which one; without it, the session's own."""


class UndoView(BaseModel):
    """How the messages begin that were taken back, newest first; `text` says it to a person."""

    taken: list[str]
    text: str


def build_router(sessions: SessionsService, desk: ConversationDesk, profiles: ProfileCache, post: Post) -> APIRouter:
    """Build the routes."""
    router = APIRouter(prefix="/api/sessions", tags=["Sessions"], responses=problems(404, 409, 503))

    async def place(caller: ApiKeyRecord, sid: str, conversation: str | None) -> tuple[Route, str, ProfileProjection]:
        session = await sessions.get(caller, sid)
        profile = require_profile(profiles, caller, session.profile)
        key = RoutingKey.model_validate(session.key)
        route = Route(sid=sid, namespace=session.namespace, profile=session.profile, owner=caller.owner, key=key)
        return route, conversation or names.conversation_id(sid), profile

    @router.get("/{id}/settings")
    async def get_settings(
        id: str,  # noqa: A002 - the path's own word
        caller: SessionsCaller,
        conversation: ConversationId | None = None,
    ) -> SettingsView:
        """Show what is set for a session's conversation."""
        route, which, profile = await place(caller, id, conversation)
        return SettingsView.of(await desk.settings(route, which), profile)

    @router.patch("/{id}/settings", responses=problems(400))
    async def change_settings(id: str, body: Settings, caller: SessionsCaller) -> SettingsView:  # noqa: A002
        """Name a session's conversation, or choose its model among those that the Profile offers."""
        route, which, profile = await place(caller, id, body.conversation)
        if body.model is not None:
            model = offered_model(profile, body.model)
            if model is None:
                said = sentences.no_such_model(profile, body.model)
                raise ApiError(400, f"model: {said}", code="invalid_value", param="model")
            await desk.choose(route, which, model)
        if body.title is not None:
            await desk.name(route, which, " ".join(body.title.split()))
        return SettingsView.of(await desk.settings(route, which), profile)

    @router.post("/{id}/undo")
    async def undo(
        id: str,  # noqa: A002
        caller: SessionsCaller,
        body: Undo | None = None,
        idempotency_key: IdempotencyKey = None,
    ) -> UndoView:
        """Take the last exchanges back: the transcript keeps them, marked, and the model does not see them any more."""
        asked = body or Undo()
        route, which, _ = await place(caller, id, asked.conversation)
        update_id = await sessions.update_id(caller, idempotency_key, "undo", id, which, str(asked.exchanges))
        reply = await desk.undo(Saying(route, which, caller.owner, update_id), asked.exchanges)
        _require_done(reply)
        return UndoView(taken=list(reply.taken), text=sentences.undone(reply))

    @router.post("/{id}/retry", status_code=202)
    async def retry(
        id: str,  # noqa: A002
        caller: SessionsCaller,
        idempotency_key: IdempotencyKey = None,
        traceparent: Trace = None,
    ) -> TurnView:
        """Take the last exchange back and send its message again, as a new turn."""
        route, which, _ = await place(caller, id, None)
        if route.key.channel != CHANNEL:
            raise ApiError(409, f"session {id} lives on the channel {route.key.channel}; write to it there", final=True)
        update_id = await sessions.update_id(caller, idempotency_key, "retry", id)
        saying = Saying(route, which, caller.owner, update_id)
        reply = await desk.undo(saying, again=True)
        _require_done(reply)
        if reply.last is not None:
            await post(route, said_again(reply.last, saying, None), tracing.accept(traceparent))
        return TurnView(session=id, message_id=update_id, state="waiting")

    return router


def _require_done(reply: UndoReply) -> None:
    if reply.refused:
        raise ApiError(409, sentences.undone(reply), code=reply.refused, final=True)
