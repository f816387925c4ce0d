"""What people do with whole conversations: name them, choose their model, take exchanges back, find them again."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hermes_contracts.envelopes import ConversationId, Inbound, OwnerId, UpdateId
from hermes_contracts.names import Sid
from hermes_contracts.store_api.base import StoreModel

MAX_UNDONE = 20
"""Exchanges that are taken back at once."""
MAX_LISTED = 100
"""Conversations that are described at once."""

Title = Annotated[str, StringConstraints(max_length=200)]
ModelName = Annotated[str, StringConstraints(max_length=200)]


class ConversationRequest(StoreModel):
    """Read what a person has set for a conversation, or set it; None leaves a thing as it is.

    A conversation that has no message yet may be set up, too. A foreign session is not found.
    """

    sid: Sid
    owner: OwnerId
    conversation: ConversationId
    title: Title | None = None
    """Stays, whatever the agent would call it. It names the session, too, unless that is a person's for all places."""
    model: ModelName | None = None
    """One of the Profile's choices by name; empty: the Profile's own."""


class ConversationSettings(StoreModel):
    """How a conversation is called, by whomever, and which model a person chose for it; empty when nobody did."""

    title: str
    model: str


class UndoRequest(StoreModel):
    """Take the last exchanges of a conversation back: kept and marked for people, unseen by the model.

    Keyed by the platform's update id: the same request again answers as it did, and takes nothing more.
    """

    sid: Sid
    owner: OwnerId
    account: str
    update_id: UpdateId
    conversation: ConversationId
    exchanges: int = Field(default=1, ge=1, le=MAX_UNDONE)
    again: bool = False
    """Only a message that can be sent again is taken back: a person's own, no scheduled run and no answer to a question."""
    sender: Annotated[str, StringConstraints(max_length=256)] = ""
    """Only what this person wrote is taken back; empty: whoever wrote it."""
    waiting: int = Field(default=0, ge=0)
    """Messages of the session that are on the bus: more than its turns that run means that the last exchange is to come."""


class UndoReply(StoreModel):
    """What was taken back, newest first: fewer exchanges than asked for, when there were no more."""

    refused: Literal["", "busy", "waiting", "nothing", "compacted", "not_a_message", "not_yours"] = ""
    """`busy`: a turn of it runs, or it is being compacted. `waiting`: a message waits; ask again. `compacted`: what was said
    before has been summed up. All but `waiting` stay so for this update id."""
    taken: tuple[Annotated[str, StringConstraints(max_length=200)], ...] = ()
    """How their messages begin."""
    last: Inbound | None = None
    """The newest of them, where it is to be sent again."""


class ConversationsRequest(StoreModel):
    """Describe conversations of a session by id; those without a message are left out."""

    sid: Sid
    owner: OwnerId
    conversations: tuple[ConversationId, ...] = Field(max_length=MAX_LISTED)


class ListedConversation(StoreModel):
    """A conversation as its owner sees it. `begins` is how its first message begins."""

    conversation: ConversationId
    title: str
    begins: Annotated[str, StringConstraints(max_length=200)]
    turns: int
    last_activity: float
    """Seconds since the epoch."""


class Conversations(StoreModel):
    """Newest activity first."""

    conversations: tuple[ListedConversation, ...]
