"""The net under what is only said once: looks for waiting messages, commands and dead letters, again and again."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from hermes_contracts.errors import HermesError
from hermes_contracts.store_api import WAITING_COMMANDS, Empty
from hermes_operator import metrics
from hermes_operator.bus import BusDoor
from hermes_operator.mail import Mail
from hermes_operator.observer import Observer
from hermes_operator.reconcile.status import State
from hermes_operator.state import Shared, session_key
from hermes_service.rpc import StoreClient

log = structlog.get_logger()

DEAD_SECONDS = 30.0
"""Between looks at the dead letters: nobody waits for them."""


@dataclass
class Sweep:
    """Looks at every session with messages waiting, and at those whose dead letters changed."""

    door: BusDoor
    mail: Mail
    store: StoreClient
    shared: Shared
    observer: Observer
    seconds: float
    clock: Callable[[], float] = time.monotonic
    _dead_at: float = float("-inf")

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(self.seconds)
            await self.once()

    async def once(self) -> None:
        """Sweep once; a bus that does not answer is asked again next time."""
        try:
            counts = await self.door.pending_everywhere()
            self.shared.pending.swept(counts)
            for sid in counts:
                self.observer.look_at(sid)
            await self._take_commands()
            if self.clock() - self._dead_at >= DEAD_SECONDS:
                self._take_dead(await self.mail.dead_counts())
                self._dead_at = self.clock()
        except HermesError as error:
            log.warning("sweep.failed", error=error.message[:200])
            return
        states = Counter(session.state for session in self.shared.cache.sessions.all())
        for state in State:
            metrics.SESSIONS.labels(state.value).set(states.get(state.value, 0))

    async def _take_commands(self) -> None:
        """Have sessions looked at that a command should wake; who has no object has nothing that a command is about."""
        found = await self.store.call(WAITING_COMMANDS, Empty(), patience_seconds=2.0)
        before, self.shared.commanded = self.shared.commanded, frozenset(found.sids)
        for sid in before | self.shared.commanded:
            session = self.shared.cache.session_of(sid)
            if session is not None:
                self.shared.queue.add(session_key(session.namespace, session.name))

    def _take_dead(self, counts: dict[str, int]) -> None:
        before, self.shared.dead = self.shared.dead, counts
        metrics.DEAD_LETTERS.set(sum(counts.values()))
        for sid in before.keys() | counts.keys():
            session = self.shared.cache.session_of(sid)
            if session is not None and before.get(sid) != counts.get(sid):
                self.shared.queue.add(session_key(session.namespace, session.name))
