"""Gives up messages that nobody will ever answer, and deletes what is left of a session that is to leave nothing."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from hermes_contracts import subjects
from hermes_contracts.envelopes import Inbound, Route
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import BURY, PURGE, BuryRequest, SidRequest
from hermes_operator import metrics
from hermes_operator.epochs import raise_epoch
from hermes_operator.mail import Mail
from hermes_service.rpc import StoreClient

log = structlog.get_logger()

MAX_AT_ONCE = 200
"""Messages given up in one go; the next pass goes on."""


@dataclass(frozen=True)
class Undertaker:
    """Every failure is a HermesError, and everything may be done again."""

    store: StoreClient
    mail: Mail

    async def bury(self, sid: str, before: float, reason: str) -> int:
        """Give up a session's messages that the bus took before a time, oldest first; returns how many.

        The store tells the person and writes the dead letter, then the message goes. One without a good signature has no
        person: it just goes.
        """
        buried = 0
        async for message in self.mail.waiting(sid):
            if message.at > before or buried >= MAX_AT_ONCE:
                break
            inbound = message.inbound()
            if inbound is not None and message.route is not None:
                await self._give_up(inbound, message.route, reason)
            else:
                log.warning("message.unsigned_removed", sid=sid, sequence=message.sequence)
            await self.mail.remove(subjects.in_stream(sid), message.sequence)
            buried += 1
        if buried:
            metrics.BURIED.labels(reason).inc(buried)
            log.warning("messages.buried", sid=sid, count=buried, reason=reason)
        return buried

    async def _give_up(self, inbound: Inbound, route: Route, reason: str) -> None:
        request = BuryRequest(inbound=inbound, reason=reason)
        try:
            await self.store.call(BURY, request, patience_seconds=3.0)
        except HermesError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
            # Nobody ever started it: the store needs a row before it can tell anyone.
            await raise_epoch(self.store, route, 0)
            await self.store.call(BURY, request, patience_seconds=3.0)

    async def purge(self, sid: str) -> None:
        """Delete everything the platform holds of a session: rows first, then what the bus keeps."""
        await self.store.call(PURGE, SidRequest(sid=sid), patience_seconds=3.0)
        await self.mail.purge(sid)
        log.info("session.purged", sid=sid)
