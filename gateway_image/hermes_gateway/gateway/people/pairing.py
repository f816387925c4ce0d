"""Codes that strangers are given in a direct chat, and what admins say about them."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

from hermes_contracts.access import ChatAccount
from hermes_contracts.envelopes import Route
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    APPROVE_PAIRING,
    LIST_PAIRINGS,
    PAIRED,
    PAIRING_ALPHABET,
    PAIRING_CHARACTERS,
    REQUEST_PAIRING,
    REVOKE_PAIRING,
    ApprovePairingRequest,
    PairedRequest,
    Pairings,
    PairingsRequest,
    RequestPairingRequest,
    RevokePairingRequest,
)  # fmt: skip
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_service.rpc import StoreClient

_STORE_SECONDS = 2.0
_FORM = re.compile(r"(approve|revoke)\s+([A-Za-z0-9_-]{1,64})")
CODE = re.compile(f"[{PAIRING_ALPHABET}]{{{PAIRING_CHARACTERS}}}")
_USAGE = "Say `/pair approve CODE`, `/pair revoke ID`, or `/pair` for who was let in."
_NO_SUCH = "No code like this is waiting: it may be mistyped or more than an hour old. Have the person ask again."
_LOCKED = "Too many wrong codes were given here. Nobody can be let in by a code for an hour."
_GIVEN = (
    "You may not use this agent yet. Give this code to one of its admins, who lets you in with `/pair approve {code}`. "
    "It is good for an hour, and for you only."
)
_REFUSED = {
    "recent": "You were given a code a short while ago. Give that one to an admin, or ask again in ten minutes.",
    "full": "You may not use this agent, and too many others wait to be let in. Try again in an hour.",
    "locked": "You may not use this agent, and nobody is given a code at the moment. Try again in an hour.",
}


@dataclass(frozen=True)
class Pairing:
    """Pairing of people with one chat account. Each method raises HermesError UNAVAILABLE when the store is away."""

    store: StoreClient

    async def paired(self, message: ChatMessage) -> bool:
        """Tell whether a message's writer was let in by a code."""
        request = PairedRequest(account=account_key(message), person=message.user)
        return (await self.store.call(PAIRED, request, timeout_seconds=_STORE_SECONDS)).paired

    async def offer(self, message: ChatMessage, account: ChatAccount) -> str:
        """Give a stranger a code; returns what he is told."""
        code = new_code()
        request = RequestPairingRequest(
            account=account_key(message),
            person=message.user,
            code=code,
            namespace=account.namespace,
            profile=account.profile,
        )
        outcome = (await self.store.call(REQUEST_PAIRING, request, timeout_seconds=_STORE_SECONDS)).outcome
        return _GIVEN.format(code=code) if outcome == "kept" else _REFUSED[outcome]

    async def command(self, argument: str, message: ChatMessage, route: Route) -> str:
        """Carry out `/pair` for an admin; returns what he is told."""
        account, said = account_key(message), _FORM.fullmatch(argument.strip())
        if not argument.strip():
            found = await self.store.call(LIST_PAIRINGS, PairingsRequest(account=account), timeout_seconds=_STORE_SECONDS)
            return show_pairings(found)
        if said is None:
            return _USAGE
        if said[1] == "approve":
            return await self._approve(account, said[2].upper(), message.user, route)
        revoke = RevokePairingRequest(
            account=account, person=said[2], by=message.user, namespace=route.namespace, profile=route.profile
        )
        await self.store.call(REVOKE_PAIRING, revoke, timeout_seconds=_STORE_SECONDS)
        return f"`{said[2]}` is not let in by a code any more. What the account itself allows stays."

    async def _approve(self, account: str, code: str, by: str, route: Route) -> str:
        if CODE.fullmatch(code) is None:
            return f"A code has {PAIRING_CHARACTERS} letters and digits. {_USAGE}"
        request = ApprovePairingRequest(account=account, code=code, by=by, namespace=route.namespace, profile=route.profile)
        try:
            reply = await self.store.call(APPROVE_PAIRING, request, timeout_seconds=_STORE_SECONDS)
        except HermesError as error:
            if error.code is ErrorCode.UNAVAILABLE:
                return "I cannot tell whether that worked, since the store does not answer. Say it again in a minute."
            raise
        if reply.outcome == "approved":
            return f"`{reply.person}` may use me from now on. `/pair revoke {reply.person}` takes it back."
        return _LOCKED if reply.outcome == "locked" else _NO_SUCH


def new_code() -> str:
    """Return a code that nobody can guess, without letters and digits that look alike."""
    return "".join(secrets.choice(PAIRING_ALPHABET) for _ in range(PAIRING_CHARACTERS))


def account_key(message: ChatMessage) -> str:
    """Return what people are paired with: the bot, whatever chat the message is from."""
    return f"{message.channel}:{message.account}"


def show_pairings(found: Pairings) -> str:
    """Describe who was let in, and what was done last."""
    people = [f"- `{one.person}`, by `{one.approved_by}`, {_day(one.approved_at)}" for one in found.people]
    events = [f"- {_day(one.at)}: `{one.actor}` {one.action} `{one.person}`" for one in found.events]
    head = ["Let in by a code:", "", *people] if people else ["Nobody was let in by a code."]
    return "\n".join([*head, *(["", "What happened last:", "", *events] if events else [])])


def _day(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
