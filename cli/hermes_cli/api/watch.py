"""Watches a session: events as they come, over as many connections as it takes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from hermes_cli.api.client import Api
from hermes_cli.api.sse import EventReader, ServerEvent
from hermes_cli.errors import CliError, ExitCode

_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 3.0
_OPENING_SECONDS = 30.0


class Watch:
    """Events of one session. A connection that breaks is opened again, from the last numbered event on."""

    def __init__(self, api: Api, sid: str, *, deltas: bool) -> None:
        self._api = api
        self._path = f"/api/sessions/{sid}/events"
        self._params = {"deltas": "true" if deltas else "false"}
        self._events: asyncio.Queue[ServerEvent] = asyncio.Queue(1000)
        self._reader = EventReader()
        self._first = asyncio.Event()
        self._problem: CliError | None = None
        self.connections = 0
        """How often it was opened."""

    async def next(self, timeout_seconds: float) -> ServerEvent | None:
        """Return the next event; None when none came in time. Raises CliError when it cannot go on."""
        if self._problem is not None:
            raise self._problem
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._events.get()
        except TimeoutError:
            return None

    async def opened(self) -> None:
        """Wait until the gateway listens for us. Raises CliError."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_OPENING_SECONDS):
                await self._first.wait()
        if self._problem is not None:
            raise self._problem

    async def run(self) -> None:
        """Read until cancelled, or until the gateway says no."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            before = self.connections
            try:
                await self._read_one()
            except CliError as error:
                if error.code is not ExitCode.UNREACHABLE or self.connections == 0:
                    self._problem = error
                    self._first.set()
                    return
            except (httpx.TransportError, ValueError):
                pass
            pause = _FIRST_PAUSE_SECONDS if self.connections > before else min(pause * 2, _LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(pause)

    async def _read_one(self) -> None:
        reader = self._reader = EventReader(self._reader.last_id)
        headers = {"Last-Event-ID": reader.last_id} if reader.last_id else {}
        async with self._api.stream(self._path, self._params, headers) as response:
            alive = False
            async for piece in response.aiter_bytes():
                if not alive:
                    # The first bytes say that the gateway listens, whenever the first event comes.
                    alive = True
                    self.connections += 1
                    self._first.set()
                for event in reader.feed(piece):
                    await self._events.put(event)


@asynccontextmanager
async def watching(api: Api, sid: str, *, deltas: bool) -> AsyncIterator[Watch]:
    """Watch while the context lasts; the gateway listens from its beginning on. Raises CliError."""
    watch = Watch(api, sid, deltas=deltas)
    task = asyncio.create_task(watch.run())
    try:
        await watch.opened()
        yield watch
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
