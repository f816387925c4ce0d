"""Whether the database answers, and whether it keeps what it acknowledged."""

from __future__ import annotations

import asyncio

import structlog

from hermes_contracts.errors import HermesError
from hermes_gateway.store import metrics
from hermes_gateway.store.database import Database, Row, Scope

log = structlog.get_logger()

_PROBE_SECONDS = 2.0
_SETTINGS = """
select current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
    current_setting('synchronous_standby_names') as standbys
"""


def judge_durability(settings: Row) -> str | None:
    """Return what a crash of the database could lose, and what to do; None when it keeps its word."""
    off = [name for name in ("fsync", "full_page_writes") if settings[name] != "on"]
    if not off:
        return None
    return f"the database has {' and '.join(off)} off, so a crash may lose acknowledged messages: turn it on"


class DatabaseHealth:
    """Probes the database in the background; its checks answer at once."""

    def __init__(self, database: Database, *, allow_unsafe: bool) -> None:
        self._database = database
        self._allow_unsafe = allow_unsafe
        self._problem: str | None = "the database has not answered yet"
        self._unsafe: str | None = None

    def reachable(self) -> str | None:
        """Check for readiness: does the database answer?"""
        return self._problem

    def durable(self) -> str | None:
        """Check for readiness: does it keep what it acknowledged? Passed over when the settings allow unsafe."""
        return None if self._allow_unsafe else self._unsafe

    async def inspect(self) -> None:
        """Read the settings that durability depends on; log what is wrong."""
        ((settings,),) = await self._database.run(Scope(), lambda transaction: transaction.ask((_SETTINGS, ())))
        self._unsafe = judge_durability(settings)
        metrics.DATABASE_DURABLE.set(0 if self._unsafe else 1)
        if self._unsafe:
            log.warning("store.database.unsafe", problem=self._unsafe)
        if not settings["standbys"]:
            log.info("store.database.no_synchronous_standby", note="the loss of its disk loses data")
        self._problem = None

    async def watch(self) -> None:
        """Probe for ever."""
        while True:
            try:
                await self._database.ping()
                self._problem = None
            except HermesError as error:
                self._problem = error.message
            metrics.DATABASE_UP.set(0 if self._problem else 1)
            await asyncio.sleep(_PROBE_SECONDS)
