"""A lease on a name, kept in a bucket whose entries expire: at most one holder, told apart by the revision it won with."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

import structlog
from nats.errors import Error as NatsError
from nats.js.errors import KeyWrongLastSequenceError
from nats.js.kv import KeyValue

from hermes_gateway.gateway import metrics

log = structlog.get_logger()

_RENEWAL_TIMEOUT_SECONDS = 3.0


@dataclass(frozen=True)
class Pace:
    """Seconds between renewals, without a renewal until the work stops, and between attempts to win the lease.

    The entry itself lives 15 s, so nobody else has begun when the work of a holder that cannot renew stops.
    """

    renew_seconds: float = 5.0
    give_up_seconds: float = 10.0
    retry_seconds: float = 3.0


Work = Callable[[str], Coroutine[None, None, None]]
"""What is done while a lease is held; gets the holder's name, which no other holder ever had."""


class Lease:
    """One name, wanted by many."""

    def __init__(self, bucket: KeyValue, name: str, instance: str, pace: Pace = Pace()) -> None:
        self._bucket = bucket
        self._name = name
        self._instance = instance
        self._pace = pace

    async def run(self, work: Work) -> None:
        """Work whenever the lease is held, for ever. Losing it cancels the work; leaving gives it back."""
        while True:
            revision = await self._acquire()
            if revision is None:
                await asyncio.sleep(self._pace.retry_seconds * random.uniform(0.7, 1.3))
                continue
            metrics.LEASES.inc()
            log.info("lease.acquired", lease=self._name, revision=revision)
            try:
                await self._hold(revision, work)
            finally:
                metrics.LEASES.dec()

    async def _acquire(self) -> int | None:
        try:
            return await self._bucket.create(self._name, self._instance.encode())
        except (NatsError, TimeoutError):
            return None

    async def _hold(self, revision: int, work: Work) -> None:
        task = asyncio.create_task(work(f"{self._instance}/{revision}"))
        last: int | None = revision
        try:
            while last is not None:
                last = await self._keep(task, last)
                if task.done():
                    break
        finally:
            task.cancel()
            await asyncio.wait({task})
            if last is not None:
                await self._release(last)
        if last is None:
            log.warning("lease.lost", lease=self._name, revision=revision)
        elif not task.cancelled() and (error := task.exception()) is not None:
            # The work is written to outlive its dependencies; what it raises is a bug, and the next round starts afresh.
            log.error("lease.work_failed", lease=self._name, exc_info=error)
            await asyncio.sleep(1.0)

    async def _keep(self, task: asyncio.Task[None], last: int) -> int | None:
        """Renew once, in some seconds. Returns the new revision, the old one when the work has ended, None when lost."""
        renewed = time.monotonic()
        pause = self._pace.renew_seconds
        while time.monotonic() - renewed < self._pace.give_up_seconds:
            await asyncio.wait({task}, timeout=pause)
            if task.done():
                return last
            try:
                async with asyncio.timeout(_RENEWAL_TIMEOUT_SECONDS):
                    return await self._bucket.update(self._name, self._instance.encode(), last)
            except KeyWrongLastSequenceError:
                return None
            except (NatsError, TimeoutError):
                pause = 1.0
        return None

    async def _release(self, last: int) -> None:
        try:
            async with asyncio.timeout(1.0):
                await self._bucket.delete(self._name, last=last)
        except (NatsError, TimeoutError):
            pass  # it expires
