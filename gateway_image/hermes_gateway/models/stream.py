"""From events to lines: each event leaves at once, silence is filled with heartbeats, the last event ends the body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from hermes_contracts.model_api import Finish, Heartbeat, ModelError, ModelEvent

_QUEUE = 256


class Write(Protocol):
    """Sends bytes; `last` ends the body. Waits for a slow reader."""

    async def __call__(self, data: bytes, *, last: bool) -> None:
        """Send."""
        ...


def to_line(event: ModelEvent) -> bytes:
    """Return an event as it is sent."""
    return event.model_dump_json(exclude_defaults=False).encode() + b"\n"


_HEARTBEAT = to_line(Heartbeat())


async def relay(events: AsyncGenerator[ModelEvent, None], write: Write, *, heartbeat_seconds: float) -> None:
    """Write events until the last one. Events that are there together leave together. Cancelling closes `events`."""
    queue: asyncio.Queue[ModelEvent] = asyncio.Queue(_QUEUE)

    async def read() -> None:
        async with aclosing(events):
            async for event in events:
                await queue.put(event)

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        last = False
        while not last:
            try:
                async with asyncio.timeout(heartbeat_seconds):
                    batch = [await queue.get()]
            except TimeoutError:
                await write(_HEARTBEAT, last=False)
                continue
            while not queue.empty():
                batch.append(queue.get_nowait())
            last = isinstance(batch[-1], (Finish, ModelError))
            await write(b"".join(map(to_line, batch)), last=last)
