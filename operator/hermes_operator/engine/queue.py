"""A queue of keys: each once, one worker at a time a key, failures backed off, later looks on one heap of due times."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_BACKOFF_SECONDS = 0.005
MAX_BACKOFF_SECONDS = 60.0


def backoff_seconds(failures: int, chance: float) -> float:
    """Return the pause after this many failures in a row; `chance` in [0, 1) spreads it over the upper half."""
    full = min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 30))
    return full * (0.5 + 0.5 * chance)


class WorkQueue(Generic[K]):
    """Level-triggered: adding a key that waits changes nothing, adding one that is being worked on runs it once more."""

    def __init__(self, clock: Callable[[], float], chance: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._chance = chance
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()
        self._running: set[K] = set()
        self._again: set[K] = set()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._failures: dict[K, int] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: K) -> None:
        """Have a key worked on as soon as a worker is free."""
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.append(key)
            self._changed.set()

    def add_at(self, key: K, when: float) -> None:
        """Have a key worked on at a time of the clock, unless that happens sooner anyway."""
        known = self._due.get(key)
        if known is not None and known <= when:
            return
        self._due[key] = when
        self._sequence += 1
        heapq.heappush(self._heap, (when, self._sequence, key))
        self._changed.set()

    async def get(self) -> K:
        """Wait for a key. The caller must hand it back with `done`."""
        while True:
            wait = self._promote()
            if self._ready:
                key = self._ready.popleft()
                self._waiting.discard(key)
                self._running.add(key)
                return key
            self._changed.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def done(self, key: K, *, failed: bool) -> None:
        """Hand a key back; a failed one comes again after a pause that doubles."""
        self._running.discard(key)
        if failed:
            self._failures[key] = self._failures.get(key, 0) + 1
            self.add_at(key, self._clock() + backoff_seconds(self._failures[key], self._chance()))
        else:
            self._failures.pop(key, None)
        if key in self._again:
            self._again.discard(key)
            if not failed:
                self.add(key)

    def failures(self, key: K) -> int:
        """Return how often a key failed in a row."""
        return self._failures.get(key, 0)

    def clear(self) -> None:
        """Forget everything that waits; a leader that lost its lease starts anew when it gets one."""
        self._ready.clear()
        self._waiting.clear()
        self._again.clear()
        self._due.clear()
        self._heap.clear()
        self._failures.clear()

    def _promote(self) -> float | None:
        """Move what is due to the ready keys; returns the seconds to the next due time, None without one."""
        now = self._clock()
        while self._heap:
            when, _, key = self._heap[0]
            if self._due.get(key) != when:
                heapq.heappop(self._heap)  # it was moved to an earlier time
            elif when <= now:
                heapq.heappop(self._heap)
                del self._due[key]
                self.add(key)
            else:
                return when - now
        return None
