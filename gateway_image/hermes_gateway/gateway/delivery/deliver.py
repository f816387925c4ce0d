"""Works on one outbound partition while its lease is held: record, send, record, acknowledge."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from weakref import WeakValueDictionary

import structlog
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import NotFoundError
from pydantic import ValidationError

from hermes_contracts import subjects
from hermes_contracts.envelopes import Outbound
from hermes_contracts.errors import HermesError
from hermes_contracts.store_api import (
    BEGIN_DELIVERY,
    FINISH_DELIVERY,
    BeginDeliveryReply,
    BeginDeliveryRequest,
    FinishDeliveryRequest,
)  # fmt: skip
from hermes_gateway.gateway import metrics
from hermes_gateway.gateway.delivery.backoff import Verdict, pause_seconds
from hermes_service import tracing
from hermes_service.rpc import StoreClient

log = structlog.get_logger()


@dataclass(frozen=True)
class Attempt:
    """One try. `uncertain`: an earlier one began and nobody knows how it ended: the receiver may have the part already."""

    number: int
    uncertain: bool = False
    traceparent: str = ""


Send = Callable[[Outbound, Attempt], Awaitable[Verdict]]
"""Makes one attempt."""

_AT_ONCE = 16
_ACK_WAIT_SECONDS = 60.0
_FETCH_SECONDS = 1.0
_WAITING_SECONDS = 2.0
_STORE_AWAY_SECONDS = 5.0


class Deliverer:
    """Delivers a partition's messages: sessions beside each other, the messages of one session one after the other."""

    def __init__(self, js: JetStreamContext, store: StoreClient, senders: dict[str, Send], *, max_attempts: int) -> None:
        self._js = js
        self._store = store
        self._senders = senders
        self._max_attempts = max_attempts

    async def run(self, partition: int, holder: str, finish: asyncio.Event) -> None:
        """Deliver until asked to finish, then end what is in hand."""
        work = _Partition(self, holder, finish)
        while not finish.is_set():
            try:
                await work.consume(self._js, partition)
            except* (NatsError, TimeoutError) as errors:
                error = errors.exceptions[0]
                log.info("delivery.bus_away", partition=partition, error=str(error)[:200] or type(error).__name__)
                await asyncio.sleep(1.0)

    async def attempt(self, outbound: Outbound, holder: str, traceparent: str) -> float | None:
        """Try to deliver one part. Returns None when nothing is left to do, else the seconds until the next try."""
        try:
            request = BeginDeliveryRequest(delivery_id=outbound.delivery_id, holder=holder)
            begun = await self._store.call(BEGIN_DELIVERY, request)
            if not begun.proceed:
                # unknown: its session was deleted; delivered, failed: it is over.
                return _WAITING_SECONDS if begun.state in ("waiting", "attempting") else None
            return await self._send(outbound, holder, begun, traceparent)
        except HermesError as error:
            log.info("delivery.store_away", code=error.code, delivery_id=outbound.delivery_id)
            return _STORE_AWAY_SECONDS

    async def _send(self, outbound: Outbound, holder: str, begun: BeginDeliveryReply, traceparent: str) -> float | None:
        send = self._senders.get(outbound.channel)
        if begun.uncertain:
            metrics.UNCERTAIN.labels(outbound.channel if send is not None else "unknown").inc()
        started = time.monotonic()
        if send is None:
            verdict = Verdict("failed", f"this gateway has no channel {outbound.channel[:32]!r}")
        elif begun.attempts > self._max_attempts:
            verdict = Verdict("failed", f"given up after {self._max_attempts} attempts")
        else:
            verdict = await send(outbound, Attempt(begun.attempts, begun.uncertain, traceparent))
            if verdict.outcome == "retry" and begun.attempts >= self._max_attempts:
                verdict = Verdict("failed", f"{verdict.error}; given up after {begun.attempts} attempts")
        await self._store.call(
            FINISH_DELIVERY,
            FinishDeliveryRequest(
                delivery_id=outbound.delivery_id,
                holder=holder,
                outcome=verdict.outcome,
                platform_message_id=verdict.platform_message_id,
                error=verdict.error[:500],
            ),
        )
        channel = outbound.channel if send is not None else "unknown"
        metrics.DELIVERIES.labels(channel, verdict.outcome).inc()
        metrics.DELIVERY_SECONDS.labels(channel).observe(time.monotonic() - started)
        log.info(
            "delivery.attempted",
            sid=outbound.sid,
            turn=outbound.turn_id,
            part=outbound.part,
            outcome=verdict.outcome,
            attempts=begun.attempts,
            uncertain=begun.uncertain,
            error=verdict.error,
        )
        if verdict.outcome != "retry":
            return None
        if verdict.retry_after_seconds is not None:
            return max(verdict.retry_after_seconds, 1.0)
        return pause_seconds(begun.attempts, random.uniform(0.75, 1.25))


