"""Which sessions have messages waiting: the last sweep's counts, and wakes that came since."""

from __future__ import annotations

from collections.abc import Callable

from hermes_operator import metrics


class PendingBoard:
    """Hints only: a pass that is about to act on one asks the bus itself."""

    def __init__(self, clock: Callable[[], float], fresh_seconds: float = 30.0) -> None:
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._counts: dict[str, int] = {}
        self._woken: set[str] = set()
        self._swept_at: float | None = None

    def swept(self, counts: dict[str, int]) -> None:
        """Take a sweep's result; wakes from before it are in it."""
        self._counts = counts
        self._woken.clear()
        self._swept_at = self._clock()
        metrics.PENDING_SESSIONS.set(len(counts))

    def woken(self, sid: str) -> None:
        """Take a wake."""
        self._woken.add(sid)

    def hint(self, sid: str) -> int | None:
        """Return how many messages may wait; None when no sweep is recent enough to say."""
        if sid in self._woken:
            return max(1, self._counts.get(sid, 0))
        if self._swept_at is None or self._clock() - self._swept_at > self._fresh_seconds:
            return None
        return self._counts.get(sid, 0)
