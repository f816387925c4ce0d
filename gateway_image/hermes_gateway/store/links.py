"""Who is one owner in several chat accounts. A link is one step: whoever others are reached as is reached as nobody else."""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass

from hermes_contracts.store_api import (
    ConfirmLinkReply,
    ConfirmLinkRequest,
    Link,
    LinkedPerson,
    Links,
    LinksRequest,
    RequestLinkReply,
    RequestLinkRequest,
)  # fmt: skip
from hermes_gateway.store.database import Database, Row, Scope, Transaction
from hermes_gateway.store.pairings import hash_code
from hermes_gateway.store.people_record import link_statement
from hermes_service.rpc import Caller

MAX_CODES = 20
"""Codes of one namespace at a time: each is hashed slowly when one is looked for."""
MAX_FAILURES = 5
LIFE_SECONDS = 600
LOCKED_SECONDS = 3600
MAX_OTHERS = 16

# One namespace's changes one after the other: no two people can be linked with each other at the same moment.
_LOCK = "select pg_advisory_xact_lock(hashtextextended(%s, 8))"
_CODES = """
select account, person, owner, salt, hash, taken_by from link_codes
where namespace = %s and asked_at > now() - make_interval(secs => %s)
"""
_KEEP = """
insert into link_codes (namespace, account, person, owner, salt, hash) values (%s, %s, %s, %s, %s, %s)
on conflict (namespace, account, person) do update
    set owner = excluded.owner, salt = excluded.salt, hash = excluded.hash, taken_by = '', asked_at = now()
"""
_TAKE = "update link_codes set taken_by = %s where namespace = %s and account = %s and person = %s"
_LINK = "select to_account, to_person, to_owner from person_links where namespace = %s and account = %s and person = %s"
_OTHERS = """
select account, person from person_links where namespace = %s and to_account = %s and to_person = %s
order by account, person
"""
_JOIN = """
insert into person_links (namespace, account, person, to_account, to_person, to_owner) values (%s, %s, %s, %s, %s, %s)
"""
_PART = """
with gone as (
    delete from person_links where namespace = %(namespace)s and (account = %(account)s and person = %(person)s
        or to_account = %(account)s and to_person = %(person)s)
    returning account, person, to_owner
), noted as (
    insert into people_audit (account, actor, action, person, namespace, profile, detail)
    select account, %(person)s, 'unlinked', person, %(namespace)s, %(profile)s, to_owner from gone order by account, person
)
select account, person from gone order by account, person
"""
_FAILURES = """
select failures from link_failures where namespace = %s and account = %s and person = %s
    and last_at > now() - make_interval(secs => %s)
"""
_FAIL = """
insert into link_failures (namespace, account, person, failures) values (%s, %s, %s, 1)
on conflict (namespace, account, person) do update set last_at = now(), failures = case
    when link_failures.last_at > now() - make_interval(secs => %s) then link_failures.failures + 1 else 1 end
"""
_FORGIVE = "delete from link_failures where namespace = %s and account = %s and person = %s"


