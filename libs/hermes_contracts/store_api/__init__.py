"""The methods of the store: request, answer, and who may call each.

An agent calls `hermes.store.<sid>.<epoch>.<method>`, a service `hermes.svc.<role>.<method>`; the bus enforces the subject,
so the store takes sid, epoch and role from there and never from a body. A request is JSON; the answer is a `Reply`.
Every method may be repeated: a write that was done answers as it did the first time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel

from hermes_contracts.store_api.base import (
    Empty as Empty,
)
from hermes_contracts.store_api.base import (
    Reply as Reply,
)
from hermes_contracts.store_api.for_agents import (
    SETTLED as SETTLED,
)
from hermes_contracts.store_api.for_agents import (
    AgentState as AgentState,
)
from hermes_contracts.store_api.for_agents import (
    AppendReply as AppendReply,
)
from hermes_contracts.store_api.for_agents import (
    AppendRequest as AppendRequest,
)
from hermes_contracts.store_api.for_agents import (
    Command as Command,
)
from hermes_contracts.store_api.for_agents import (
    CommandKind as CommandKind,
)
from hermes_contracts.store_api.for_agents import (
    CommitRequest as CommitRequest,
)
from hermes_contracts.store_api.for_agents import (
    FinishCommandRequest as FinishCommandRequest,
)
from hermes_contracts.store_api.for_agents import (
    FreezePromptReply as FreezePromptReply,
)
from hermes_contracts.store_api.for_agents import (
    FreezePromptRequest as FreezePromptRequest,
)
from hermes_contracts.store_api.for_agents import (
    FrozenPrompt as FrozenPrompt,
)
from hermes_contracts.store_api.for_agents import (
    JournalEntry as JournalEntry,
)
from hermes_contracts.store_api.for_agents import (
    LoadReply as LoadReply,
)
from hermes_contracts.store_api.for_agents import (
    LoadRequest as LoadRequest,
)
from hermes_contracts.store_api.for_agents import (
    OpenTurnReply as OpenTurnReply,
)
from hermes_contracts.store_api.for_agents import (
    OpenTurnRequest as OpenTurnRequest,
)
from hermes_contracts.store_api.for_agents import (
    ReportReply as ReportReply,
)
from hermes_contracts.store_api.for_agents import (
    ReportRequest as ReportRequest,
)
from hermes_contracts.store_api.for_agents import (
    StoredMessage as StoredMessage,
)
from hermes_contracts.store_api.for_agents import (
    TakeCommandsReply as TakeCommandsReply,
)
from hermes_contracts.store_api.for_agents import (
    TurnState as TurnState,
)
from hermes_contracts.store_api.for_gateway import (
    BeginDeliveryReply as BeginDeliveryReply,
)
from hermes_contracts.store_api.for_gateway import (
    BeginDeliveryRequest as BeginDeliveryRequest,
)
from hermes_contracts.store_api.for_gateway import (
    CreateSessionRequest as CreateSessionRequest,
)
from hermes_contracts.store_api.for_gateway import (
    FinishDeliveryRequest as FinishDeliveryRequest,
)
from hermes_contracts.store_api.for_gateway import (
    GetTurnRequest as GetTurnRequest,
)
from hermes_contracts.store_api.for_gateway import (
    ListSessionsReply as ListSessionsReply,
)
from hermes_contracts.store_api.for_gateway import (
    ListSessionsRequest as ListSessionsRequest,
)
from hermes_contracts.store_api.for_gateway import (
    OwnedSession as OwnedSession,
)
from hermes_contracts.store_api.for_gateway import (
    OwnedSessionRequest as OwnedSessionRequest,
)
from hermes_contracts.store_api.for_gateway import (
    PutCommandReply as PutCommandReply,
)
from hermes_contracts.store_api.for_gateway import (
    PutCommandRequest as PutCommandRequest,
)
from hermes_contracts.store_api.for_gateway import (
    TranscriptReply as TranscriptReply,
)
from hermes_contracts.store_api.for_gateway import (
    TranscriptRequest as TranscriptRequest,
)
from hermes_contracts.store_api.for_gateway import (
    Turn as Turn,
)
from hermes_contracts.store_api.for_models import (
    RecordUsageRequest as RecordUsageRequest,
)
from hermes_contracts.store_api.for_operator import (
    BuryRequest as BuryRequest,
)
from hermes_contracts.store_api.for_operator import (
    RaiseEpochReply as RaiseEpochReply,
)
from hermes_contracts.store_api.for_operator import (
    RaiseEpochRequest as RaiseEpochRequest,
)
from hermes_contracts.store_api.for_operator import (
    SessionIdsRequest as SessionIdsRequest,
)
from hermes_contracts.store_api.for_operator import (
    SessionSummaries as SessionSummaries,
)
from hermes_contracts.store_api.for_operator import (
    SessionSummary as SessionSummary,
)
from hermes_contracts.store_api.for_operator import (
    SidRequest as SidRequest,
)

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
