"""Questions of an agent that only a person may answer: approvals of tool calls, and what `clarify` asks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hermes_contracts.envelopes import Inbound, OwnerId
from hermes_contracts.names import DnsLabel, Sid
from hermes_contracts.store_api.base import StoreModel

MAX_OPTIONS = 4
MAX_ARGUMENTS_CHARACTERS = 110_000
MAX_SHOWN_GRANTS = 200

Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
ApprovalId = Annotated[str, StringConstraints(pattern=r"^[2-7][a-z2-7]{7}$")]
Decision = Literal["approve", "deny", "answer"]
GrantScope = Literal["once", "session", "always"]
ApprovalState = Literal["pending", "approved", "denied", "answered"]


class AskApprovalRequest(StoreModel):
    """Ask for a tool call (`kind` call), or ask something (`kind` question). One question a call: asking again finds it."""

    turn_id: str
    call_id: Annotated[str, StringConstraints(max_length=200)]
    kind: Literal["call", "question"]
    tool: Annotated[str, StringConstraints(max_length=200)]
    arguments: Annotated[str, StringConstraints(max_length=MAX_ARGUMENTS_CHARACTERS)] = ""
    """JSON of the call, exactly as it would run."""
    call_hash: Hash
    """SHA-256 of tool and arguments: an approval is for this call and no other."""
    question: Annotated[str, StringConstraints(max_length=4_000)]
    options: tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...] = Field(
        default=(), max_length=MAX_OPTIONS
    )
    timeout_seconds: int = Field(ge=1, le=31_536_000)


class AskApprovalReply(StoreModel):
    """`allowed`: an earlier answer covers this call. `deadline` is in seconds since the epoch."""

    allowed: bool
    approval_id: str
    deadline: float


class Approval(StoreModel):
    """One question and what became of it. `expired`: nobody answered in time, which means no."""

    approval_id: str
    kind: Literal["call", "question"]
    state: ApprovalState
    expired: bool
    tool: str
    arguments: str
    question: str
    options: tuple[str, ...]
    turn_id: str
    asked_at: float
    deadline: float
    scope: str = ""
    answer: str = ""
    answered_by: str = ""


class ApprovalIdRequest(StoreModel):
    """One of the session's questions."""

    approval_id: ApprovalId


class ListApprovalsRequest(StoreModel):
    """A session's questions, newest first; by owner and id."""

    sid: Sid
    owner: OwnerId
    pending: bool = True
    """Only those that can still be answered."""


class Approvals(StoreModel):
    """At most 100."""

    approvals: tuple[Approval, ...]


class AnswerApprovalRequest(StoreModel):
    """Decide, once for all, by compare-and-set. Without an id the only open question is meant."""

    sid: Sid
    owner: OwnerId
    approval_id: ApprovalId | Literal[""] = ""
    by: OwnerId
    """The person, as owners are named."""
    user: Annotated[str, StringConstraints(max_length=256)] = ""
    """The person as the platform names him: in a room, whoever wrote the message may answer."""
    approver: bool = False
    """The Profile names this person as one who may answer for others."""
    decision: Decision
    scope: GrantScope = "once"
    text: Annotated[str, StringConstraints(max_length=4_000)] = ""
    """The reason of a no, or the answer to a question."""


class AnswerApprovalReply(StoreModel):
    """What became of the answer. `recorded` is also said to the same person who says the same again.

    `inbound` is the message whose turn asked: the answer continues it.
    """

    outcome: Literal["recorded", "answered_before", "expired", "not_found", "several", "not_yours", "wrong_kind"]
    approval: Approval | None = None
    inbound: Inbound | None = None


class GrantsRequest(StoreModel):
    """What an owner has allowed for good."""

    owner: OwnerId
    namespace: DnsLabel


class Grant(StoreModel):
    """One call that runs without a question; `arguments` may be cut."""

    profile: str
    call_hash: str
    tool: str
    arguments: str
    created_at: float


class Grants(StoreModel):
    """Newest first."""

    grants: tuple[Grant, ...]


class RevokeGrantRequest(StoreModel):
    """Take one back; harmless when it is not there."""

    owner: OwnerId
    namespace: DnsLabel
    profile: str
    call_hash: Hash
