"""`asyncio.wait_for` as it is from Python 3.12 on, for Python 3.11, whose own one loses cancellations.

There a cancellation that comes in the same moment as the awaited result is dropped and the result returned (python/cpython
issue 86296): a loop around a call of the bus then goes on for ever, in a process that was told to end or that may not act
any more. The bus client awaits every answer through it. See docs/decisions/0013-wait-for.md.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def wait_for(awaitable: Awaitable[T], timeout: float | None) -> T:
    """Return what `awaitable` gives within so many seconds. Raises TimeoutError; a cancellation always leaves."""
    if timeout is None or timeout > 0:
        async with asyncio.timeout(timeout):
            return await awaitable
    future = asyncio.ensure_future(awaitable)
    if not future.done():
        future.cancel()
        await asyncio.wait({future})
    try:
        return future.result()
    except asyncio.CancelledError as error:
        raise TimeoutError from error


if sys.version_info < (3, 12):
    asyncio.wait_for = wait_for  # type: ignore[assignment]
