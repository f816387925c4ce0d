"""The methods of the store: request, answer, and who may call each.

An agent calls `hermes.store.<sid>.<epoch>.<method>`, a service `hermes.svc.<role>.<method>`; the bus enforces the subject,
so the store takes sid, epoch and role from there and never from a body. A request is JSON; the answer is a `Reply`.
Every method may be repeated: a write that was done answers as it did the first time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hermes_contracts import PROTOCOL_VERSION
from hermes_contracts.conversation import Message, ToolSpec, Usage
from hermes_contracts.envelopes import ConversationId, Inbound, OwnerId, Route, UpdateId
from hermes_contracts.errors import ErrorBody
from hermes_contracts.names import DnsLabel, Sid


class _Model(BaseModel):
    # Built at first use: a process uses a part of these, and building them all is a third of an agent's import time.
    model_config = ConfigDict(frozen=True, defer_build=True)

    version: int = PROTOCOL_VERSION


class Reply(_Model):
    """What travels back: exactly one of the two."""

    result: dict[str, object] | None = None
    error: ErrorBody | None = None


class Empty(_Model):
    """Nothing to say."""


# ---- what an agent calls -----------------------------------------------------------------------------------------------


class AgentState(StrEnum):
    """What an agent says of itself."""

    READY = "ready"
    BUSY = "busy"
    IDLE = "idle"
    DRAINED = "drained"


class ReportRequest(_Model):
    """The agent's own word on its state; operators listen to the same subject."""

    state: AgentState
    pod: str
    startup_milliseconds: dict[str, float] = Field(default_factory=dict)
    """On `ready` only: breakdown of the start, by phase."""


class ReportReply(_Model):
    """`interrupted_acks` are ack subjects of messages that an earlier life of this same epoch had pulled."""

    interrupted_acks: tuple[str, ...] = ()


class TurnState(StrEnum):
    """Where a turn is."""

    RECEIVED = "received"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    MERGED = "merged"
    DEAD = "dead"


SETTLED = frozenset({TurnState.DONE, TurnState.FAILED, TurnState.MERGED, TurnState.DEAD})


class JournalEntry(_Model):
    """One tool call of a turn: recorded before it starts and after it ended."""

    call_id: str
    tool: str
    state: Literal["started", "finished"]


class OpenTurnRequest(_Model):
    """Insert-or-get on (sid, channel account, update id). Counts an attempt when it finds an unfinished turn."""

    inbound: Inbound
    ack_subject: str
    stream_sequence: int


class OpenTurnReply(_Model):
    """`state` RUNNING: go on at `next_step` (messages of earlier steps are in the transcript, their journal here).

    A settled state: nothing to run; the store has sent the stored answer again; acknowledge the message.
    """

    turn_id: str
    state: TurnState
    attempt: int
    next_step: int
    journal: tuple[JournalEntry, ...] = ()


class LoadRequest(_Model):
    """A page of a conversation's transcript, oldest first."""

    conversation: ConversationId
    after: int = 0
    limit: int = Field(default=200, ge=1, le=1000)


class StoredMessage(_Model):
    """A message with its place in the conversation; `turn_id` and `step` say which write made it."""

    sequence: int
    turn_id: str
    step: int
    message: Message


class LoadReply(_Model):
    """`more` says whether to ask for what follows the last sequence. Pages are cut so that a reply fits the bus."""

    prompt: FrozenPrompt | None
    messages: tuple[StoredMessage, ...]
    more: bool


class FrozenPrompt(_Model):
    """The system prompt and the tools of a conversation, replayed byte for byte until something rebuilds them."""

    system: str
    tools: tuple[ToolSpec, ...]


class FreezePromptRequest(_Model):
    """Insert-or-get: the first one stays."""

    conversation: ConversationId
    prompt: FrozenPrompt


class FreezePromptReply(_Model):
    """What is stored."""

    prompt: FrozenPrompt


class AppendRequest(_Model):
    """One step of a turn: messages and what they say of tool calls, in one transaction, unique on (turn, step)."""

    turn_id: str
    step: int
    messages: tuple[Message, ...]
    journal: tuple[JournalEntry, ...] = ()
    usage: Usage = Usage()


