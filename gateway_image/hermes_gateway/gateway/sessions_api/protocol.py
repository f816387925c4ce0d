"""Bodies of the sessions API."""

from __future__ import annotations

import base64
import binascii
import json
import math
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hermes_contracts.conversation import Part, Role, Usage
from hermes_contracts.envelopes import MAX_TEXT_CHARACTERS, ConversationId
from hermes_contracts.names import SID_PATTERN
from hermes_contracts.store_api import OwnedSession, StoredMessage, Turn
from hermes_gateway.gateway.pictures import MAX_PICTURES, PictureUrl
from hermes_gateway.gateway.spending import Spending
from hermes_gateway.gateway.web.errors import ApiError

_MAX_COMMAND_CHARACTERS = 16_000


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CreateSession(_Body):
    """A new session, or the one that has this id already."""

    profile: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    id: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None
    """The client's own id for it; usable as `X-Hermes-Session-Id`."""
    title: Annotated[str, StringConstraints(max_length=200)] = ""


class PostMessage(_Body):
    """A message to a session: text, pictures, or both."""

    text: Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARACTERS)] = ""
    images: Annotated[list[str], Field(max_length=MAX_PICTURES)] = Field(default_factory=list)
    """`data:` URLs of PNG, JPEG, GIF or WebP pictures, at most 8 MiB each."""

    def pictures(self) -> tuple[PictureUrl, ...]:
        """Return the pictures, not decoded yet."""
        return tuple(PictureUrl(f"images.{n}", url) for n, url in enumerate(self.images))


class Directive(_Body):
    """What a running turn is told."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=_MAX_COMMAND_CHARACTERS, pattern=r"\S")]


class Compress(_Body):
    """Which conversation to compact; without one, the session's own."""

    conversation: ConversationId | None = None
    focus: Annotated[str, StringConstraints(max_length=_MAX_COMMAND_CHARACTERS)] = ""
    """What the summary should keep above all."""


class SessionView(BaseModel):
    """A session as its owner sees it. Times are seconds since the epoch."""

    id: str
    client_id: str
    """What `X-Hermes-Session-Id` says for it; empty when the session is not of this API."""
    channel: str
    namespace: str
    profile: str
    title: str
    created_at: float
    last_activity: float
    turns: int
    running_turns: int
    usage: Spending

    @classmethod
    def of(cls, session: OwnedSession) -> SessionView:
        """Show what the store knows."""
        channel = session.key.get("channel", "")
        return cls(
            id=session.sid,
            client_id=session.key.get("chat", "") if channel == "api" else "",
            channel=channel,
            usage=Spending.of(session.usage),
            **session.model_dump(
                include={"namespace", "profile", "title", "created_at", "last_activity", "turns", "running_turns"}
            ),
        )


class SessionPage(BaseModel):
    """Newest activity first. `next_cursor` goes into `cursor` for the next page; null at the end."""

    object: Literal["list"] = "list"
    data: list[SessionView]
    has_more: bool
    next_cursor: str | None


class TranscriptEntry(BaseModel):
    """One message. A turn's messages share its id; `sequence` is its place."""

    sequence: int
    turn: str
    role: Role
    parts: tuple[Part, ...]
    undone: bool = False
    """Taken back: the model does not see it any more."""

    @classmethod
    def of(cls, stored: StoredMessage) -> TranscriptEntry:
        """Show a stored message."""
        message = stored.message
        return cls(
            sequence=stored.sequence,
            turn=stored.turn_id,
            role=message.role,
            parts=message.parts,
            undone=stored.undone,
        )


class TranscriptPage(BaseModel):
    """Oldest first. With `has_more`, the last entry's `sequence` goes into `after` for the next page."""

    object: Literal["list"] = "list"
    data: list[TranscriptEntry]
    has_more: bool


class TurnView(BaseModel):
    """A message and what became of it. `waiting`: no agent has opened it yet."""

    session: str
    message_id: str
    state: Literal["waiting", "received", "running", "done", "failed", "merged", "dead"]
    turn: str = ""
    reply: str = ""
    reason: str = ""
    usage: Spending = Spending.of(Usage())

    @classmethod
    def of(cls, session: str, message_id: str, turn: Turn) -> TurnView:
        """Show what the store knows."""
        if not turn.found:
            return cls(session=session, message_id=message_id, state="waiting")
        return cls(
            session=session,
            message_id=message_id,
            state=str(turn.state),
            turn=turn.turn_id,
            reply=turn.reply,
            reason=turn.reason,
            usage=Spending.of(turn.usage),
        )


class CommandAnswer(BaseModel):
    """A command was recorded; `result` says what became of it, once the agent has carried it out."""

    command_id: str
    result: str | None


class _Cursor(BaseModel):
    before: tuple[float, Annotated[str, StringConstraints(pattern=SID_PATTERN)]] = Field()


def render_cursor(session: OwnedSession) -> str:
    """Return the cursor of the page after this session."""
    text = json.dumps([session.last_activity, session.sid])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def parse_cursor(text: str | None) -> tuple[float, str] | None:
    """Read a cursor. Raises ApiError 400."""
    if text is None:
        return None
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        before = _Cursor.model_validate({"before": json.loads(raw)}).before
        if not math.isfinite(before[0]):
            raise ValueError("not finite")
    except (ValueError, binascii.Error) as error:
        raise ApiError(
            400, "cursor: use the `next_cursor` of the page before", code="invalid_value", param="cursor"
        ) from error
    return before
