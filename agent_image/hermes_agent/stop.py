"""What reaches a running turn from outside: its end, a new goal, a word to take along; whatever it waits for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

T = TypeVar("T")


class StopReason(StrEnum):
    """Who or what interrupts the turn. REDIRECT alone does not end it."""

    USER = "stopped_by_user"
    TIME = "time_limit"
    STALLED = "stalled"
    REDIRECT = "redirected"


class Stopped(Exception):
    """The awaited work was cancelled because the turn was interrupted."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


@dataclass(frozen=True)
class Note:
    """Words of the person for a running turn; `command_id` names the command that brought them."""

    command_id: str
    text: str


class StopSignal:
    """One turn's ear. Work that races against it is cancelled at once when it is set."""

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.on_stored: Callable[[Note], None] = lambda _note: None
        """Called when a note has become part of the stored transcript."""
        self._running: set[asyncio.Future[Any]] = set()
        self._steers: deque[Note] = deque()
        self._redirects: deque[Note] = deque()

    @property
    def is_set(self) -> bool:
        """Tell whether the turn was interrupted."""
        return self.reason is not None

    @property
    def has_notes(self) -> bool:
        """Tell whether the person said something that the turn has not taken yet."""
        return bool(self._steers or self._redirects)

    def set(self, reason: StopReason) -> None:
        """End the turn; the first reason stays, but an end comes before a new goal."""
        if self.reason is None or (self.reason is StopReason.REDIRECT and reason is not StopReason.REDIRECT):
            self.reason = reason
            for work in self._running:
                work.cancel()

    def steer(self, note: Note) -> None:
        """Take words along; they reach the model after its next tool results."""
        self._steers.append(note)

    def redirect(self, note: Note) -> None:
        """Interrupt what is being done and give the turn a new goal."""
        self._redirects.append(note)
        self.set(StopReason.REDIRECT)

    def take_steers(self) -> list[Note]:
        """Take the words that wait."""
        taken = list(self._steers)
        self._steers.clear()
        return taken

    def take_redirect(self) -> Note | None:
        """Take the oldest new goal, unless the turn is to end; the signal is clear again after the last one."""
        if self.reason is not StopReason.REDIRECT:
            return None
        note = self._redirects.popleft()
        if not self._redirects:
            self.reason = None
        return note

    def grant_last_word(self) -> None:
        """Clear a time limit, so that the turn can say what became of it."""
        if self.reason is StopReason.TIME:
            self.reason = None

    def check(self) -> None:
        """Raise Stopped if the turn was interrupted."""
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
            if current and current.cancelling():
                raise
            if self.reason is not None:
                raise Stopped(self.reason) from None
            raise
        finally:
            self._running.discard(task)
