"""Calls that an owner has allowed for good: seen and taken back by him alone."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.store_api import Empty, Grant, Grants, GrantsRequest, RevokeGrantRequest
from hermes_gateway.store.database import Database, Row, Scope, Statement, Transaction
from hermes_service.rpc import Caller

_SHOWN_CHARACTERS = 2_000
_INSERT = """
insert into approval_grants (owner, namespace, profile, call_hash, tool, arguments)
select %s, %s, %s, call_hash, tool, left(arguments, %s::integer) from approvals where sid = %s and approval_id = %s
on conflict do nothing
"""
_LIST = """
select profile, call_hash, tool, arguments, extract(epoch from created_at)::float8 as created_at
from approval_grants where owner = %s and namespace = %s order by created_at desc, call_hash limit 200
"""
_REVOKE = """
with gone as (
    delete from approval_grants where owner = %s and namespace = %s and profile = %s and call_hash = %s
    returning owner, namespace, profile, call_hash
)
insert into people_audit (account, actor, action, person, namespace, profile, detail)
select '', owner, 'grant_revoked', owner, namespace, profile, call_hash from gone
"""


def grant_statement(owner: str, session: Row, approval: Row) -> Statement:
    """Keep what a question asked for as allowed for good."""
    values = (owner, session["namespace"], session["profile"], _SHOWN_CHARACTERS, session["sid"], approval["approval_id"])
    return (_INSERT, values)


@dataclass(frozen=True)
class GrantBook:
    """Handlers of `list_grants` and `revoke_grant`."""

    database: Database

    async def list(self, _: Caller, request: GrantsRequest) -> Grants:
        """Return an owner's grants."""

        async def work(transaction: Transaction) -> Grants:
            (rows,) = await transaction.ask((_LIST, (request.owner, request.namespace)))
            return Grants(grants=tuple(Grant(**row) for row in rows))

        return await self.database.run(Scope(owner=request.owner), work)

    async def revoke(self, _: Caller, request: RevokeGrantRequest) -> Empty:
        """Take one back: the next such call asks again."""

        async def work(transaction: Transaction) -> Empty:
            await transaction.commit((_REVOKE, (request.owner, request.namespace, request.profile, request.call_hash)))
            return Empty()

        return await self.database.run(Scope(owner=request.owner), work)
