"""Which namespaces have sessions, and what is left of those that are gone."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.store_api import (
    MAX_GONE_SESSIONS,
    MAX_NAMESPACES,
    Empty,
    GoneNamespacesRequest,
    GoneSessions,
    SessionNamespaces,
)
from hermes_gateway.store.database import Database, Scope, Transaction
from hermes_service.rpc import Caller

_NAMES = "select distinct namespace from sessions order by namespace limit %s"
_BACK = "delete from gone_namespaces where not namespace = any(%s)"
_GONE = "insert into gone_namespaces (namespace) select unnest(%s::text[]) on conflict (namespace) do nothing"
_LEFT = """
select sid from sessions
where namespace in (select namespace from gone_namespaces where since <= now() - make_interval(secs => %s))
order by sid limit %s
"""


@dataclass(frozen=True)
class Namespaces:
    """Handlers of `session_namespaces` and `gone_namespaces`."""

    database: Database

    async def names(self, _: Caller, __: Empty) -> SessionNamespaces:
        """Return the namespaces that have sessions."""

        async def work(transaction: Transaction) -> SessionNamespaces:
            (rows,) = await transaction.commit((_NAMES, (MAX_NAMESPACES,)))
            return SessionNamespaces(names=tuple(row["namespace"] for row in rows))

        return await self.database.run(Scope(task="summaries"), work)

    async def gone(self, _: Caller, request: GoneNamespacesRequest) -> GoneSessions:
        """Note which namespaces are gone, forget those that are back; return sessions of those gone for long enough."""
        names = list(request.gone)

        async def work(transaction: Transaction) -> GoneSessions:
            left = (_LEFT, (request.grace_seconds, MAX_GONE_SESSIONS))
            *_, rows = await transaction.commit((_BACK, (names,)), (_GONE, (names,)), left)
            return GoneSessions(sids=tuple(row["sid"] for row in rows))

        return await self.database.run(Scope(task="summaries"), work)
