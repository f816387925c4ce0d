"""What the gateway calls: commands, sessions by owner, transcripts, deliveries."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hermes_contracts.conversation import Usage
from hermes_contracts.envelopes import ConversationId, OwnerId, Route, UpdateId
from hermes_contracts.names import DnsLabel, Sid
from hermes_contracts.store_api.base import StoreModel
from hermes_contracts.store_api.for_agents import CommandKind, StoredMessage, TurnState


class PutCommandRequest(StoreModel):
    """Durable, keyed by the platform's update id; the owner must match the session's."""

    sid: Sid
    owner: OwnerId
    account: str
    update_id: UpdateId
    kind: CommandKind
    arguments: dict[str, str] = Field(default_factory=dict)


class PutCommandReply(StoreModel):
    """Id of the row, and its result if it is finished already."""

    command_id: str
    result: str | None = None


class CreateSessionRequest(StoreModel):
    """Make the row of a session that has no message yet; insert-or-get."""

    route: Route
    title: Annotated[str, StringConstraints(max_length=200)] = ""


class OwnedSession(StoreModel):
    """A session as its owner sees it."""

    sid: Sid
    namespace: DnsLabel
    profile: str
    key: dict[str, str]
    title: str
    created_at: float
    last_activity: float
    turns: int
    running_turns: int
    usage: Usage


class OwnedSessionRequest(StoreModel):
    """A session by owner and id: a foreign id is not found."""

    sid: Sid
    owner: OwnerId


class ListSessionsRequest(StoreModel):
    """An owner's sessions, newest activity first; `before` pages by (last activity, sid)."""

    owner: OwnerId
    namespace: DnsLabel
    profile: str | None = None
    before: tuple[float, str] | None = None
    limit: int = Field(default=50, ge=1, le=200)


class ListSessionsReply(StoreModel):
    """`more` says whether to ask again."""

    sessions: tuple[OwnedSession, ...]
    more: bool


class TranscriptRequest(StoreModel):
    """A page of a conversation, by owner; without a conversation, all of the session's messages."""

    sid: Sid
    owner: OwnerId
    conversation: ConversationId | None = None
    after: int = 0
    limit: int = Field(default=100, ge=1, le=500)


class TranscriptReply(StoreModel):
    """`more` says whether to ask again."""

    messages: tuple[StoredMessage, ...]
    more: bool


class GetTurnRequest(StoreModel):
    """A turn by what the platform calls its message."""

    sid: Sid
    owner: OwnerId
    channel: str
    account: str
    update_id: UpdateId


class Turn(StoreModel):
    """A turn as its owner sees it; `reply` is there once it is settled. `found` False: no agent has opened it yet."""

    found: bool
    turn_id: str = ""
    state: TurnState = TurnState.RECEIVED
    reply: str = ""
    reason: str = ""
    usage: Usage = Usage()


class BeginDeliveryRequest(StoreModel):
    """Say that a part is about to be sent. Refused (`proceed` False) when it was delivered, or the part before was not."""

    delivery_id: str
    holder: str
    """Who sends: gateway instance and lease revision."""


class BeginDeliveryReply(StoreModel):
    """`attempts` counts this one. `uncertain` is True when an earlier attempt began and never ended."""

    proceed: bool
    state: Literal["attempting", "delivered", "failed", "waiting", "unknown"]
    attempts: int
    uncertain: bool = False


class FinishDeliveryRequest(StoreModel):
    """How it ended. `retry` keeps the part pending; `failed` is for good and becomes visible."""

    delivery_id: str
    holder: str
    outcome: Literal["delivered", "retry", "failed"]
    platform_message_id: str = ""
    error: Annotated[str, StringConstraints(max_length=500)] = ""
