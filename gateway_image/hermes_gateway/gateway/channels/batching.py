"""Parts of one message that come in requests of their own: the first one waits for the others and takes them all.

No request is answered before what it brought is on disk, so that a part is never lost with a gateway that dies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hermes_contracts.errors import ErrorCode, HermesError

T = TypeVar("T")


@dataclass
class _Group(Generic[T]):
    source: Hashable
    parts: list[T]
    grown: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    taken: bool = False


class Batches(Generic[T]):
    """Messages that may not be whole yet."""

    def __init__(self, follows: Callable[[T, T], bool], goes_on: Callable[[T], bool], window_seconds: float) -> None:
        self._follows = follows
        self._goes_on = goes_on
        self._window_seconds = window_seconds
        self._open: list[_Group[T]] = []

    async def take(self, source: Hashable, part: T, act: Callable[[list[T]], Awaitable[None]]) -> None:
        """Have a part taken with those that belong to it; parts of different sources never do.

        Raises whatever `act` raises, and HermesError UNAVAILABLE when the request that waited for this part failed.
        """
        found = next((g for g in self._open if g.source == source and self._follows(g.parts[-1], part)), None)
        if found is not None:
            found.parts.append(part)
            found.grown.set()
            await found.done.wait()
            if not found.taken:
                raise HermesError(ErrorCode.UNAVAILABLE, "the rest of this message was not taken", retryable=True)
            return
        group = _Group(source, [part])
        self._open.append(group)
        try:
            await self._whole(group)
            self._open.remove(group)
            await act(group.parts)
            group.taken = True
        finally:
            if group in self._open:
                self._open.remove(group)
            group.done.set()

    async def _whole(self, group: _Group[T]) -> None:
        while self._goes_on(group.parts[-1]):
            group.grown.clear()
            try:
                async with asyncio.timeout(self._window_seconds):
                    await group.grown.wait()
            except TimeoutError:
                return
