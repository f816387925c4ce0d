"""Ending tasks for certain."""

from __future__ import annotations

import asyncio
import math

_AGAIN_SECONDS = 0.2


async def cancel_until_done(task: asyncio.Task[None], *, seconds: float = math.inf) -> bool:
    """Cancel a task until it has ended; returns False when it has not after so many seconds.

    One cancellation may be swallowed on the way: asyncio.wait_for of Python 3.11 drops it when the awaited result comes at
    the same moment, and clients of services are full of such waits.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not task.done() and loop.time() < deadline:
        task.cancel()
        await asyncio.wait({task}, timeout=min(_AGAIN_SECONDS, seconds))
    return task.done()