class AppendReply(_Model):
    """Sequence of the last message written."""

    sequence: int


class CommitRequest(_Model):
    """The last step: messages, the answer, the outcome, the usage, the outbox rows, under the session's row lock."""

    turn_id: str
    step: int
    messages: tuple[Message, ...]
    outcome: Literal["done", "failed"]
    reason: Annotated[str, StringConstraints(max_length=64)] = ""
    """Machine-readable end: stop, stopped_by_user, iteration_limit, time_limit, model_error, ..."""
    reply: str
    """What the person reads, answer or plain error."""
    usage: Usage = Usage()


class CommandKind(StrEnum):
    """Control commands."""

    STOP = "stop"


class Command(_Model):
    """A control command on its way to an agent."""

    command_id: str
    kind: CommandKind
    arguments: dict[str, str] = Field(default_factory=dict)
    created_at: float


class TakeCommandsReply(_Model):
    """Commands that nobody finished, oldest first."""

    commands: tuple[Command, ...]


class FinishCommandRequest(_Model):
    """What became of a command, in words for the person."""

    command_id: str
    result: Annotated[str, StringConstraints(max_length=2000)]


# ---- what the operator calls -------------------------------------------------------------------------------------------


class RaiseEpochRequest(_Model):
    """Compare-and-set; makes the session's row when `expected` is 0 and there is none. CONFLICT when it lost."""

    route: Route
    expected: int = Field(ge=0)


class RaiseEpochReply(_Model):
    """The epoch that is now the session's."""

    epoch: int


class SessionIdsRequest(_Model):
    """Sessions to look up."""

    sids: tuple[Sid, ...] = Field(max_length=500)


class SessionSummary(_Model):
    """What a HermesSession's status mirrors."""

    sid: Sid
    epoch: int
    last_activity: float
    turns: int
    running_turns: int
    open_commands: int
    usage: Usage
    failed_deliveries: int
    last_error: str = ""


class SessionSummaries(_Model):
    """Those of the asked sessions that exist."""

    sessions: tuple[SessionSummary, ...]


class SidRequest(_Model):
    """One session."""

    sid: Sid


class BuryRequest(_Model):
    """Give a message up: the turn becomes dead, the message goes to the dead-letter stream, the person is told."""

    inbound: Inbound
    reason: str


# ---- what the gateway calls --------------------------------------------------------------------------------------------


class PutCommandRequest(_Model):
    """Durable, keyed by the platform's update id; the owner must match the session's."""

    sid: Sid
    owner: OwnerId
    account: str
    update_id: UpdateId
    kind: CommandKind
    arguments: dict[str, str] = Field(default_factory=dict)


class PutCommandReply(_Model):
    """Id of the row, and its result if it is finished already."""

    command_id: str
    result: str | None = None


class CreateSessionRequest(_Model):
    """Make the row of a session that has no message yet; insert-or-get."""

    route: Route
    title: Annotated[str, StringConstraints(max_length=200)] = ""


class OwnedSession(_Model):
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


class OwnedSessionRequest(_Model):
    """A session by owner and id: a foreign id is not found."""

    sid: Sid
    owner: OwnerId


class ListSessionsRequest(_Model):
    """An owner's sessions, newest activity first; `before` pages by (last activity, sid)."""

    owner: OwnerId
    namespace: DnsLabel
    profile: str | None = None
    before: tuple[float, str] | None = None
    limit: int = Field(default=50, ge=1, le=200)


class ListSessionsReply(_Model):
    """`more` says whether to ask again."""

    sessions: tuple[OwnedSession, ...]
    more: bool


class TranscriptRequest(_Model):
    """A page of a conversation, by owner; without a conversation, all of the session's messages."""

    sid: Sid
    owner: OwnerId
    conversation: ConversationId | None = None
    after: int = 0
    limit: int = Field(default=100, ge=1, le=500)


class TranscriptReply(_Model):
    """`more` says whether to ask again."""

    messages: tuple[StoredMessage, ...]
    more: bool


class GetTurnRequest(_Model):
    """A turn by what the platform calls its message."""

    sid: Sid
    owner: OwnerId
    channel: str
    account: str
    update_id: UpdateId


