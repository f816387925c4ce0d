"""One signal that ends a turn early and cleanly, whatever it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from enum import StrEnum
from typing import Any, TypeVar

T = TypeVar("T")


class StopReason(StrEnum):
    """Who or what ends the turn."""

    USER = "stopped_by_user"
    TIME = "time_limit"


class Stopped(Exception):
    """The awaited work was cancelled because the turn was told to end."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class StopSignal:
    """Set at most once; work that races against it is cancelled at once."""

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self._running: set[asyncio.Future[Any]] = set()

    @property
    def is_set(self) -> bool:
        """Tell whether the turn was told to end."""
        return self.reason is not None

    def set(self, reason: StopReason) -> None:
        """End the turn; the first reason stays."""
        if self.reason is None:
            self.reason = reason
            for work in self._running:
                work.cancel()

    def check(self) -> None:
        """Raise Stopped if the turn was told to end."""
        if self.reason is not None:
            raise Stopped(self.reason)

    async def race(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns. Raises Stopped, with `work` cancelled and ended, when the signal comes first."""
        if self.reason is not None:
            work.close()
            raise Stopped(self.reason)
        task = asyncio.ensure_future(work)
        self._running.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if self.reason is not None and not (current and current.cancelling()):
                raise Stopped(self.reason) from None
            raise
        finally:
            self._running.discard(task)
