"""Waits for what becomes of a message: events and deltas as they happen, the store as the net under them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import structlog
from pydantic import ValidationError

from hermes_contracts import subjects
from hermes_contracts.conversation import Usage
from hermes_contracts.envelopes import Delta, Event, EventType, Inbound, Route
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import GET_TURN, SETTLED, GetTurnRequest, Turn, TurnState
from hermes_gateway.gateway import metrics
from hermes_gateway.gateway.hub import Heard, Listener, SubjectHub
from hermes_gateway.gateway.ingest import Accepted, Ingest
from hermes_service.rpc import StoreClient

log = structlog.get_logger()

_TICK_SECONDS = 1.0
_GLANCE_SECONDS = 1.0
_MAX_DELTA_BYTES = 64 * 1024
_MAX_EARLY_DELTAS = 256
_EVENT_STATES = {
    EventType.TURN_DONE: TurnState.DONE,
    EventType.TURN_FAILED: TurnState.FAILED,
    EventType.TURN_DEAD: TurnState.DEAD,
}


@dataclass(frozen=True)
class Answer:
    """How a turn ended."""

    turn_id: str
    state: TurnState
    reply: str
    reason: str
    usage: Usage


@dataclass(frozen=True)
class Tick:
    """Nothing happened for a second: time for a heartbeat, or to see whether the caller is still there."""


Happening = Delta | Tick | Answer


class GatewayLeaves(HermesError):
    """This replica ends before the answer came. The turn goes on, and any replica can tell its answer."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.UNAVAILABLE, "this gateway is shutting down")


def answer_of_turn(turn: Turn) -> Answer | None:
    """Return the answer of a stored turn; None while it is not settled."""
    if not turn.found or turn.state not in SETTLED:
        return None
    return Answer(turn.turn_id, turn.state, turn.reply, turn.reason, turn.usage)


def answer_of_event(event: Event) -> Answer | None:
    """Return the answer an event carries; None when it carries none or only a part of it."""
    state = _EVENT_STATES.get(event.type)
    reply = event.data.get("reply")
    if state is None or not isinstance(reply, str) or event.data.get("truncated"):
        return None
    try:
        usage = Usage.model_validate(event.data.get("usage") or {})
    except ValidationError:
        usage = Usage()
    return Answer(event.turn_id, state, reply, str(event.data.get("reason", "")), usage)


class Turns:
    """Submits messages and follows their turns."""

    def __init__(
        self, ingest: Ingest, hub: SubjectHub, store: StoreClient, *, poll_seconds: float, max_waiting: int
    ) -> None:
        self._ingest = ingest
        self._hub = hub
        self._store = store
        self._poll_seconds = poll_seconds
        self._max_waiting = max_waiting
        self._waiting = 0
        self.leaves_at = float("inf")
        """When waiting calls are told that this replica ends, on the monotonic clock."""

    @property
    def leaving(self) -> bool:
        """Whether waiting calls are told to end."""
        return time.monotonic() >= self.leaves_at

    def leave(self, grace_seconds: float) -> None:
        """Let waiting calls go on for a while, then end them with GatewayLeaves."""
        self.leaves_at = time.monotonic() + grace_seconds

    async def submit(self, route: Route, inbound: Inbound, traceparent: str, *, deltas: bool) -> Watch:
        """Publish a message and return its watch, which listens since before; the caller closes it.

        Raises HermesError as `Ingest.publish` does, and UNAVAILABLE when too many calls wait already.
        """
        watch = await self._open(inbound, deltas=deltas)
        try:
            watch.accepted = await self._ingest.publish(route, inbound, traceparent)
        except BaseException:
            await watch.close()
            raise
        return watch

    async def post(self, route: Route, inbound: Inbound, traceparent: str) -> Accepted:
        """Publish a message without waiting for its turn."""
        return await self._ingest.publish(route, inbound, traceparent)

    async def follow(self, inbound: Inbound) -> Watch:
        """Return the watch of a message that was published before; the caller closes it. Raises HermesError UNAVAILABLE."""
        return await self._open(inbound, deltas=True)

    async def find(self, request: GetTurnRequest) -> Turn:
        """Return what the store knows of a turn."""
        return await self._store.call(GET_TURN, request)

    async def glance(self, request: GetTurnRequest) -> Turn:
        """Ask once and not for long: the caller asks again later."""
        return await self._store.call(GET_TURN, request, timeout_seconds=_GLANCE_SECONDS, patience_seconds=0)

    async def _open(self, inbound: Inbound, *, deltas: bool) -> Watch:
        if self._waiting >= self._max_waiting:
            busy = "too many calls wait for answers here; try again"
            raise HermesError(ErrorCode.UNAVAILABLE, busy, retryable=True, retry_after_seconds=5.0)
        patterns = (subjects.event(inbound.sid), *((subjects.deltas_of(inbound.sid),) if deltas else ()))
        self._count(1)
        try:
            listener = await self._hub.listen(*patterns)
        except BaseException:
            self._count(-1)
            raise
        return Watch(self, listener, inbound, self._poll_seconds)

    def _count(self, change: int) -> None:
        self._waiting += change
        metrics.WAITING.set(self._waiting)

    def released(self) -> None:
        """A watch was closed."""
        self._count(-1)


