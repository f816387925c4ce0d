"""What travels on the bus. Bodies are JSON of these models, at most `MAX_BODY_BYTES`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hermes_contracts import PROTOCOL_VERSION
from hermes_contracts.conversation import ImagePart, MediaId
from hermes_contracts.names import DnsLabel, ObjectName, RoutingKey, Sid

MAX_BODY_BYTES = 512 * 1024
MAX_TEXT_CHARACTERS = 200_000
"""Longest text of one message of a person."""

HEADER_MESSAGE_ID = "Nats-Msg-Id"
HEADER_ROUTE = "Hermes-Route"
"""JSON of `Route`: lets the operator make a session without reading what the person wrote."""
HEADER_SIGNATURE = "Hermes-Signature"
"""ed25519 by the gateway over subject, message id, route and body (hermes_service.signing)."""
HEADER_TRACE = "traceparent"

UpdateId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
OwnerId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
ConversationId = Annotated[str, StringConstraints(pattern=r"^c[a-z2-7]{25}$")]


class _Envelope(BaseModel):
    model_config = ConfigDict(frozen=True)

    version: int = PROTOCOL_VERSION


class Route(_Envelope):
    """The facts that make a session: who it belongs to, where it lives and which key it has."""

    sid: Sid
    namespace: DnsLabel
    profile: ObjectName
    owner: OwnerId
    key: RoutingKey


class Target(BaseModel):
    """A chat that an answer is sent to."""

    model_config = ConfigDict(frozen=True)

    channel: Annotated[str, StringConstraints(max_length=32)]
    account: Annotated[str, StringConstraints(max_length=256)]
    chat: Annotated[str, StringConstraints(max_length=256)] = ""
    thread: Annotated[str, StringConstraints(max_length=256)] = ""


class EarlierAnswer(BaseModel):
    """What another scheduled job said last."""

    model_config = ConfigDict(frozen=True)

    job: ObjectName
    text: Annotated[str, StringConstraints(max_length=16_000)]


class CronRun(BaseModel):
    """What makes a message a scheduled run: nobody waits for its answer, and `deliver` says who is sent it."""

    model_config = ConfigDict(frozen=True)

    job: ObjectName
    run: Annotated[str, StringConstraints(max_length=64)]
    """Which one: its scheduled minute in UTC, or `now-` and a hash."""
    channel: Annotated[str, StringConstraints(max_length=32)] = "cron"
    """Channel of the conversation that it continues; `cron` when it has one of its own."""
    toolsets: Annotated[tuple[str, ...], Field(max_length=16)] | None = None
    """Narrows the Profile's; None does not. A name that the Profile has not fails the run."""
    skills: Annotated[tuple[str, ...], Field(max_length=8)] = ()
    """What is read before the prompt, by name."""
    script: Annotated[str, StringConstraints(max_length=32_768)] = ""
    no_agent: bool = False
    context: Annotated[tuple[EarlierAnswer, ...], Field(max_length=5)] = ()
    deliver: Annotated[tuple[Target, ...], Field(max_length=8)] = ()


class Inbound(_Envelope):
    """One message of a person, as the agent gets it.

    `account` and `update_id` are the platform's own and identify the message for ever: a second delivery of the same
    update is the same turn.
    """

    sid: Sid
    conversation: ConversationId
    channel: Annotated[str, StringConstraints(max_length=32)]
    account: Annotated[str, StringConstraints(max_length=256)]
    update_id: UpdateId
    owner: OwnerId
    sender: Annotated[str, StringConstraints(max_length=256)] = ""
    text: Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARACTERS)]
    images: tuple[ImagePart, ...] = Field(default=(), max_length=16)
    """In the store already, under this session."""
    instructions: Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARACTERS)] = ""
    """What the caller adds to the system prompt; counts for the first turn of a conversation, then it is frozen."""
    received_at: float
    """Seconds since the epoch."""
    run: CronRun | None = None
    """Set when the clock sends it and not a person."""
    reply_to: Target | None = None
    """Chat that the answer goes to, where the session's key does not say: a person's session answers in many places."""
    toolsets: Annotated[tuple[str, ...], Field(max_length=16)] | None = None
    """What this message may make the agent use, of what its Profile has; None: all of it."""
    deliver: Annotated[tuple[Target, ...], Field(max_length=9)] = ()
    """Where the answer goes instead of where the message came from."""
    approval: Annotated[str, StringConstraints(max_length=64)] = ""
    """Set: the message says that a person answered this question of the agent's; what he said is in the store."""


