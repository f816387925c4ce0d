"""What the operator calls: epochs, and what a session's status mirrors."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from hermes_contracts.conversation import Usage
from hermes_contracts.envelopes import Inbound, Route, UpdateId
from hermes_contracts.names import DnsLabel, ObjectName, Sid
from hermes_contracts.store_api.base import StoreModel
from hermes_contracts.store_api.for_agents import TurnState


class RaiseEpochRequest(StoreModel):
    """Compare-and-set; makes the session's row when `expected` is 0 and there is none. CONFLICT when it lost."""

    route: Route
    expected: int = Field(ge=0)


class RaiseEpochReply(StoreModel):
    """The epoch that is now the session's."""

    epoch: int


class SessionIdsRequest(StoreModel):
    """Sessions to look up."""

    sids: tuple[Sid, ...] = Field(max_length=500)


class SessionSummary(StoreModel):
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


class SessionSummaries(StoreModel):
    """Those of the asked sessions that exist."""

    sessions: tuple[SessionSummary, ...]


class WaitingCommands(StoreModel):
    """Sessions that a command nobody has taken yet should wake; the oldest first, at most MAX_WAITING_COMMANDS."""

    sids: tuple[Sid, ...]


MAX_WAITING_COMMANDS = 1000


MAX_NAMESPACES = 1000
MAX_GONE_SESSIONS = 100


class SessionNamespaces(StoreModel):
    """Namespaces that have sessions; at most MAX_NAMESPACES."""

    names: tuple[DnsLabel, ...]


class GoneNamespacesRequest(StoreModel):
    """All namespaces that the cluster has no more; one that was noted before and is not named is back."""

    gone: tuple[DnsLabel, ...] = Field(max_length=MAX_NAMESPACES)
    grace_seconds: float = Field(ge=0)


class GoneSessions(StoreModel):
    """Sessions of namespaces that have been gone for the time of grace; at most MAX_GONE_SESSIONS."""

    sids: tuple[Sid, ...]


class SidRequest(StoreModel):
    """One session."""

    sid: Sid


class BuryRequest(StoreModel):
    """Give a message up: the turn becomes dead, the message goes to the dead-letter stream, the person is told."""

    inbound: Inbound
    reason: str


class ProfileSpendRequest(StoreModel):
    """What a Profile's sessions have spent."""

    namespace: DnsLabel
    profiles: tuple[ObjectName, ...] = Field(max_length=200)


class ProfileSpend(StoreModel):
    """Days and months are UTC's; money in billionths of a US dollar."""

    profile: ObjectName
    day: Usage
    month: Usage


class ProfileSpends(StoreModel):
    """Those of the asked Profiles that spent anything this month."""

    profiles: tuple[ProfileSpend, ...]


class CronTurnsRequest(StoreModel):
    """The turns of a scheduled job, by the UID of its object: counts, the last answer, and those of some runs."""

    job_uid: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    runs: tuple[UpdateId, ...] = Field(default=(), max_length=250)


class CronTurn(StoreModel):
    """A run that an agent has opened, and its deliveries: parts that are settled either way, of all there are."""

    sid: Sid
    run: UpdateId
    state: TurnState
    reason: str
    opened_at: float
    delivered: int = 0
    undeliverable: int = 0
    parts: int = 0


class CronTurns(StoreModel):
    """Those of the asked runs that were opened; counts of all that ended; the last answer worth sending, bounded."""

    turns: tuple[CronTurn, ...]
    succeeded: int
    failed: int
    answer: str = ""