@dataclass
class Watch:
    """What happens to one message. Only its own turn's deltas are given out."""

    _turns: Turns
    _listener: Listener
    _inbound: Inbound
    _poll_seconds: float
    accepted: Accepted | None = None
    turn_id: str = ""
    _early: list[Delta] = field(default_factory=list)
    _started: float = field(default_factory=time.monotonic)
    _closed: bool = False

    async def close(self) -> None:
        """Stop listening. The turn is not touched. May be called twice."""
        if not self._closed:
            self._closed = True
            self._turns.released()
            await self._listener.close()

    async def happenings(self, timeout_seconds: float | None) -> AsyncIterator[Happening]:
        """Give out deltas and ticks, at last one Answer. Raises TimeoutError after `timeout_seconds`, or GatewayLeaves."""
        deadline = None if timeout_seconds is None else self._started + timeout_seconds
        # A duplicate's turn may have started or ended before we listened: only the store knows.
        duplicate = self.accepted is not None and self.accepted.duplicate
        next_poll = time.monotonic() + (0.0 if duplicate else self._poll_seconds)
        while True:
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                metrics.ANSWER_SECONDS.labels("timeout").observe(now - self._started)
                raise TimeoutError
            if self._turns.leaving:
                raise GatewayLeaves
            if now >= next_poll:
                answer = await self._ask_store()
                next_poll = time.monotonic() + self._poll_seconds
                if answer is not None:
                    metrics.ANSWERS_POLLED.inc()
                    yield self._ended(answer)
                    return
                for delta in self._take_early():
                    yield delta
            try:
                async with asyncio.timeout(min(_TICK_SECONDS, max(0.0, next_poll - now))):
                    heard = await self._listener.queue.get()
            except TimeoutError:
                yield Tick()
                continue
            async for happening in self._understand(heard):
                yield happening
                if isinstance(happening, Answer):
                    return

    async def _understand(self, heard: Heard) -> AsyncIterator[Happening]:
        if heard.subject == subjects.event(self._inbound.sid):
            event = parse_event(heard.data)
            if event is None or not self._is_mine(event):
                return
            self.turn_id = event.turn_id or self.turn_id
            for delta in self._take_early():
                yield delta
            if event.type in _EVENT_STATES:
                answer = answer_of_event(event) or await self._ask_store()
                if answer is not None:
                    yield self._ended(answer)
            return
        received = parse_delta(heard.data)
        if received is None:
            return
        if not self.turn_id:
            # The event that names our turn travels another way than its deltas and may come later.
            if len(self._early) < _MAX_EARLY_DELTAS:
                self._early.append(received)
        elif received.turn_id == self.turn_id:
            yield received

    def _is_mine(self, event: Event) -> bool:
        return (event.account, event.update_id) == (self._inbound.account, self._inbound.update_id)

    def _take_early(self) -> list[Delta]:
        if not self.turn_id or not self._early:
            return []
        mine = [delta for delta in self._early if delta.turn_id == self.turn_id]
        self._early.clear()
        return mine

    async def _ask_store(self) -> Answer | None:
        request = GetTurnRequest(
            sid=self._inbound.sid,
            owner=self._inbound.owner,
            channel=self._inbound.channel,
            account=self._inbound.account,
            update_id=self._inbound.update_id,
        )
        try:
            turn = await self._turns.glance(request)
        except HermesError as error:
            # NOT_FOUND: the session has no row before its first turn is opened.
            if error.code is not ErrorCode.NOT_FOUND:
                log.info("turns.store_silent", code=error.code)
            return None
        self.turn_id = turn.turn_id or self.turn_id
        return answer_of_turn(turn)

    def _ended(self, answer: Answer) -> Answer:
        metrics.ANSWER_SECONDS.labels(str(answer.state)).observe(time.monotonic() - self._started)
        return answer


def parse_event(data: bytes) -> Event | None:
    """Read an event; None when it is none."""
    try:
        return Event.model_validate_json(data)
    except ValidationError:
        return None


def parse_delta(data: bytes) -> Delta | None:
    """Read a delta; None when it is none, or larger than a piece should be."""
    if len(data) > _MAX_DELTA_BYTES:
        return None
    try:
        return Delta.model_validate_json(data)
    except ValidationError:
        return None
