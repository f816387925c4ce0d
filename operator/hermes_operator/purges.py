"""Purges what a session left whose object went before our finalizer was on it: made or changed, and deleted at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from hermes_operator.state import Key, Shared
from hermes_operator.undertaker import Undertaker

_LOOK_AGAIN_SECONDS = 5.0


@dataclass(frozen=True)
class PurgePass:
    """Runs passes over ids in `Shared.to_purge`; until one is done, no message makes that session again."""

    shared: Shared
    undertaker: Undertaker
    wall_clock: Callable[[], float] = time.time

    async def run(self, key: Key) -> float | None:
        """Run one pass; returns when to look again. Raises HermesError to be tried again."""
        sid = key.name
        if sid not in self.shared.to_purge:
            return None
        if self.shared.cache.pods_of(sid):
            return self.wall_clock() + _LOOK_AGAIN_SECONDS  # the garbage collector ends them; they could still write
        await self.undertaker.purge(sid)
        self.shared.to_purge.discard(sid)
        return None