_Lane = tuple[str, int]


def _lane(outbound: Outbound) -> _Lane:
    """Return what messages wait for each other in: a session's way to one of its answer's targets."""
    return outbound.sid, outbound.target


class _Partition:
    """What one holder has in hand."""

    def __init__(self, deliverer: Deliverer, holder: str, finish: asyncio.Event) -> None:
        self._deliverer = deliverer
        self._holder = holder
        self._finish = finish
        self._fresh = True
        self._unfinished: dict[_Lane, set[int]] = {}
        """Stream sequences by lane, of messages that will come again."""
        self._locks: WeakValueDictionary[_Lane, asyncio.Lock] = WeakValueDictionary()

    async def consume(self, js: JetStreamContext, partition: int) -> None:
        name = f"gateway-{partition}"
        if self._fresh:
            # A consumer of one's own begins with the oldest message that is left. The old one would keep back, for a while,
            # what its holder had in hand when it died, and let later answers of the same session overtake that.
            with contextlib.suppress(NotFoundError):
                await js.delete_consumer(subjects.OUT_STREAM, name)
            self._fresh = False
        config = ConsumerConfig(
            name=name,
            durable_name=name,
            filter_subject=f"hermes.out.{partition}.*.*",
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=_ACK_WAIT_SECONDS,
            max_ack_pending=1024,
            max_deliver=-1,
        )
        await js.add_consumer(subjects.OUT_STREAM, config)
        subscription = await js.pull_subscribe_bind(name, subjects.OUT_STREAM)
        slots = asyncio.Semaphore(_AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                while not self._finish.is_set():
                    try:
                        messages = await subscription.fetch(_AT_ONCE, timeout=_FETCH_SECONDS)
                    except TimeoutError:
                        continue
                    for message in messages:
                        await slots.acquire()
                        task = group.create_task(self._handle(message))
                        task.add_done_callback(lambda _: slots.release())
        finally:
            await subscription.unsubscribe()

    async def _handle(self, message: Msg) -> None:
        try:
            outbound = Outbound.model_validate_json(message.data)
        except ValidationError:
            log.error("delivery.unreadable", subject=message.subject[:200])
            await message.term()
            return
        lock = self._locks.setdefault(_lane(outbound), asyncio.Lock())
        async with lock:
            with tracing.span("deliver", outbound.traceparent, sid=outbound.sid, channel=outbound.channel) as own:
                pause = await self._in_turn(outbound, message.metadata.sequence.stream, own)
        await (message.ack() if pause is None else message.nak(delay=pause))

    async def _in_turn(self, outbound: Outbound, sequence: int, traceparent: str) -> float | None:
        """Try a message unless an earlier one of its session is to come again: it keeps its place behind that."""
        waiting = self._unfinished.setdefault(_lane(outbound), set())
        behind = any(earlier < sequence for earlier in waiting)
        pause = _WAITING_SECONDS if behind else await self._deliverer.attempt(outbound, self._holder, traceparent)
        if pause is not None:
            waiting.add(sequence)
            return pause
        waiting.discard(sequence)
        if not waiting:
            del self._unfinished[_lane(outbound)]
        return None
