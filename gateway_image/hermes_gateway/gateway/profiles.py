"""What the gateway knows of Profiles: the operator's projections, watched in their bucket and held in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.kv import KV_DEL, KV_PURGE, KeyValue
from pydantic import ValidationError

from hermes_contracts import projection, subjects
from hermes_contracts.projection import ProfileProjection

log = structlog.get_logger()

_REOPEN_SECONDS = 60.0
_IDLE_SECONDS = 1.0


class ProfileCache:
    """Projections by (namespace, name). `synced` turns True when all that was in the bucket has been read once."""

    def __init__(self) -> None:
        self._profiles: dict[str, ProfileProjection] = {}
        self.synced = False

    def get(self, namespace: str, name: str) -> ProfileProjection | None:
        """Return one Profile."""
        return self._profiles.get(projection.key(namespace, name))

    def existing(self, namespace: str, names: Iterable[str]) -> list[ProfileProjection]:
        """Return those of the named Profiles that exist."""
        found = (self.get(namespace, name) for name in names)
        return [profile for profile in found if profile is not None]

    def replace(self, profiles: Iterable[ProfileProjection]) -> None:
        """Hold these Profiles and no others."""
        self._profiles = {projection.key(p.namespace, p.name): p for p in profiles}
        self.synced = True

    async def run(self, bus: Client, js: JetStreamContext) -> None:
        """Follow the bucket for ever; what is held stays when the bus is away."""
        while True:
            try:
                await self._watch(bus, js)
            except (NatsError, TimeoutError) as error:
                log.info("profiles.watch_broken", error=str(error)[:200] or type(error).__name__)
                await asyncio.sleep(0.5)

    async def _watch(self, bus: Client, js: JetStreamContext) -> None:
        """Read everything, then changes. Ends after a while or a reconnect, because the client's watcher does not outlive a
        server that forgot it; the next round reads everything again."""
        reconnects, opened = bus.stats["reconnects"], time.monotonic()
        bucket = await js.key_value(subjects.PROFILES_BUCKET)
        watcher = await bucket.watchall()
        fresh: dict[str, ProfileProjection] | None = {}
        try:
            while time.monotonic() - opened < _REOPEN_SECONDS and bus.stats["reconnects"] == reconnects:
                try:
                    entry = await watcher.updates(timeout=_IDLE_SECONDS)  # type: ignore[no-untyped-call]
                except TimeoutError:
                    continue
                if entry is None:
                    if fresh is not None:
                        self._profiles, fresh, self.synced = fresh, None, True
                    continue
                _apply(self._profiles if fresh is None else fresh, entry)
        finally:
            await watcher.stop()  # type: ignore[no-untyped-call]


def _apply(profiles: dict[str, ProfileProjection], entry: KeyValue.Entry) -> None:
    if entry.operation in (KV_DEL, KV_PURGE):
        profiles.pop(entry.key, None)
        return
    try:
        profile = ProfileProjection.model_validate_json(entry.value or b"")
    except ValidationError:
        log.warning("profiles.unreadable", key=entry.key[:200])
        return
    profiles[entry.key] = profile