def message_id(sid: str, channel: str, account: str, update_id: str) -> str:
    """Return the `Nats-Msg-Id` of an inbound message."""
    return f"{sid}/{channel}/{account}/{update_id}"


class Preview(_Envelope):
    """Tells whoever delivers for a session that a person waits in a chat, so that the answer can be shown as it grows."""

    inbound: Inbound


class Wake(_Envelope):
    """Tells the operators that a session has something to do."""

    route: Route


class Delta(_Envelope):
    """A piece of a running turn, as it happens; may be lost, never counts. `sequence` starts at 1 in each attempt."""

    turn_id: str
    attempt: int
    sequence: int
    kind: Literal["text", "reasoning", "tool_started", "tool_finished", "notice", "restart"]
    """`notice`: a sentence on what is going on. `restart`: text of the current answer so far is void."""
    text: str = ""
    tool: str = ""
    call_id: str = ""


class EventType(StrEnum):
    """What a durable event says."""

    TURN_STARTED = "turn.started"
    TOOL_STARTED = "tool.started"
    TOOL_FINISHED = "tool.finished"
    TURN_DONE = "turn.done"
    TURN_FAILED = "turn.failed"
    TURN_DEAD = "turn.dead"
    DELIVERY_FAILED = "delivery.failed"
    CONVERSATION_COMPACTED = "conversation.compacted"
    APPROVAL_REQUESTED = "approval.requested"
    APPROVAL_ANSWERED = "approval.answered"


class Event(_Envelope):
    """Something that happened to a session and will be remembered; published after the commit that made it true."""

    sid: Sid
    type: EventType
    conversation: str = ""
    turn_id: str = ""
    account: str = ""
    update_id: str = ""
    at: float
    data: dict[str, object] = Field(default_factory=dict)


MAX_CHOICES = 8
MAX_COMMAND_BYTES = 64
"""Of a choice: as much as every platform lets a button carry."""


class Choice(_Envelope):
    """Something a person may answer with one press. Pressing it says `command`, a slash command, in the person's name."""

    label: Annotated[str, StringConstraints(min_length=1, max_length=40)]
    command: Annotated[str, StringConstraints(pattern=r"^/[a-z]", max_length=MAX_COMMAND_BYTES)]


MAX_CAPTION_CHARACTERS = 1_000
"""As long as every platform takes below a file."""


class OutFile(BaseModel):
    """A file that goes with an answer. Its bytes are in the store under `media_id`, in the session that made it."""

    model_config = ConfigDict(frozen=True)

    id: Annotated[str, StringConstraints(pattern=r"^f[a-z2-7]{25}$")]
    media_id: MediaId
    name: Annotated[str, StringConstraints(pattern=r"^[^/\\\x00-\x1f\x7f]{1,120}$")]
    media_type: Annotated[str, StringConstraints(pattern=r"^[a-z]+/[a-z0-9.+_-]{1,100}$")]
    """What its name says it is; nobody has looked."""
    size: int = Field(ge=1)
    """Bytes."""
    caption: Annotated[str, StringConstraints(max_length=MAX_CAPTION_CHARACTERS)] = ""


class Outbound(_Envelope):
    """One part of an answer, to be sent by whoever owns the partition. `delivery_id` is the idempotency key."""

    delivery_id: str
    sid: Sid
    turn_id: str
    part: int
    parts: int
    channel: str
    account: str
    chat: str
    thread: str
    text: str
    target: int = 0
    """Which of several places this is for; parts of one wait for each other and for nobody else's."""
    namespace: str = ""
    """Namespace of the session, as the store knows it; an account that is not bound to it refuses the message."""
    traceparent: str = ""
    """Trace of the turn that made the answer; empty when it has none."""
    choices: tuple[Choice, ...] = Field(default=(), max_length=MAX_CHOICES)
    """Shown as buttons, or where a platform has none, as what to write."""
    file: OutFile | None = None
    """Set: the part is this file, and `text` its caption."""


class ControlHint(_Envelope):
    """On `hermes.ctl.<sid>`: there are commands in the store."""

    kind: Literal["commands"] = "commands"


class Drain(_Envelope):
    """On `hermes.ctl.<sid>.<epoch>`: stop pulling, finish or hand back, then report `drained`."""

    kind: Literal["drain"] = "drain"
    deadline_seconds: float = 20.0


class Credentials(_Envelope):
    """On `hermes.ctl.<sid>.<epoch>`: a fresh bus JWT for the same key, and a fresh token for the models service."""

    kind: Literal["credentials"] = "credentials"
    bus_jwt: str
    models_token: str


EpochOrder = Annotated[Drain | Credentials, Field(discriminator="kind")]
