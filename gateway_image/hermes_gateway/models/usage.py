"""Hands the usage of calls to the store, beside the streams: a slow store slows no answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from hermes_contracts.errors import HermesError
from hermes_contracts.store_api import RecordUsageRequest
from hermes_gateway.models.metrics import ModelsMetrics

log = structlog.get_logger()

Send = Callable[[RecordUsageRequest], Awaitable[object]]

QUEUE_SIZE = 5000
_WORKERS = 4
_ATTEMPTS = 40
_MAX_PAUSE_SECONDS = 10.0


class UsageRecorder:
    """A bounded queue and a few workers. A record that is lost is logged with its numbers."""

    def __init__(
        self,
        send: Send,
        metrics: ModelsMetrics,
        *,
        size: int = QUEUE_SIZE,
        pause_seconds: float = 1.0,
        settled: Callable[[str], None] | None = None,
    ) -> None:
        """`settled` is told the id of each call that the store took, or that is lost."""
        self._send = send
        self._settled = settled
        self._metrics = metrics
        self._pause_seconds = pause_seconds
        self._queue: asyncio.Queue[RecordUsageRequest] = asyncio.Queue(size)

    def put(self, record: RecordUsageRequest) -> None:
        """Queue a record; never waits."""
        try:
            self._queue.put_nowait(record)
        except asyncio.QueueFull:
            self._lost(record, "the queue is full")

    async def run(self) -> None:
        """Send records until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(self._work())

    async def drain(self, seconds: float) -> None:
        """Wait for what is queued, at most so long; what is left is logged as lost."""
        try:
            async with asyncio.timeout(seconds):
                await self._queue.join()
        except TimeoutError:
            while not self._queue.empty():
                self._lost(self._queue.get_nowait(), "the process ended")

    async def _work(self) -> None:
        while True:
            record = await self._queue.get()
            try:
                await self._deliver(record)
            finally:
                self._queue.task_done()

    async def _deliver(self, record: RecordUsageRequest) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._send(record)
                self._done(record)
                return
            except HermesError as error:
                if not error.retryable or attempt == _ATTEMPTS:
                    self._lost(record, error.message)
                    return
            await asyncio.sleep(min(self._pause_seconds * 2 ** (attempt - 1), _MAX_PAUSE_SECONDS))

    def _lost(self, record: RecordUsageRequest, why: str) -> None:
        self._metrics.usage_lost.inc()
        self._done(record)
        log.error("models.usage.lost", why=why, **record.model_dump(mode="json"))

    def _done(self, record: RecordUsageRequest) -> None:
        if self._settled is not None:
            self._settled(record.call_id)
