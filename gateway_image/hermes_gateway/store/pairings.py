"""Pairing codes: one a person, few at a time, of which only a salted hash is kept; and whom they let in."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
from dataclasses import dataclass

from hermes_contracts.store_api import (
    ApprovePairingReply,
    ApprovePairingRequest,
    Empty,
    PairedPerson,
    PairedReply,
    PairedRequest,
    Pairings,
    PairingsRequest,
    PeopleEvent,
    RequestPairingReply,
    RequestPairingRequest,
    RevokePairingRequest,
    WaitingPerson,
)  # fmt: skip
from hermes_gateway.store.database import Database, Row, Scope, Statement, Transaction
from hermes_service.rpc import Caller

MAX_PENDING = 3
MAX_FAILURES = 5
LIFE_SECONDS = 3600
AGAIN_SECONDS = 600

# One account's changes one after the other: limits are counted.
_LOCK = "select pg_advisory_xact_lock(hashtextextended(%s, 5))"
_STATE = "select failures, locked_until > now() as locked from pairing_locks where account = %s"
_REQUESTS = """
select person, salt, hash, approved, requested_at > now() - make_interval(secs => %s) as recent from pairing_requests
where account = %s and requested_at > now() - make_interval(secs => %s)
"""
_ASK = """
insert into pairing_requests (account, person, salt, hash) values (%s, %s, %s, %s)
on conflict (account, person) do update
    set salt = excluded.salt, hash = excluded.hash, approved = false, requested_at = now()
"""
_USE = "update pairing_requests set approved = true where account = %s and person = %s"
_LET_IN = "insert into paired_people (account, person, approved_by) values (%s, %s, %s) on conflict do nothing"
_FORGET = "delete from pairing_locks where account = %s"
_FAIL = """
insert into pairing_locks (account, failures) values (%s, 1) on conflict (account) do update set
    failures = case when pairing_locks.locked_until is null then pairing_locks.failures + 1 else 1 end,
    locked_until = case when pairing_locks.locked_until is null and pairing_locks.failures + 1 >= %s
        then now() + make_interval(secs => %s) end
