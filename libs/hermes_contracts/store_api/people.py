"""People who are let into a chat account by a code, and the record of who did what about it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hermes_contracts.chat_ids import PlatformId
from hermes_contracts.names import DnsLabel
from hermes_contracts.store_api.base import StoreModel

PAIRING_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
PAIRING_CHARACTERS = 8

AccountKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,31}:[A-Za-z0-9_.-]{1,140}$")]
"""Channel and account, `slack:T1.A1`."""
Actor = Annotated[str, StringConstraints(pattern=r"^(api:[a-zA-Z0-9._-]{1,64}|[A-Za-z0-9_-]{1,64})$")]
"""Who says something about others: a person by the platform's id, or an API key, `api:<id>`."""
PairingCode = Annotated[str, StringConstraints(pattern=r"^[A-HJ-NP-Z2-9]{8}$")]


class RequestPairingRequest(StoreModel):
    """Keep the code that a stranger is about to be given."""

    account: AccountKey
    person: PlatformId
    code: PairingCode
    namespace: DnsLabel | Literal[""] = ""
    profile: str = ""
    """Namespace and Profile that the account is bound to, for the record."""

    def __repr__(self) -> str:
        """Keep the code out of logs."""
        return f"RequestPairingRequest({self.account!r}, {self.person!r})"


class RequestPairingReply(StoreModel):
    """`kept`: the code counts from now. `recent`: he has one already; `full`, `locked`: nobody is given one now."""

    outcome: Literal["kept", "recent", "full", "locked"]


class ApprovePairingRequest(StoreModel):
    """Let in whoever was given this code. `by`: the person who says so."""

    account: AccountKey
    code: PairingCode
    by: Actor
    namespace: DnsLabel | Literal[""] = ""
    profile: str = ""
    """Namespace and Profile that the account is bound to, for the record."""

    def __repr__(self) -> str:
        """Keep the code out of logs."""
        return f"ApprovePairingRequest({self.account!r}, by {self.by!r})"


class ApprovePairingReply(StoreModel):
    """`person` is set when approved."""

    outcome: Literal["approved", "unknown", "locked"]
    person: str = ""


class PairedRequest(StoreModel):
    """Ask whether somebody was let in."""

    account: AccountKey
    person: PlatformId


class PairedReply(StoreModel):
    """The answer."""

    paired: bool


class RevokePairingRequest(StoreModel):
    """Take it back."""

    account: AccountKey
    person: PlatformId
    by: Actor
    namespace: DnsLabel | Literal[""] = ""
    profile: str = ""
    """Namespace and Profile that the account is bound to, for the record."""


class PairingsRequest(StoreModel):
    """Ask who was let in."""

    account: AccountKey


class PairedPerson(StoreModel):
    """Somebody who was let in, by whom, and when in seconds since the epoch."""

    person: str
    approved_by: str
    approved_at: float


class WaitingPerson(StoreModel):
    """Somebody who was given a code within the last hour, when in seconds since the epoch."""

    person: str
    asked_at: float


PeopleAction = Literal[
    "asked",
    "approved",
    "revoked",
    "locked",
    "linked",
    "unlinked",
    "call_approved",
    "call_denied",
    "question_answered",
    "grant_revoked",
    "sent",
]


class PeopleEvent(StoreModel):
    """What somebody did about somebody; `at` in seconds since the epoch. Never a message, a command's text or a code."""

    at: float
    actor: str
    action: PeopleAction
    person: str
    id: int = 0
    account: str = ""
    profile: str = ""
    sid: str = ""
    detail: str = ""
    """What it was about, by its id or hash, and for how long."""


class Pairings(StoreModel):
    """All newest first: at most 200 people, 20 events and those who wait."""

    people: tuple[PairedPerson, ...]
    events: tuple[PeopleEvent, ...]
    waiting: tuple[WaitingPerson, ...] = ()


class PeopleRecordRequest(StoreModel):
    """Read a namespace's record, newest first, before an event's id; of these Profiles alone."""

    namespace: DnsLabel
    profiles: tuple[str, ...] = Field(min_length=1, max_length=1000)
    before: int | None = Field(default=None, ge=1)
    limit: int = Field(default=100, ge=1, le=200)
    sent: bool = False
    """Also who sent messages."""


class PeopleRecord(StoreModel):
    """Newest first. `more`: older ones are there."""

    events: tuple[PeopleEvent, ...]
    more: bool
