"""The chats that people call their home: where scheduled runs and notices find them. One a person, agent and platform."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.envelopes import Target
from hermes_contracts.store_api import Empty, HomeRequest, Homes, HomesRequest, SetHomeRequest
from hermes_gateway.store.database import Database, Scope, Transaction
from hermes_service.rpc import Caller

_SET = """
insert into homes (owner, namespace, profile, channel, place) values (%s, %s, %s, %s, %s)
on conflict (owner, namespace, profile, channel) do update set place = excluded.place, set_at = now()
"""
_FORGET = "delete from homes where owner = %s and namespace = %s and profile = %s and channel = %s"
_LIST = "select place from homes where owner = %s and namespace = %s and profile = %s order by set_at desc"
_FIND = """
select h.place from homes h join sessions s on s.namespace = h.namespace and s.profile = h.profile
where s.sid = %s and h.owner = %s and %s in ('', h.channel) order by h.set_at desc limit 1
"""


@dataclass(frozen=True)
class HomeBook:
    """Handlers of `set_home`, `list_homes` and `find_home`."""

    database: Database

    async def set(self, _: Caller, request: SetHomeRequest) -> Empty:
        """Set or forget one."""
        which = (request.owner, request.namespace, request.profile, request.channel)

        async def work(transaction: Transaction) -> Empty:
            if request.place is None:
                await transaction.commit((_FORGET, which))
            else:
                await transaction.commit((_SET, (*which, request.place.model_dump_json())))
            return Empty()

        return await self.database.run(Scope(owner=request.owner), work)

    async def list(self, _: Caller, request: HomesRequest) -> Homes:
        """Return a person's homes with an agent."""

        async def work(transaction: Transaction) -> Homes:
            (rows,) = await transaction.commit((_LIST, (request.owner, request.namespace, request.profile)))
            return Homes(places=tuple(Target.model_validate(row["place"]) for row in rows))

        return await self.database.run(Scope(owner=request.owner), work)

    async def find(self, _: Caller, request: HomeRequest) -> Homes:
        """Return the home that a session's answer goes to, or none."""

        async def work(transaction: Transaction) -> Homes:
            (rows,) = await transaction.commit((_FIND, (request.sid, request.owner, request.channel)))
            return Homes(places=tuple(Target.model_validate(row["place"]) for row in rows))

        return await self.database.run(Scope(sid=request.sid, owner=request.owner), work)