"""
_PAIRED = "select true as paired from paired_people where account = %s and person = %s"
_REVOKE = """
with gone as (delete from paired_people where account = %s and person = %s returning account, person)
insert into people_audit (account, actor, action, person, namespace, profile)
select account, %s, 'revoked', person, %s, %s from gone
"""
_WAITING = """
select person, extract(epoch from requested_at)::float8 as asked_at from pairing_requests
where account = %s and not approved and requested_at > now() - make_interval(secs => %s) order by requested_at desc, person
"""
_PEOPLE = """
select person, approved_by, extract(epoch from approved_at)::float8 as approved_at from paired_people
where account = %s order by approved_at desc, person limit 200
"""
_EVENTS = """
select extract(epoch from at)::float8 as at, actor, action, person from people_audit
where account = %s and action in ('asked', 'approved', 'revoked', 'locked') order by id desc limit 20
"""
_AUDIT = "insert into people_audit (account, actor, action, person, namespace, profile) values (%s, %s, %s, %s, %s, %s)"

_Noted = RequestPairingRequest | ApprovePairingRequest


@dataclass(frozen=True)
class PairingBook:
    """Handlers of the pairing methods."""

    database: Database

    async def request(self, _: Caller, request: RequestPairingRequest) -> RequestPairingReply:
        """Keep a code. The same code of the same person again is the same request."""
        account, person, salt = request.account, request.person, os.urandom(16)
        kept = await hash_code(request.code, salt)

        async def work(transaction: Transaction) -> RequestPairingReply:
            state, found = await _look(transaction, account)
            if state is not None and state["locked"]:
                return RequestPairingReply(outcome="locked")
            own = next((row for row in found if row["person"] == person), None)
            if own is not None and own["recent"]:
                same = await _matches(request.code, own)
                return RequestPairingReply(outcome="kept" if same else "recent")
            if sum(not row["approved"] for row in found if row is not own) >= MAX_PENDING:
                return RequestPairingReply(outcome="full")
            await transaction.commit((_ASK, (account, person, salt, kept)), _event(request, person, "asked", person))
            return RequestPairingReply(outcome="kept")

        return await self.database.run(_scope(account), work)

    async def approve(self, _: Caller, request: ApprovePairingRequest) -> ApprovePairingReply:
        """Let a person in, once a code. A code that is nobody's counts as a failure, and too many lock the account."""
        account = request.account

        async def work(transaction: Transaction) -> ApprovePairingReply:
            state, found = await _look(transaction, account)
            if state is not None and state["locked"]:
                return ApprovePairingReply(outcome="locked")
            named = [row for row in found if await _matches(request.code, row)]
            if not named:
                locks = state is not None and state["locked"] is None and state["failures"] + 1 >= MAX_FAILURES
                noted = (_event(request, request.by, "locked", request.by),) if locks else ()
                await transaction.commit((_FAIL, (account, MAX_FAILURES, LIFE_SECONDS)), *noted)
                return ApprovePairingReply(outcome="unknown")
            person = str(named[0]["person"])
            if not named[0]["approved"]:
                await transaction.commit(
                    (_USE, (account, person)),
                    (_LET_IN, (account, person, request.by)),
                    (_FORGET, (account,)),
                    _event(request, request.by, "approved", person),
                )
            return ApprovePairingReply(outcome="approved", person=person)

        return await self.database.run(_scope(account), work)

    async def paired(self, _: Caller, request: PairedRequest) -> PairedReply:
        """Tell whether a person was let in."""

        async def work(transaction: Transaction) -> PairedReply:
            (rows,) = await transaction.commit((_PAIRED, (request.account, request.person)))
            return PairedReply(paired=bool(rows))

        return await self.database.run(_scope(request.account), work)

    async def revoke(self, _: Caller, request: RevokePairingRequest) -> Empty:
        """Take it back; nothing happens when he was not let in."""

        async def work(transaction: Transaction) -> Empty:
            values = (request.account, request.person, request.by, request.namespace, request.profile)
            await transaction.commit((_REVOKE, values))
            return Empty()

        return await self.database.run(_scope(request.account), work)

    async def list(self, _: Caller, request: PairingsRequest) -> Pairings:
        """Return who was let in, and what happened last."""

        async def work(transaction: Transaction) -> Pairings:
            account = request.account
            people, events, waiting = await transaction.commit(
                (_PEOPLE, (account,)), (_EVENTS, (account,)), (_WAITING, (account, LIFE_SECONDS))
            )
            return Pairings(
                people=tuple(PairedPerson(**row) for row in people),
                events=tuple(PeopleEvent(**row) for row in events),
                waiting=tuple(WaitingPerson(**row) for row in waiting),
            )

        return await self.database.run(_scope(request.account), work)


async def hash_code(code: str, salt: bytes) -> bytes:
    """Hash a code slowly, in a thread: 40 bits of it would be found at once behind a fast hash."""
    return await asyncio.to_thread(hashlib.scrypt, code.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32)


async def _matches(code: str, row: Row) -> bool:
    return hmac.compare_digest(await hash_code(code, bytes(row["salt"])), bytes(row["hash"]))


async def _look(transaction: Transaction, account: str) -> tuple[Row | None, list[Row]]:
    _, states, found = await transaction.ask(
        (_LOCK, (account,)), (_STATE, (account,)), (_REQUESTS, (AGAIN_SECONDS, account, LIFE_SECONDS))
    )
    return (states[0] if states else None), found


def _event(request: _Noted, actor: str, action: str, person: str) -> Statement:
    return (_AUDIT, (request.account, actor, action, person, request.namespace, request.profile))


def _scope(account: str) -> Scope:
    return Scope(task=f"people:{account}")