class Turn(_Model):
    """A turn as its owner sees it; `reply` is there once it is settled. `found` False: no agent has opened it yet."""

    found: bool
    turn_id: str = ""
    state: TurnState = TurnState.RECEIVED
    reply: str = ""
    reason: str = ""
    usage: Usage = Usage()


class BeginDeliveryRequest(_Model):
    """Say that a part is about to be sent. Refused (`proceed` False) when it was delivered, or the part before was not."""

    delivery_id: str
    holder: str
    """Who sends: gateway instance and lease revision."""


class BeginDeliveryReply(_Model):
    """`attempts` counts this one. `uncertain` is True when an earlier attempt began and never ended."""

    proceed: bool
    state: Literal["attempting", "delivered", "failed", "waiting", "unknown"]
    attempts: int
    uncertain: bool = False


class FinishDeliveryRequest(_Model):
    """How it ended. `retry` keeps the part pending; `failed` is for good and becomes visible."""

    delivery_id: str
    holder: str
    outcome: Literal["delivered", "retry", "failed"]
    platform_message_id: str = ""
    error: Annotated[str, StringConstraints(max_length=500)] = ""


# ---- what the models service calls -------------------------------------------------------------------------------------


class RecordUsageRequest(_Model):
    """Usage of one model call, unique on (sid, turn, step, attempt id)."""

    sid: Sid
    epoch: int
    turn_id: str
    step: int
    call_id: str
    provider: str
    model: str
    usage: Usage
    outcome: str
    milliseconds: float


Req = TypeVar("Req", bound=BaseModel)
Rep = TypeVar("Rep", bound=BaseModel)

Caller = Literal["agent", "operator", "gateway", "models"]


@dataclass(frozen=True)
class Method(Generic[Req, Rep]):
    """One method of the store."""

    name: str
    request: type[Req]
    reply: type[Rep]
    callers: frozenset[Caller]


def _method(name: str, request: type[Req], reply: type[Rep], *callers: Caller) -> Method[Req, Rep]:
    return Method(name, request, reply, frozenset(callers))


LoadReply.model_rebuild()

REPORT = _method("report", ReportRequest, ReportReply, "agent")
OPEN_TURN = _method("open_turn", OpenTurnRequest, OpenTurnReply, "agent")
LOAD = _method("load", LoadRequest, LoadReply, "agent")
FREEZE_PROMPT = _method("freeze_prompt", FreezePromptRequest, FreezePromptReply, "agent")
APPEND = _method("append", AppendRequest, AppendReply, "agent")
COMMIT = _method("commit", CommitRequest, Empty, "agent")
TAKE_COMMANDS = _method("take_commands", Empty, TakeCommandsReply, "agent")
FINISH_COMMAND = _method("finish_command", FinishCommandRequest, Empty, "agent")

RAISE_EPOCH = _method("raise_epoch", RaiseEpochRequest, RaiseEpochReply, "operator")
SUMMARIES = _method("summaries", SessionIdsRequest, SessionSummaries, "operator")
BURY = _method("bury", BuryRequest, Empty, "operator")
PURGE = _method("purge", SidRequest, Empty, "operator")

PUT_COMMAND = _method("put_command", PutCommandRequest, PutCommandReply, "gateway")
CREATE_SESSION = _method("create_session", CreateSessionRequest, OwnedSession, "gateway")
GET_SESSION = _method("get_session", OwnedSessionRequest, OwnedSession, "gateway")
LIST_SESSIONS = _method("list_sessions", ListSessionsRequest, ListSessionsReply, "gateway")
DELETE_SESSION = _method("delete_session", OwnedSessionRequest, Empty, "gateway")
TRANSCRIPT = _method("transcript", TranscriptRequest, TranscriptReply, "gateway")
GET_TURN = _method("get_turn", GetTurnRequest, Turn, "gateway")
BEGIN_DELIVERY = _method("begin_delivery", BeginDeliveryRequest, BeginDeliveryReply, "gateway")
FINISH_DELIVERY = _method("finish_delivery", FinishDeliveryRequest, Empty, "gateway")

RECORD_USAGE = _method("record_usage", RecordUsageRequest, Empty, "models")

METHODS: tuple[Method[BaseModel, BaseModel], ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Method)
)
