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
    AnswerApprovalRequest as AnswerApprovalRequest,
    Approval as Approval,
    ApprovalIdRequest as ApprovalIdRequest,
    Approvals as Approvals,
    AskApprovalReply as AskApprovalReply,
    AskApprovalRequest as AskApprovalRequest,
    Grant as Grant,
    Grants as Grants,
    GrantsRequest as GrantsRequest,
    ListApprovalsRequest as ListApprovalsRequest,
    RevokeGrantRequest as RevokeGrantRequest,
)
from hermes_contracts.store_api.base import (
    Empty as Empty,
    Reply as Reply,
)
from hermes_contracts.store_api.conversations import (
    MAX_LISTED as MAX_LISTED,
    MAX_UNDONE as MAX_UNDONE,
    ConversationRequest as ConversationRequest,
    Conversations as Conversations,
    ConversationSettings as ConversationSettings,
    ConversationsRequest as ConversationsRequest,
    ListedConversation as ListedConversation,
    UndoReply as UndoReply,
    UndoRequest as UndoRequest,
)
from hermes_contracts.store_api.files import (
    MAX_TURN_FILES as MAX_TURN_FILES,
    FileRequest as FileRequest,
    FilesRequest as FilesRequest,
    HomeRequest as HomeRequest,
    Homes as Homes,
    HomesRequest as HomesRequest,
    OfferFileReply as OfferFileReply,
    OfferFileRequest as OfferFileRequest,
    SetHomeRequest as SetHomeRequest,
    StoredFile as StoredFile,
    StoredFiles as StoredFiles,
)
from hermes_contracts.store_api.for_agents import (
    MAX_COMPACTED_BYTES as MAX_COMPACTED_BYTES,
    SETTLED as SETTLED,
    WAKING_COMMANDS as WAKING_COMMANDS,
    AgentState as AgentState,
    AppendReply as AppendReply,
    AppendRequest as AppendRequest,
    Command as Command,
    CommandKind as CommandKind,
    CommitRequest as CommitRequest,
    CompactReply as CompactReply,
    CompactRequest as CompactRequest,
    FinishCommandRequest as FinishCommandRequest,
    FreezePromptReply as FreezePromptReply,
    FreezePromptRequest as FreezePromptRequest,
    FrozenPrompt as FrozenPrompt,
    JournalEntry as JournalEntry,
    LoadReply as LoadReply,
    LoadRequest as LoadRequest,
    OpenTurnReply as OpenTurnReply,
    OpenTurnRequest as OpenTurnRequest,
    ReportReply as ReportReply,
    ReportRequest as ReportRequest,
    SetTitleRequest as SetTitleRequest,
    StoredMessage as StoredMessage,
    TakeCommandsReply as TakeCommandsReply,
    TurnState as TurnState,
)
from hermes_contracts.store_api.for_gateway import (
    BeginDeliveryReply as BeginDeliveryReply,
    BeginDeliveryRequest as BeginDeliveryRequest,
    CreateSessionRequest as CreateSessionRequest,
    FinishDeliveryRequest as FinishDeliveryRequest,
    GetTurnRequest as GetTurnRequest,
    ListSessionsReply as ListSessionsReply,
    ListSessionsRequest as ListSessionsRequest,
    OwnedSession as OwnedSession,
    OwnedSessionRequest as OwnedSessionRequest,
    PutCommandReply as PutCommandReply,
    PutCommandRequest as PutCommandRequest,
    TranscriptReply as TranscriptReply,
    TranscriptRequest as TranscriptRequest,
    Turn as Turn,
)
from hermes_contracts.store_api.for_models import (
    MAX_DESCRIBED as MAX_DESCRIBED,
    MAX_DESCRIPTION_CHARACTERS as MAX_DESCRIPTION_CHARACTERS,
    MAX_MEDIA_BYTES as MAX_MEDIA_BYTES,
    MEDIA_PAGE_BYTES as MEDIA_PAGE_BYTES,
    DescribeMediaRequest as DescribeMediaRequest,
    Descriptions as Descriptions,
    DescriptionsRequest as DescriptionsRequest,
    GetMediaRequest as GetMediaRequest,
    LoginReply as LoginReply,
    LoginRequest as LoginRequest,
    MediaPage as MediaPage,
    PutLoginRequest as PutLoginRequest,
    PutMediaRequest as PutMediaRequest,
    RecordUsageRequest as RecordUsageRequest,
    SpentReply as SpentReply,
    SpentRequest as SpentRequest,
)
from hermes_contracts.store_api.for_operator import (
    MAX_GONE_SESSIONS as MAX_GONE_SESSIONS,
    MAX_NAMESPACES as MAX_NAMESPACES,
    MAX_WAITING_COMMANDS as MAX_WAITING_COMMANDS,
    BuryRequest as BuryRequest,
    CronTurn as CronTurn,
    CronTurns as CronTurns,
    CronTurnsRequest as CronTurnsRequest,
    GoneNamespacesRequest as GoneNamespacesRequest,
    GoneSessions as GoneSessions,
    ProfileSpend as ProfileSpend,
    ProfileSpendRequest as ProfileSpendRequest,
    ProfileSpends as ProfileSpends,
    RaiseEpochReply as RaiseEpochReply,
    RaiseEpochRequest as RaiseEpochRequest,
    SessionIdsRequest as SessionIdsRequest,
    SessionNamespaces as SessionNamespaces,
    SessionSummaries as SessionSummaries,
    SessionSummary as SessionSummary,
    SidRequest as SidRequest,
    WaitingCommands as WaitingCommands,
)
from hermes_contracts.store_api.links import (
    ConfirmLinkReply as ConfirmLinkReply,
    ConfirmLinkRequest as ConfirmLinkRequest,
    Link as Link,
    LinkedPerson as LinkedPerson,
    Links as Links,
    LinksRequest as LinksRequest,
    RequestLinkReply as RequestLinkReply,
    RequestLinkRequest as RequestLinkRequest,
)
from hermes_contracts.store_api.people import (
    PAIRING_ALPHABET as PAIRING_ALPHABET,
    PAIRING_CHARACTERS as PAIRING_CHARACTERS,
    ApprovePairingReply as ApprovePairingReply,
    ApprovePairingRequest as ApprovePairingRequest,
    PairedPerson as PairedPerson,
    PairedReply as PairedReply,
    PairedRequest as PairedRequest,
    Pairings as Pairings,
    PairingsRequest as PairingsRequest,
    PeopleEvent as PeopleEvent,
    PeopleRecord as PeopleRecord,
    PeopleRecordRequest as PeopleRecordRequest,
    RequestPairingReply as RequestPairingReply,
    RequestPairingRequest as RequestPairingRequest,
    RevokePairingRequest as RevokePairingRequest,
    WaitingPerson as WaitingPerson,
)
from hermes_contracts.store_api.workspaces import (
    MAX_ARCHIVE_BYTES as MAX_ARCHIVE_BYTES,
    MAX_CLAIMED as MAX_CLAIMED,
    MAX_LEFT_OUT as MAX_LEFT_OUT,
    MAX_PACKED_BYTES as MAX_PACKED_BYTES,
    MAX_PARTS as MAX_PARTS,
    PIECE_BYTES as PIECE_BYTES,
    ClaimPiecesRequest as ClaimPiecesRequest,
    CommitSnapshotRequest as CommitSnapshotRequest,
    GetPieceRequest as GetPieceRequest,
    MissingPieces as MissingPieces,
    PieceReply as PieceReply,
    PutPieceRequest as PutPieceRequest,
    WorkspaceState as WorkspaceState,
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
CONVERSATION = _method("conversation", ConversationRequest, ConversationSettings, "gateway")
LIST_CONVERSATIONS = _method("list_conversations", ConversationsRequest, Conversations, "gateway")
UNDO = _method("undo", UndoRequest, UndoReply, "gateway")
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
REQUEST_LINK = _method("request_link", RequestLinkRequest, RequestLinkReply, "gateway")
CONFIRM_LINK = _method("confirm_link", ConfirmLinkRequest, ConfirmLinkReply, "gateway")
LINKS = _method("links", LinksRequest, Links, "gateway")
UNLINK = _method("unlink", LinksRequest, Links, "gateway")
PEOPLE_RECORD = _method("people_record", PeopleRecordRequest, PeopleRecord, "gateway")

PUT_MEDIA = _method("put_media", PutMediaRequest, Empty, "gateway", "agent")
GET_MEDIA = _method("get_media", GetMediaRequest, MediaPage, "models", "agent", "gateway")
DESCRIBE_MEDIA = _method("describe_media", DescribeMediaRequest, Descriptions, "agent")
DESCRIPTIONS = _method("descriptions", DescriptionsRequest, Descriptions, "models", "agent")
OFFER_FILE = _method("offer_file", OfferFileRequest, OfferFileReply, "agent")
GET_FILE = _method("get_file", FileRequest, StoredFile, "gateway")
LIST_FILES = _method("list_files", FilesRequest, StoredFiles, "gateway")

SET_HOME = _method("set_home", SetHomeRequest, Empty, "gateway")
LIST_HOMES = _method("list_homes", HomesRequest, Homes, "gateway")
FIND_HOME = _method("find_home", HomeRequest, Homes, "gateway")

RECORD_USAGE = _method("record_usage", RecordUsageRequest, Empty, "models")
SPENT = _method("spent", SpentRequest, SpentReply, "models")
GET_LOGIN = _method("get_login", LoginRequest, LoginReply, "models")
PUT_LOGIN = _method("put_login", PutLoginRequest, LoginReply, "models")

WORKSPACE_STATE = _method("workspace_state", Empty, WorkspaceState, "agent")
OPEN_WORKSPACE = _method("open_workspace", Empty, Empty, "agent")
CLAIM_PIECES = _method("claim_pieces", ClaimPiecesRequest, MissingPieces, "agent")
PUT_PIECE = _method("put_piece", PutPieceRequest, Empty, "agent")
GET_PIECE = _method("get_piece", GetPieceRequest, PieceReply, "agent")
COMMIT_SNAPSHOT = _method("commit_snapshot", CommitSnapshotRequest, Empty, "agent")

METHODS: tuple[Method[BaseModel, BaseModel], ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Method)
)
