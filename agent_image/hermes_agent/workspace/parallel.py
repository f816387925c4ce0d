"""Several things at once, not all of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_ONCE = 12


async def each(items: Sequence[Item], work: Callable[[Item], Awaitable[Result]]) -> list[Result]:
    """Return what `work` makes of each item, in order. The first error ends all and is raised as it is."""
    left = iter(enumerate(items))
    results: dict[int, Result] = {}

    async def worker() -> None:
        for number, item in left:
            results[number] = await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(items))):
                group.create_task(worker())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [results[number] for number in range(len(items))]
