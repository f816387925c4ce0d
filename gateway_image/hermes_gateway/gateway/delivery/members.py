"""Which replicas are alive: each writes its name every few seconds into the bucket of leases, where entries expire."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.kv import KV_DEL, KV_PURGE, KeyValue

log = structlog.get_logger()

_PREFIX = "gateway."
_REOPEN_SECONDS = 60.0


@dataclass(frozen=True)
class Heartbeat:
    """Seconds between signs of life, and after the last one until a replica counts as gone; entries expire by then."""

    every_seconds: float = 3.0
    gone_seconds: float = 15.0
    look_seconds: float = 0.5


class Members:
    """Follows the signs of life. `changed` gets the number of replicas alive, this one included, whenever it looks."""

    def __init__(
        self, bus: Client, bucket: KeyValue, instance: str, changed: Callable[[int], None], pace: Heartbeat = Heartbeat()
    ) -> None:
        self._bus = bus
        self._bucket = bucket
        self._key = _PREFIX + instance.replace(".", "-")
        self._changed = changed
        self._pace = pace
        self._heard: dict[str, float] = {}
        self._listed = False

    async def run(self) -> None:
        """Run for ever; leaving takes this replica's name away, so that the others need not wait."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._beat())
                group.create_task(self._follow())
        finally:
            await self._say_goodbye()

    async def _beat(self) -> None:
        while True:
            try:
                await self._bucket.put(self._key, b"")
            except (NatsError, TimeoutError) as error:
                log.info("members.beat_lost", error=str(error)[:200] or type(error).__name__)
            await asyncio.sleep(self._pace.every_seconds)

    async def _say_goodbye(self) -> None:
        try:
            async with asyncio.timeout(1.0):
                await self._bucket.delete(self._key)
        except (NatsError, TimeoutError):
            pass  # it expires

    async def _follow(self) -> None:
        while True:
            try:
                await self._watch()
            except (NatsError, TimeoutError) as error:
                log.info("members.watch_broken", error=str(error)[:200] or type(error).__name__)
                await asyncio.sleep(self._pace.look_seconds)

    async def _watch(self) -> None:
        """Listen until a while has passed or the connection was made anew: the server may have forgotten the watcher."""
        reconnects, opened = self._bus.stats["reconnects"], time.monotonic()
        self._listed = False
        watcher = await self._bucket.watch(f"{_PREFIX}*")
        try:
            while time.monotonic() - opened < _REOPEN_SECONDS and self._bus.stats["reconnects"] == reconnects:
                try:
                    entry = await watcher.updates(timeout=self._pace.look_seconds)  # type: ignore[no-untyped-call]
                except TimeoutError:
                    self._tell()
                    continue
                if entry is not None:
                    self._hear(entry)
                    continue
                # All that was there has been read.
                self._listed = True
                self._tell()
        finally:
            await watcher.stop()  # type: ignore[no-untyped-call]

    def _hear(self, entry: KeyValue.Entry) -> None:
        if entry.operation in (KV_DEL, KV_PURGE):
            self._heard.pop(entry.key, None)
            self._tell()
            return
        new = entry.key not in self._heard
        self._heard[entry.key] = time.monotonic()
        if new:
            self._tell()

    def _tell(self) -> None:
        """Say how many there are, unless nobody can be heard now: that says nothing about them."""
        if not self._listed or not self._bus.is_connected:
            return
        oldest = time.monotonic() - self._pace.gone_seconds
        self._heard = {key: heard for key, heard in self._heard.items() if heard >= oldest}
        self._changed(len(self._heard.keys() | {self._key}))