@dataclass(frozen=True)
class LinkBook:
    """Handlers of the linking methods."""

    database: Database

    async def request(self, _: Caller, request: RequestLinkRequest) -> RequestLinkReply:
        """Keep a code. The same code of the same person again is the same request."""
        space, salt = request.namespace, os.urandom(16)
        kept = await hash_code(request.code, salt)

        async def work(transaction: Transaction) -> RequestLinkReply:
            _, links, codes = await transaction.ask(
                (_LOCK, (space,)), (_LINK, (space, request.account, request.person)), (_CODES, (space, LIFE_SECONDS))
            )
            account, person, owner = _reached(links, request.account, request.person, request.owner)
            own = next((row for row in codes if (row["account"], row["person"]) == (account, person)), None)
            if own is not None and not own["taken_by"]:
                return RequestLinkReply(outcome="kept" if await _matches(request.code, own) else "recent")
            if sum(row is not own for row in codes) >= MAX_CODES:
                return RequestLinkReply(outcome="full")
            await transaction.commit((_KEEP, (space, account, person, owner, salt, kept)))
            return RequestLinkReply(outcome="kept")

        return await self.database.run(_scope(space), work)

    async def confirm(self, _: Caller, request: ConfirmLinkRequest) -> ConfirmLinkReply:
        """Link whoever says a code with whoever was given it, once a code. Too many wrong codes lock the person out."""
        space, who = request.namespace, (request.account, request.person)

        async def work(transaction: Transaction) -> ConfirmLinkReply:
            _, failures, links, others, codes = await transaction.ask(
                (_LOCK, (space,)),
                (_FAILURES, (space, *who, LOCKED_SECONDS)),
                (_LINK, (space, *who)),
                (_OTHERS, (space, *who)),
                (_CODES, (space, LIFE_SECONDS)),
            )
            failed = failures[0]["failures"] if failures else 0
            if failed >= MAX_FAILURES:
                return ConfirmLinkReply(outcome="locked")
            named = [row for row in codes if await _matches(request.code, row)]
            taken_by = str(named[0]["taken_by"]) if named else ""
            if not named or taken_by not in ("", " ".join(who)):
                locks = failed + 1 >= MAX_FAILURES
                noted = (link_statement("locked", space, request.profile, who),) if locks else ()
                await transaction.commit((_FAIL, (space, *who, LOCKED_SECONDS)), *noted)
                return ConfirmLinkReply(outcome="unknown")
            link = Link(account=named[0]["account"], person=named[0]["person"], owner=named[0]["owner"])
            if links:
                same = _link(links[0]) == link
                return ConfirmLinkReply(outcome="linked" if same else "linked_before", link=_link(links[0]))
            (elsewhere, taken) = await transaction.ask(
                (_LINK, (space, link.account, link.person)), (_OTHERS, (space, link.account, link.person))
            )
            if (link.account, link.person) == who or elsewhere:
                return ConfirmLinkReply(outcome="same" if not elsewhere else "unknown")
            if others:
                return ConfirmLinkReply(outcome="has_others")
            if taken_by or len(taken) >= MAX_OTHERS:
                return ConfirmLinkReply(outcome="unknown")
            await transaction.commit(
                (_JOIN, (space, *who, link.account, link.person, link.owner)),
                (_TAKE, (" ".join(who), space, link.account, link.person)),
                (_FORGIVE, (space, *who)),
                link_statement("linked", space, request.profile, who, link.owner),
            )
            return ConfirmLinkReply(outcome="linked", link=link)

        return await self.database.run(_scope(space), work)

    async def links(self, _: Caller, request: LinksRequest) -> Links:
        """Return with whom a person is linked."""

        async def work(transaction: Transaction) -> Links:
            return await _links(transaction, request)

        return await self.database.run(_scope(request.namespace), work)

    async def unlink(self, _: Caller, request: LinksRequest) -> Links:
        """End a person's link, or the links of all who are reached as him; returns these. Harmless when there is none."""
        values = request.model_dump(include={"namespace", "account", "person", "profile"})

        async def work(transaction: Transaction) -> Links:
            _, gone = await transaction.commit((_LOCK, (request.namespace,)), (_PART, values))
            parted = (LinkedPerson(account=row["account"], person=row["person"]) for row in gone)
            return Links(
                others=tuple(one for one in parted if (one.account, one.person) != (request.account, request.person))
            )

        return await self.database.run(_scope(request.namespace), work)


async def _links(transaction: Transaction, request: LinksRequest) -> Links:
    where = (request.namespace, request.account, request.person)
    _, links, others = await transaction.ask((_LOCK, (request.namespace,)), (_LINK, where), (_OTHERS, where))
    return Links(
        link=_link(links[0]) if links else None,
        others=tuple(LinkedPerson(account=row["account"], person=row["person"]) for row in others),
    )


def _link(row: Row) -> Link:
    return Link(account=row["to_account"], person=row["to_person"], owner=row["to_owner"])


def _reached(links: list[Row], account: str, person: str, owner: str) -> tuple[str, str, str]:
    if not links:
        return account, person, owner
    return links[0]["to_account"], links[0]["to_person"], links[0]["to_owner"]


async def _matches(code: str, row: Row) -> bool:
    return hmac.compare_digest(await hash_code(code, bytes(row["salt"])), bytes(row["hash"]))


def _scope(namespace: str) -> Scope:
    return Scope(task=f"links:{namespace}")
