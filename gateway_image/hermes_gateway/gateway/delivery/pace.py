"""One pace for everything that is written to a chat: posts, edits and answers wait for each other."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from hermes_contracts.envelopes import Target

_REMEMBERED = 10_000


class RateGate:
    """When a chat may be written to next. Only the clock decides, so it can be asked for any moment."""

    def __init__(self, every_seconds: float) -> None:
        self._every_seconds = every_seconds
        self._next = 0.0

    def seconds_left(self, now: float) -> float:
        """Return how long to wait."""
        return max(0.0, self._next - now)

    def take(self, now: float) -> float:
        """Take the next free moment; returns the seconds until then."""
        begins = max(now, self._next)
        self._next = begins + self._every_seconds
        return begins - now

    def penalise(self, now: float, seconds: float) -> None:
        """The platform says when it will listen again."""
        self._next = max(self._next, now + seconds)


class Pace:
    """Gates by chat. Threads of a chat share its gate, as they share the platform's limit."""

    def __init__(self, seconds_between: Callable[[Target], float], clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds_between = seconds_between
        self._clock = clock
        self._gates: OrderedDict[tuple[str, str], RateGate] = OrderedDict()

    async def wait(self, place: Target) -> None:
        """Wait for a place's next free moment and take it."""
        await asyncio.sleep(self._gate(place).take(self._clock()))

    def seconds_left(self, place: Target) -> float:
        """Return how long `wait` would take now."""
        return self._gate(place).seconds_left(self._clock())

    def penalise(self, place: Target, seconds: float) -> None:
        """Write nothing there for a while."""
        self._gate(place).penalise(self._clock(), seconds)

    def _gate(self, place: Target) -> RateGate:
        key = (place.account, place.chat)
        gate = self._gates.pop(key, None) or RateGate(self._seconds_between(place))
        self._gates[key] = gate
        if len(self._gates) > _REMEMBERED:
            self._gates.popitem(last=False)
        return gate
