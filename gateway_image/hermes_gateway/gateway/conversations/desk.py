"""Takes exchanges back, says messages again, names conversations and chooses their models: for chats and the API alike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hermes_contracts.envelopes import Inbound, Route, Target
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.projection import ProfileProjection
from hermes_contracts.store_api import (
    CONVERSATION,
    CREATE_SESSION,
    LIST_CONVERSATIONS,
    MAX_LISTED,
    UNDO,
    ConversationRequest,
    ConversationSettings,
    ConversationsRequest,
    CreateSessionRequest,
    ListedConversation,
    UndoReply,
    UndoRequest,
)  # fmt: skip
from hermes_service.rpc import StoreClient

_SECONDS = 1.0
_PATIENCE_SECONDS = 0.5
_PAUSE_SECONDS = 0.05
OWN_MODEL = "default"
"""What a person says for the Profile's own model, beside its name."""


@dataclass(frozen=True)
class Saying:
    """A command of a person: as which session's owner, in which conversation, and how the platform calls its message."""

    route: Route
    conversation: str
    account: str
    update_id: str
    sender: str = ""
    """Who says it, where people share the session."""
    own_only: bool = False
    """He may take back only what he wrote himself."""


@dataclass(frozen=True)
class ConversationDesk:
    """Every method may be repeated. Raises HermesError NOT_FOUND when there is no such session, UNAVAILABLE."""

    store: StoreClient
    waiting: Callable[[str], Awaitable[int]]
    """How many messages of a session are on the bus."""

    async def undo(self, saying: Saying, exchanges: int = 1, *, again: bool = False) -> UndoReply:
        """Take exchanges back, once for each update id. A message that waits is given a moment to leave the bus."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            request = UndoRequest(
                sid=saying.route.sid,
                owner=saying.route.owner,
                account=saying.account,
                update_id=saying.update_id,
                conversation=saying.conversation,
                exchanges=exchanges,
                again=again,
                sender=saying.sender if saying.own_only else "",
                waiting=await self.waiting(saying.route.sid),
            )
            reply = await self.store.call(UNDO, request, timeout_seconds=_SECONDS, patience_seconds=_SECONDS)
            if reply.refused != "waiting" or time.monotonic() > deadline:
                return reply
            await asyncio.sleep(_PAUSE_SECONDS)

    async def settings(self, route: Route, conversation: str) -> ConversationSettings:
        """Return how a conversation is called and which model was chosen for it."""
        request = ConversationRequest(sid=route.sid, owner=route.owner, conversation=conversation)
        return await self._call(request)

    async def name(self, route: Route, conversation: str, title: str) -> ConversationSettings:
        """Name a conversation, which need not have begun."""
        await self._make(route)
        return await self._call(
            ConversationRequest(sid=route.sid, owner=route.owner, conversation=conversation, title=title)
        )

    async def choose(self, route: Route, conversation: str, model: str) -> ConversationSettings:
        """Choose a model that the Profile offers for a conversation, which need not have begun; empty: the Profile's own."""
        await self._make(route)
        return await self._call(
            ConversationRequest(sid=route.sid, owner=route.owner, conversation=conversation, model=model)
        )

    async def listed(self, route: Route, conversations: tuple[str, ...]) -> tuple[ListedConversation, ...]:
        """Describe those of the conversations in which something was said, newest activity first; none for a stranger."""
        request = ConversationsRequest(sid=route.sid, owner=route.owner, conversations=conversations[-MAX_LISTED:])
        try:
            found = await self.store.call(LIST_CONVERSATIONS, request, timeout_seconds=_SECONDS, patience_seconds=_SECONDS)
        except HermesError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return ()
            raise
        return found.conversations

    async def _make(self, route: Route) -> None:
        """A person may set a conversation up before he says anything in it."""
        request = CreateSessionRequest(route=route)
        await self.store.call(CREATE_SESSION, request, timeout_seconds=_SECONDS, patience_seconds=_SECONDS)

    async def _call(self, request: ConversationRequest) -> ConversationSettings:
        return await self.store.call(CONVERSATION, request, timeout_seconds=_SECONDS, patience_seconds=_SECONDS)


def said_again(last: Inbound, saying: Saying, place: Target | None) -> Inbound:
    """Return a message as a new one: same words and pictures, of the person who says it, answered where he says it."""
    return last.model_copy(
        update={
            "account": saying.account,
            "update_id": saying.update_id,
            "sender": saying.sender,
            "received_at": time.time(),
            "reply_to": place,
        }
    )


def offered_model(profile: ProfileProjection, word: str) -> str | None:
    """Return the choice that a word means, empty for the Profile's own model; None when there is none such."""
    if word.casefold() in (OWN_MODEL, profile.model.casefold()):
        return ""
    return next((name for name in profile.choices if name.casefold() == word.casefold()), None)


def model_in_use(profile: ProfileProjection, chosen: str) -> str:
    """Return the model that answers: what was chosen, while the Profile offers it."""
    return chosen if chosen in profile.choices else profile.model
