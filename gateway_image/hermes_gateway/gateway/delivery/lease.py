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
from hermes_gateway.gateway.delivery.share import Holding, Share
from hermes_service.cancelling import cancel_until_done

log = structlog.get_logger()

_RENEWAL_TIMEOUT_SECONDS = 3.0


@dataclass(frozen=True)
class Pace:
    """Seconds between renewals, without a renewal until the work stops, and between attempts to win the lease.

    The entry itself lives 15 s, so nobody else has begun when the work of a holder that cannot renew stops.
    """

    renew_seconds: float = 5.0
    give_up_seconds: float = 10.0
    retry_seconds: float = 1.0
    look_seconds: float = 0.5
    """Between looks at whether the lease is to be given back."""
    finish_seconds: float = 20.0
    """For work that is asked to finish because the lease goes to another replica."""
    last_words_seconds: float = 5.0
    """For work that ends because this process does."""


Work = Callable[[str, asyncio.Event], Coroutine[None, None, None]]
"""What is done while a lease is held. Gets the holder's name, which no other holder ever had, and an event that asks it to
finish what it has in hand and return."""


class Lease:
    """One name, wanted by many; `share` bounds how many this replica takes."""

    def __init__(self, bucket: KeyValue, name: str, instance: str, share: Share, pace: Pace = Pace()) -> None:
        self._bucket = bucket
        self._name = name
        self._instance = instance
        self._share = share
        self._pace = pace
        self._renewed = 0.0

    async def run(self, work: Work) -> None:
        """Work whenever the lease is held, for ever. Losing it cancels the work; giving it back lets the work finish."""
        while True:
            revision = await self._acquire() if self._share.reserve() else None
            if revision is None:
                await asyncio.sleep(self._pace.retry_seconds * random.uniform(0.7, 1.3))
                continue
            metrics.LEASES.inc()
            log.info("lease.acquired", lease=self._name, revision=revision)
            holding = self._share.holding()
            try:
                await self._hold(revision, work, holding)
            finally:
                holding.end()
                metrics.LEASES.dec()
            # Another one that wants it gets a chance before this replica asks again.
            await asyncio.sleep(self._pace.retry_seconds)

    async def _acquire(self) -> int | None:
        try:
            return await self._bucket.create(self._name, self._instance.encode())
        except (NatsError, TimeoutError):
            self._share.cancel()
            return None
        except BaseException:
            self._share.cancel()
            raise

    async def _hold(self, revision: int, work: Work, holding: Holding) -> None:
        self._renewed = time.monotonic()
        finish = asyncio.Event()
        task = asyncio.create_task(work(f"{self._instance}/{revision}", finish))
        last: int | None = revision
        finish_by: float | None = None
        try:
            while last is not None:
                if finish_by is None and holding.give_back():
                    log.info("lease.giving_back", lease=self._name, revision=revision)
                    finish.set()
                    finish_by = time.monotonic() + self._pace.finish_seconds
                last = await self._keep(task, last)
                if task.done() or (finish_by is not None and time.monotonic() >= finish_by):
                    break
        finally:
            await self._end(task, finish, lost=last is None)
            if last is not None:
                await self._release(last)
        if last is None:
            log.warning("lease.lost", lease=self._name, revision=revision)
        elif not task.cancelled() and (error := task.exception()) is not None:
            # The work is written to outlive its dependencies; what it raises is a bug, and the next round starts afresh.
            log.error("lease.work_failed", lease=self._name, exc_info=error)
            await asyncio.sleep(1.0)

    async def _end(self, task: asyncio.Task[None], finish: asyncio.Event, *, lost: bool) -> None:
        """End the work: at once when somebody else may hold the lease, otherwise with a moment for what is in hand, which
        would be sent a second time if its end went unrecorded."""
        finish.set()
        try:
            if not lost and not task.done():
                await asyncio.wait({task}, timeout=self._pace.last_words_seconds)
        finally:
            await cancel_until_done(task)

    async def _keep(self, task: asyncio.Task[None], last: int) -> int | None:
        """Watch for a moment, and renew when it is time. Returns the present revision, None when the lease is lost."""
        await asyncio.wait({task}, timeout=min(self._pace.look_seconds, self._pace.renew_seconds))
        if task.done() or time.monotonic() - self._renewed < self._pace.renew_seconds:
            return last
        try:
            async with asyncio.timeout(_RENEWAL_TIMEOUT_SECONDS):
                revision: int = await self._bucket.update(self._name, self._instance.encode(), last)
        except KeyWrongLastSequenceError:
            return None
        except (NatsError, TimeoutError):
            return last if time.monotonic() - self._renewed < self._pace.give_up_seconds else None
        self._renewed = time.monotonic()
        return revision

    async def _release(self, last: int) -> None:
        try:
            async with asyncio.timeout(1.0):
                await self._bucket.delete(self._name, last=last)
        except (NatsError, TimeoutError):
            pass  # it expires
