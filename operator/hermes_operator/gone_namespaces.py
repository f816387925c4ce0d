"""Deletes what is left of sessions whose namespace is gone: rows of the store, messages of the bus.

A namespace is gone when the API server says that there is none of that name, on every look for the whole time of grace.
Where one look fails, nothing is concluded from any of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from hermes_contracts.errors import HermesError
from hermes_contracts.store_api import GONE_NAMESPACES, SESSION_NAMESPACES, Empty, GoneNamespacesRequest
from hermes_service.rpc import StoreClient

log = structlog.get_logger()

_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class GoneNamespaces:
    """`exists` asks the API server for a namespace and raises HermesError when it does not answer; `purge` takes a sid."""

    store: StoreClient
    exists: Callable[[str], Awaitable[bool]]
    purge: Callable[[str], Awaitable[None]]
    grace_seconds: float
    every_seconds: float

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            try:
                more = await self.once() > 0
            except HermesError as error:
                log.warning("gone_namespaces.failed", error=error.message[:200])
                more = False
            await asyncio.sleep(min(1.0, self.every_seconds) if more else self.every_seconds)

    async def once(self) -> int:
        """Look once; returns how many sessions were purged. Raises HermesError when something does not answer."""
        found = await self.store.call(SESSION_NAMESPACES, Empty(), patience_seconds=_PATIENCE_SECONDS)
        gone = tuple([name for name in found.names if not await self.exists(name)])
        request = GoneNamespacesRequest(gone=gone, grace_seconds=self.grace_seconds)
        left = await self.store.call(GONE_NAMESPACES, request, patience_seconds=_PATIENCE_SECONDS)
        for sid in left.sids:
            await self.purge(sid)
        if left.sids:
            log.warning("gone_namespaces.purged", sessions=len(left.sids), namespaces=len(gone))
        return len(left.sids)
