"""A session's durable events from any point on, then as they happen, by the stream's sequence numbers."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, DeliverPolicy

from hermes_contracts import subjects
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.gateway.hub import Listener, SubjectHub
from hermes_gateway.gateway.turns import parse_delta, parse_event
from hermes_gateway.gateway.web.errors import ApiError
from hermes_gateway.gateway.web.sse import HEARTBEAT, frame

log = structlog.get_logger()

_TICK_SECONDS = 0.25
_REOPEN_SECONDS = 60.0
_INACTIVE_SECONDS = 30.0

Emit = Callable[[int, bytes], Awaitable[None]]
"""Takes the stream sequence and the body of an event."""


class EventFeed:
    """Events of one session after a sequence number; survives a restart of the bus."""

    def __init__(self, bus: Client, js: JetStreamContext, sid: str, after: int | None) -> None:
        self._bus = bus
        self._js = js
        self._sid = sid
        self._last = after

    async def open(self) -> None:
        """Find out where "from now on" is. Raises HermesError UNAVAILABLE."""
        try:
            state = (await self._js.stream_info(subjects.EVENTS_STREAM)).state
        except (NatsError, TimeoutError) as error:
            raise HermesError(ErrorCode.UNAVAILABLE, "the message bus does not answer; try again") from error
        # A number beyond the stream's end is of a stream that is gone: its events are, too.
        self._last = state.last_seq if self._last is None else min(self._last, state.last_seq)

    async def run(self, emit: Emit) -> None:
        """Emit events for ever."""
        while True:
            try:
                await self._follow(emit)
            except (NatsError, TimeoutError) as error:
                log.info("events.feed_broken", error=str(error)[:200] or type(error).__name__)
                await asyncio.sleep(0.5)

    async def _follow(self, emit: Emit) -> None:
        """Follow with one consumer; ends after silence or a reconnect, because the server may have forgotten it."""
        assert self._last is not None
        reconnects, heard = self._bus.stats["reconnects"], time.monotonic()
        subscription = await self._js.subscribe(
            subjects.event(self._sid),
            stream=subjects.EVENTS_STREAM,
            ordered_consumer=True,
            config=ConsumerConfig(
                deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=self._last + 1,
                inactive_threshold=_INACTIVE_SECONDS,
            ),
        )
        try:
            while self._bus.stats["reconnects"] == reconnects and time.monotonic() - heard < _REOPEN_SECONDS:
                try:
                    message = await subscription.next_msg(timeout=_TICK_SECONDS)
                except TimeoutError:
                    continue
                heard = time.monotonic()
                sequence = message.metadata.sequence.stream
                if sequence > self._last:
                    await emit(sequence, message.data)
                    self._last = sequence
        finally:
            await subscription.unsubscribe()


class SessionStream:
    """Frames of one session: durable events with their number as id, deltas without one.

    Cleaning up is `close`, not the end of `frames`: a response that is cancelled leaves no time to await anything there.
    """

    def __init__(self, feed: EventFeed, hub: SubjectHub, deltas_pattern: str | None, heartbeat_seconds: float) -> None:
        self._feed = feed
        self._hub = hub
        self._deltas_pattern = deltas_pattern
        self._heartbeat_seconds = heartbeat_seconds
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue(64)
        self._listener: Listener | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._leaving = False

    def leave(self) -> None:
        """End the frames: the client comes again, to another replica, with the number of the last event it has."""
        self._leaving = True
        with contextlib.suppress(asyncio.QueueFull):
            self._frames.put_nowait(None)

    async def open(self) -> None:
        """Begin to listen. Raises HermesError UNAVAILABLE."""
        await self._feed.open()
        if self._deltas_pattern is not None:
            self._listener = await self._hub.listen(self._deltas_pattern)
            self._tasks.append(asyncio.create_task(self._relay_deltas(self._listener)))
        self._tasks.append(asyncio.create_task(self._feed.run(self._emit)))

    async def close(self) -> None:
        """Stop listening."""
        left = {task for task in self._tasks if not task.done()}
        while left:
            # More than once, because the bus's client library can lose a cancellation that meets the end of a wait.
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=_TICK_SECONDS)
        for task in self._tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("events.stream_failed", exc_info=error)
        if self._listener is not None:
            await self._listener.close()

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Give out frames while the client is there."""
        # The first bytes tell the client that the stream is open, whenever the first event comes.
        yield HEARTBEAT
        while not self._leaving and not any(task.done() for task in self._tasks):
            try:
                async with asyncio.timeout(self._heartbeat_seconds):
                    piece = await self._frames.get()
            except TimeoutError:
                piece = HEARTBEAT
            if piece is not None:
                yield piece

    async def _emit(self, sequence: int, data: bytes) -> None:
        await self._frames.put(render_event(sequence, data))

    async def _relay_deltas(self, listener: Listener) -> None:
        while True:
            await self._frames.put(render_delta((await listener.queue.get()).data))


class OpenStreams:
    """The event streams of this replica, counted, and ended together when it leaves."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._streams: set[SessionStream] = set()
        self._leaving = False

    def add(self, stream: SessionStream) -> None:
        """Take a stream in. Raises ApiError 503 when there are too many, or this replica leaves."""
        if self._leaving:
            raise ApiError(503, "this gateway is shutting down", code="unavailable", retry_after_seconds=1)
        if len(self._streams) >= self._most:
            raise ApiError(503, "too many event streams are open here; try again", retry_after_seconds=5)
        self._streams.add(stream)

    def discard(self, stream: SessionStream) -> None:
        """Forget a stream."""
        self._streams.discard(stream)

    def leave(self) -> None:
        """End all streams, and take no more."""
        self._leaving = True
        for stream in self._streams:
            stream.leave()


def render_event(sequence: int, data: bytes) -> bytes | None:
    """Render a durable event; None when it cannot be read."""
    event = parse_event(data)
    if event is None:
        return None
    body = {
        "type": str(event.type),
        "session": event.sid,
        "turn": event.turn_id,
        "message_id": event.update_id,
        "at": event.at,
        "data": event.data,
    }
    return frame(body, event=str(event.type), id=str(sequence))


def render_delta(data: bytes) -> bytes | None:
    """Render a piece of a running turn; None when it cannot be read."""
    delta = parse_delta(data)
    return None if delta is None else frame(delta.model_dump(exclude={"version"}), event="delta")
