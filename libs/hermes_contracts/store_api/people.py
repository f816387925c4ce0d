"""People who are let into a chat account by a code, and the record of who did what about it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import StringConstraints

from hermes_contracts.access import PlatformId
from hermes_contracts.store_api.base import StoreModel

PAIRING_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
PAIRING_CHARACTERS = 8

AccountKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,31}:[A-Za-z0-9_.-]{1,140}$")]
"""Channel and account, `slack:T1.A1`."""
PairingCode = Annotated[str, StringConstraints(pattern=r"^[A-HJ-NP-Z2-9]{8}$")]


class RequestPairingRequest(StoreModel):
    """Keep the code that a stranger is about to be given."""

    account: AccountKey
    person: PlatformId
    code: PairingCode

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
    by: PlatformId

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
    by: PlatformId


class PairingsRequest(StoreModel):
    """Ask who was let in."""

    account: AccountKey


class PairedPerson(StoreModel):
    """Somebody who was let in, by whom, and when in seconds since the epoch."""

    person: str
    approved_by: str
    approved_at: float


class PeopleEvent(StoreModel):
    """What somebody did about somebody; `at` in seconds since the epoch."""

    at: float
    actor: str
    action: Literal["asked", "approved", "revoked", "locked"]
    person: str


class Pairings(StoreModel):
    """Both newest first: at most 200 people and 20 events."""

    people: tuple[PairedPerson, ...]
    events: tuple[PeopleEvent, ...]
