"""How many requests of a route one gateway takes, as a bucket that fills evenly."""

from __future__ import annotations


class RateLimits:
    """One bucket a route; a bucket holds a minute's worth."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}
        """What is left, and when that was counted."""

    def take(self, route: str, per_minute: int, now: float) -> float:
        """Take one request; return 0, or the seconds until there is room for one. `now` is on a monotonic clock."""
        left, at = self._buckets.get(route, (float(per_minute), now))
        left = min(float(per_minute), left + (now - at) * per_minute / 60)
        if left < 1:
            return (1 - left) * 60 / per_minute
        self._buckets[route] = (left - 1, now)
        return 0.0
