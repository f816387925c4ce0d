"""Signs of life: of a running turn, which ends when there are none for too long, and of the event loop itself."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator

import structlog

log = structlog.get_logger()

LOOP_TICK_SECONDS = 1.0
LOOP_STALL_SECONDS = 0.5


class Pulse:
    """When something last happened in the turn: a piece of an answer, a tool's start or end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self._excused_until = 0.0

    def beat(self) -> None:
        """Something happened."""
        self._last = self._clock()

    @contextlib.contextmanager
    def excused(self, seconds: float) -> Iterator[None]:
        """Expect silence for so long: tools run that have deadlines of their own."""
        self._excused_until = self._clock() + seconds
        try:
            yield
        finally:
            self._excused_until = 0.0
            self.beat()

    def silent_seconds(self) -> float:
        """Return how long nothing has happened that should have."""
        return self._clock() - max(self._last, self._excused_until)


async def watch_turn(pulse: Pulse, stall_seconds: float, on_stall: Callable[[], None]) -> None:
    """Call `on_stall` when nothing has happened for `stall_seconds`; then end."""
    pulse.beat()
    silent = 0.0
    while silent < stall_seconds:
        await asyncio.sleep(stall_seconds - silent)
        silent = pulse.silent_seconds()
    log.error("turn.stalled", silent_seconds=round(silent, 1))
    on_stall()


async def watch_event_loop(tick_seconds: float = LOOP_TICK_SECONDS, stall_seconds: float = LOOP_STALL_SECONDS) -> None:
    """Log when the event loop stood still: whatever blocked it also held up deltas, acknowledgements and stops."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(tick_seconds)
        late = time.monotonic() - before - tick_seconds
        if late > stall_seconds:
            log.warning("event_loop.stalled", seconds=round(late, 3))
