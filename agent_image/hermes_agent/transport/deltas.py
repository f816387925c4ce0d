"""Pieces of a running turn on the bus, best effort: nothing waits for them."""

from __future__ import annotations

import asyncio
from collections import deque

from nats.aio.client import Client
from nats.errors import Error as NatsError

from hermes_agent.loop.ports import DeltaKind
from hermes_agent.model.hygiene import clean_text
from hermes_contracts import subjects
from hermes_contracts.envelopes import Delta

MAX_WAITING = 2_000
"""Pieces that wait for the bus; more are dropped, oldest first."""
MAX_PIECE_CHARACTERS = 32_000


class BusDeltas:
    """Publishes deltas in order; text that piles up while the bus is slow is joined."""

    def __init__(self, bus: Client, sid: str, epoch: int) -> None:
        self._bus = bus
        self._subject = subjects.delta(sid, epoch)
        self._waiting: deque[Delta] = deque(maxlen=MAX_WAITING)
        self._some = asyncio.Event()
        self._turn_id = ""
        self._attempt = 0
        self._sequence = 0

    def begin(self, turn_id: str, attempt: int) -> None:
        """Name the turn that the next pieces belong to."""
        self._turn_id, self._attempt, self._sequence = turn_id, attempt, 0

    def emit(self, kind: DeltaKind, *, text: str = "", tool: str = "", call_id: str = "") -> None:
        """Send a piece; never waits, never raises."""
        text = clean_text(text)
        last = self._waiting[-1] if self._waiting else None
        if last is not None and text and self._joins(last, kind, text):
            self._waiting[-1] = last.model_copy(update={"text": last.text + text})
            return
        self._sequence += 1
        self._waiting.append(
            Delta(
                turn_id=self._turn_id,
                attempt=self._attempt,
                sequence=self._sequence,
                kind=kind,
                text=text,
                tool=tool,
                call_id=call_id,
            )
        )
        self._some.set()

    def _joins(self, last: Delta, kind: DeltaKind, text: str) -> bool:
        same = last.kind == kind and last.turn_id == self._turn_id and last.attempt == self._attempt
        return same and len(last.text) + len(text) < MAX_PIECE_CHARACTERS

    async def pump(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            while self._waiting:
                delta = self._waiting.popleft()
                try:
                    await self._bus.publish(self._subject, delta.model_dump_json().encode())
                except NatsError:
                    self._waiting.clear()
