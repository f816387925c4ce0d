"""People who are one owner in several chat accounts, because they said so in both with a code."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from hermes_contracts.chat_ids import PlatformId
from hermes_contracts.envelopes import OwnerId
from hermes_contracts.names import DnsLabel
from hermes_contracts.store_api.base import StoreModel
from hermes_contracts.store_api.people import AccountKey, PairingCode


class Link(BaseModel):
    """As whom a linked person is reached: his account and id elsewhere, and the owner that both are."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    account: AccountKey
    person: PlatformId
    owner: str


class RequestLinkRequest(StoreModel):
    """Keep the code that somebody is about to be given; whoever is linked already asks for the one he is linked with."""

    namespace: DnsLabel
    account: AccountKey
    person: PlatformId
    owner: OwnerId
    code: PairingCode

    def __repr__(self) -> str:
        """Keep the code out of logs."""
        return f"RequestLinkRequest({self.account!r}, {self.person!r})"


class RequestLinkReply(StoreModel):
    """`kept`: the code counts from now. `recent`: he has one; `full`: too many in his namespace have one."""

    outcome: Literal["kept", "recent", "full"]


class ConfirmLinkRequest(StoreModel):
    """Make a person one with whoever was given this code, in the same namespace."""

    namespace: DnsLabel
    profile: str
    account: AccountKey
    person: PlatformId
    code: PairingCode

    def __repr__(self) -> str:
        """Keep the code out of logs."""
        return f"ConfirmLinkRequest({self.account!r}, {self.person!r})"


class ConfirmLinkReply(StoreModel):
    """`same`: it is his own code. `linked_before`: with somebody else. `has_others`: others are linked with him."""

    outcome: Literal["linked", "unknown", "locked", "same", "linked_before", "has_others"]
    link: Link | None = None


class LinksRequest(StoreModel):
    """Ask with whom a person is linked, or end it (his own link, or those of all who are linked with him)."""

    namespace: DnsLabel
    account: AccountKey
    person: PlatformId
    profile: str = ""


class LinkedPerson(StoreModel):
    """Somebody of an account."""

    account: AccountKey
    person: PlatformId


class Links(StoreModel):
    """`link`: as whom he is reached. `others`: who is reached as him."""

    link: Link | None = None
    others: tuple[LinkedPerson, ...] = ()
