"""The methods of the store: request, answer, and who may call each.

An agent calls `hermes.store.<sid>.<epoch>.<method>`, a service `hermes.svc.<role>.<method>`; the bus enforces the subject,
so the store takes sid, epoch and role from there and never from a body. A request is JSON; the answer is a `Reply`.
Every method may be repeated: a write that was done answers as it did the first time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel

from hermes_contracts.store_api.approvals import (
    AnswerApprovalReply as AnswerApprovalReply,
)
from hermes_contracts.store_api.approvals import (
    AnswerApprovalRequest as AnswerApprovalRequest,
)
from hermes_contracts.store_api.approvals import (
    Approval as Approval,
)
from hermes_contracts.store_api.approvals import (
    ApprovalIdRequest as ApprovalIdRequest,
)
from hermes_contracts.store_api.approvals import (
    Approvals as Approvals,
)
from hermes_contracts.store_api.approvals import (
    AskApprovalReply as AskApprovalReply,
)
from hermes_contracts.store_api.approvals import (
    AskApprovalRequest as AskApprovalRequest,
)
from hermes_contracts.store_api.approvals import (
    Grant as Grant,
)
from hermes_contracts.store_api.approvals import (
    Grants as Grants,
)
from hermes_contracts.store_api.approvals import (
    GrantsRequest as GrantsRequest,
)
from hermes_contracts.store_api.approvals import (
    ListApprovalsRequest as ListApprovalsRequest,
)
from hermes_contracts.store_api.approvals import (
    RevokeGrantRequest as RevokeGrantRequest,
)
from hermes_contracts.store_api.base import (
    Empty as Empty,
)
from hermes_contracts.store_api.base import (
    Reply as Reply,
)
from hermes_contracts.store_api.for_agents import (
    MAX_COMPACTED_BYTES as MAX_COMPACTED_BYTES,
)
from hermes_contracts.store_api.for_agents import (
    SETTLED as SETTLED,
)
from hermes_contracts.store_api.for_agents import (
    WAKING_COMMANDS as WAKING_COMMANDS,
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
    CompactReply as CompactReply,
)
from hermes_contracts.store_api.for_agents import (
    CompactRequest as CompactRequest,
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
    SetTitleRequest as SetTitleRequest,
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
    MAX_MEDIA_BYTES as MAX_MEDIA_BYTES,
)
from hermes_contracts.store_api.for_models import (
    MEDIA_PAGE_BYTES as MEDIA_PAGE_BYTES,
)
from hermes_contracts.store_api.for_models import (
    GetMediaRequest as GetMediaRequest,
)
from hermes_contracts.store_api.for_models import (
    LoginReply as LoginReply,
)
from hermes_contracts.store_api.for_models import (
    LoginRequest as LoginRequest,
)
from hermes_contracts.store_api.for_models import (
    MediaPage as MediaPage,
)
from hermes_contracts.store_api.for_models import (
    PutLoginRequest as PutLoginRequest,
)
from hermes_contracts.store_api.for_models import (
    PutMediaRequest as PutMediaRequest,
)
from hermes_contracts.store_api.for_models import (
    RecordUsageRequest as RecordUsageRequest,
)
from hermes_contracts.store_api.for_models import (
    SpentReply as SpentReply,
)
from hermes_contracts.store_api.for_models import (
    SpentRequest as SpentRequest,
)
from hermes_contracts.store_api.for_operator import (
    MAX_GONE_SESSIONS as MAX_GONE_SESSIONS,
)
from hermes_contracts.store_api.for_operator import (
    MAX_NAMESPACES as MAX_NAMESPACES,
)
from hermes_contracts.store_api.for_operator import (
    MAX_WAITING_COMMANDS as MAX_WAITING_COMMANDS,
)
from hermes_contracts.store_api.for_operator import (
    BuryRequest as BuryRequest,
)
from hermes_contracts.store_api.for_operator import (
    CronTurn as CronTurn,
)
from hermes_contracts.store_api.for_operator import (
    CronTurns as CronTurns,
)
from hermes_contracts.store_api.for_operator import (
    CronTurnsRequest as CronTurnsRequest,
)
from hermes_contracts.store_api.for_operator import (
    GoneNamespacesRequest as GoneNamespacesRequest,
)
from hermes_contracts.store_api.for_operator import (
    GoneSessions as GoneSessions,
)
from hermes_contracts.store_api.for_operator import (
    ProfileSpend as ProfileSpend,
)
from hermes_contracts.store_api.for_operator import (
    ProfileSpendRequest as ProfileSpendRequest,
)
from hermes_contracts.store_api.for_operator import (
    ProfileSpends as ProfileSpends,
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
    SessionNamespaces as SessionNamespaces,
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
from hermes_contracts.store_api.for_operator import (
    WaitingCommands as WaitingCommands,
)
from hermes_contracts.store_api.people import (
    PAIRING_ALPHABET as PAIRING_ALPHABET,
)
from hermes_contracts.store_api.people import (
    PAIRING_CHARACTERS as PAIRING_CHARACTERS,
)
from hermes_contracts.store_api.people import (
    ApprovePairingReply as ApprovePairingReply,
)
from hermes_contracts.store_api.people import (
    ApprovePairingRequest as ApprovePairingRequest,
)
from hermes_contracts.store_api.people import (
    PairedPerson as PairedPerson,
)
from hermes_contracts.store_api.people import (
    PairedReply as PairedReply,
)
from hermes_contracts.store_api.people import (
    PairedRequest as PairedRequest,
)
from hermes_contracts.store_api.people import (
    Pairings as Pairings,
)
from hermes_contracts.store_api.people import (
    PairingsRequest as PairingsRequest,
)
from hermes_contracts.store_api.people import (
    PeopleEvent as PeopleEvent,
)
from hermes_contracts.store_api.people import (
    RequestPairingReply as RequestPairingReply,
)
from hermes_contracts.store_api.people import (
    RequestPairingRequest as RequestPairingRequest,
)
from hermes_contracts.store_api.people import (
    RevokePairingRequest as RevokePairingRequest,
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
COMPACT = _method("compact", CompactRequest, CompactReply, "agent")
SET_TITLE = _method("set_title", SetTitleRequest, Empty, "agent")
TAKE_COMMANDS = _method("take_commands", Empty, TakeCommandsReply, "agent")
FINISH_COMMAND = _method("finish_command", FinishCommandRequest, Empty, "agent")

RAISE_EPOCH = _method("raise_epoch", RaiseEpochRequest, RaiseEpochReply, "operator")
SUMMARIES = _method("summaries", SessionIdsRequest, SessionSummaries, "operator")
WAITING_COMMANDS = _method("waiting_commands", Empty, WaitingCommands, "operator")
SESSION_NAMESPACES = _method("session_namespaces", Empty, SessionNamespaces, "operator")
GONE_NAMESPACES = _method("gone_namespaces", GoneNamespacesRequest, GoneSessions, "operator")
BURY = _method("bury", BuryRequest, Empty, "operator")
PURGE = _method("purge", SidRequest, Empty, "operator")

PROFILE_SPEND = _method("profile_spend", ProfileSpendRequest, ProfileSpends, "operator")

CRON_TURNS = _method("cron_turns", CronTurnsRequest, CronTurns, "operator")

PUT_COMMAND = _method("put_command", PutCommandRequest, PutCommandReply, "gateway", "operator")
CREATE_SESSION = _method("create_session", CreateSessionRequest, OwnedSession, "gateway")
GET_SESSION = _method("get_session", OwnedSessionRequest, OwnedSession, "gateway")
LIST_SESSIONS = _method("list_sessions", ListSessionsRequest, ListSessionsReply, "gateway")
DELETE_SESSION = _method("delete_session", OwnedSessionRequest, Empty, "gateway")
TRANSCRIPT = _method("transcript", TranscriptRequest, TranscriptReply, "gateway")
GET_TURN = _method("get_turn", GetTurnRequest, Turn, "gateway")
BEGIN_DELIVERY = _method("begin_delivery", BeginDeliveryRequest, BeginDeliveryReply, "gateway")
FINISH_DELIVERY = _method("finish_delivery", FinishDeliveryRequest, Empty, "gateway")

ASK_APPROVAL = _method("ask_approval", AskApprovalRequest, AskApprovalReply, "agent")
GET_APPROVAL = _method("get_approval", ApprovalIdRequest, Approval, "agent")
ANSWER_APPROVAL = _method("answer_approval", AnswerApprovalRequest, AnswerApprovalReply, "gateway")
LIST_APPROVALS = _method("list_approvals", ListApprovalsRequest, Approvals, "gateway")
LIST_GRANTS = _method("list_grants", GrantsRequest, Grants, "gateway")
REVOKE_GRANT = _method("revoke_grant", RevokeGrantRequest, Empty, "gateway")

REQUEST_PAIRING = _method("request_pairing", RequestPairingRequest, RequestPairingReply, "gateway")
APPROVE_PAIRING = _method("approve_pairing", ApprovePairingRequest, ApprovePairingReply, "gateway")
PAIRED = _method("paired", PairedRequest, PairedReply, "gateway")
REVOKE_PAIRING = _method("revoke_pairing", RevokePairingRequest, Empty, "gateway")
LIST_PAIRINGS = _method("list_pairings", PairingsRequest, Pairings, "gateway")

PUT_MEDIA = _method("put_media", PutMediaRequest, Empty, "gateway", "agent")
GET_MEDIA = _method("get_media", GetMediaRequest, MediaPage, "models", "agent")

RECORD_USAGE = _method("record_usage", RecordUsageRequest, Empty, "models")
SPENT = _method("spent", SpentRequest, SpentReply, "models")
GET_LOGIN = _method("get_login", LoginRequest, LoginReply, "models")
PUT_LOGIN = _method("put_login", PutLoginRequest, LoginReply, "models")

METHODS: tuple[Method[BaseModel, BaseModel], ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Method)
)
