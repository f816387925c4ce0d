"""What Profiles have spent, asked of the store once a minute, and only where somebody may have spent something."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from hermes_contracts.errors import HermesError
from hermes_contracts.store_api import PROFILE_SPEND, ProfileSpendRequest
from hermes_operator.cluster.cache import Name
from hermes_operator.reconcile.profile import Spend
from hermes_operator.state import Shared, profile_key
from hermes_service.rpc import StoreClient

log = structlog.get_logger()

ASK_SECONDS = 60.0
NEW_SECONDS = 5.0
_AT_ONCE = 200


@dataclass
class Spending:
    """The last answers. A Profile that was never asked about is unknown."""

    store: StoreClient
    shared: Shared
    wall_clock: Callable[[], float] = time.time
    _known: dict[Name, Spend] = field(default_factory=dict)
    _day: str = ""
    _awake: frozenset[Name] = frozenset()

    def of(self, namespace: str, profile: str) -> Spend | None:
        """Return what a Profile has spent, as far as it is known."""
        return self._known.get((namespace, profile))

    async def run(self) -> None:
        """Ask again and again, until cancelled; a new Profile need not wait for its minute."""
        while True:
            answered = await self.ask()
            for _ in range(round(ASK_SECONDS / NEW_SECONDS)):
                await asyncio.sleep(NEW_SECONDS)
                if answered and self._names() - self._known.keys():
                    break

    def _names(self) -> set[Name]:
        return {(profile.namespace, profile.name) for profile in self.shared.cache.profiles.all()}

    async def ask(self) -> bool:
        """Ask for the Profiles whose sums may have changed, and have those looked at whose sums did.

        Returns whether the store answered.
        """
        day = datetime.fromtimestamp(self.wall_clock(), UTC).strftime("%Y-%m-%d")
        names = self._names()
        awake = frozenset(
            (session.namespace, session.profile) for session in self.shared.cache.sessions.all() if session.pod
        )
        # A session that fell asleep since the last time may have spent something before it did.
        changed_day = day != self._day
        due = sorted(n for n in names if changed_day or n in awake or n in self._awake or n not in self._known)
        for gone in self._known.keys() - names:
            del self._known[gone]
        try:
            for namespace in sorted({namespace for namespace, _ in due}):
                await self._ask(namespace, [name for space, name in due if space == namespace])
        except HermesError as error:
            log.info("spending.unknown", error=error.message[:200])
            return False
        self._day, self._awake = day, awake
        return True

    async def _ask(self, namespace: str, profiles: list[str]) -> None:
        for start in range(0, len(profiles), _AT_ONCE):
            asked = tuple(profiles[start : start + _AT_ONCE])
            request = ProfileSpendRequest(namespace=namespace, profiles=asked)
            reply = await self.store.call(PROFILE_SPEND, request, patience_seconds=2.0)
            found = {spend.profile: Spend(spend.day.cost_nano_usd, spend.month.cost_nano_usd) for spend in reply.profiles}
            for name in asked:
                spend = found.get(name, Spend())
                if self._known.get((namespace, name)) != spend:
                    self._known[(namespace, name)] = spend
                    self.shared.queue.add(profile_key(namespace, name))
