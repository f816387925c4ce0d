"""Keeps the workspace of kind Archive: put back when the agent starts, saved while it works and before it sleeps.

Commands wait until the files are there; the agent's start does not. Once an agent has let commands run, what is in no
snapshot is lost with its pod, and the next agent says so.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import structlog

from hermes_agent.prompt.first_message import PLATFORM
from hermes_agent.sandbox import SandboxTimeout
from hermes_agent.workspace import notes
from hermes_agent.workspace.archive import Archive
from hermes_agent.workspace.pieces import DamagedPiece
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import WorkspaceState

log = structlog.get_logger()

Result = TypeVar("Result")

OPEN_SECONDS = 120.0
"""How long a command waits for the files; then the model is told that they are still on their way."""
NOTE_SECONDS = 5.0
"""How long a turn waits to learn whether something was lost."""
EVERY_SECONDS = 60.0
"""Snapshots are at least this far apart, but for the one before sleep."""
QUIET_SECONDS = 2.0
"""A snapshot waits for so long a pause between commands, but no longer than `EVERY_SECONDS`."""
LAST_SECONDS = 55.0
"""How long the snapshot before sleep may take."""
_PAUSES = (0.2, 1.0, 3.0, 10.0)
_STILL_COMING = "Not done: the files of this conversation are still being restored. Try again in a minute."
_DAMAGED = "What was kept of this conversation's files is damaged and cannot be read: the workspace is empty now."


class Keeper:
    """The workspace of one agent. `pump` restores and then saves; calls of tools go through `using`."""

    def __init__(
        self, archive: Archive, *, every_seconds: float = EVERY_SECONDS, quiet_seconds: float = QUIET_SECONDS
    ) -> None:
        self._archive = archive
        self._every_seconds = every_seconds
        self._quiet_seconds = quiet_seconds
        self._known = asyncio.Event()
        self._open = asyncio.Event()
        self._touched = asyncio.Event()
        self._active = 0
        self._touched_at = 0.0
        self._saved_at = float("-inf")
        self._notes: list[str] = []
        self._late = ""
        """What came out while a command waited, when the turn's note was written already."""
        self._telling = 0
        self._told_unsaved = ""

    async def arrived(self) -> str:
        """Wait for the files; return what is to be told of them that was not. Raises SandboxError when it takes too long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OPEN_SECONDS):
                await self._open.wait()
        if not self._open.is_set():
            raise SandboxTimeout(_STILL_COMING)
        late, self._late = self._late, ""
        return late

    @contextlib.asynccontextmanager
    async def using(self) -> AsyncIterator[None]:
        """Wait for the files, and note that they may change. Raises SandboxError in place of a call that cannot be made."""
        late = await self.arrived()
        if late:
            raise SandboxTimeout(f"Not done yet. {late} If this still makes sense, do it again.")
        self._active += 1
        self._touch()
        try:
            yield
        finally:
            self._active -= 1
            self._touch()

    async def known(self) -> None:
        """Return when it is known whether something was lost; a store that is away is not waited for long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NOTE_SECONDS):
                await self._known.wait()

    def note(self) -> str:
        """Return what the model has to be told; empty when there is nothing."""
        self._telling = len(self._notes)
        return f"{PLATFORM} {' '.join(self._notes)}" if self._notes else ""

    def told(self) -> None:
        """Forget what `note` returned: it is in the transcript."""
        del self._notes[: self._telling]

    def with_next_command(self) -> None:
        """Tell by the next command what no row of the turn could tell."""
        self._add_late(*self._notes)
        self._notes.clear()

    async def pump(self) -> None:
        """Restore, then save, until cancelled. Raises HermesError (FENCED) when the epoch is over."""
        await self._begin()
        while True:
            await self._touched.wait()
            await self._pause()
            self._touched.clear()
            await self._save(final=False)

    async def last(self) -> None:
        """Save before sleep, at most for LAST_SECONDS. Raises HermesError (FENCED) when the epoch is over."""
        if not self._open.is_set():
            return  # what is kept is all there is
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await self._save(final=True)
        except TimeoutError:
            log.error("workspace.not_saved", reason="it took too long", seconds=LAST_SECONDS)

    async def _begin(self) -> None:
        state = await _insist(self._archive.state)
        text = notes.at_start(state)
        if text:
            log.warning("workspace.lost", snapshot=state.number, final=state.is_final)
            self._notes.append(text)
        self._known.set()
        try:
            lost = await _insist(lambda: self._archive.bring_back(state))
            self._add_late(notes.not_restored(lost))
        except DamagedPiece as error:
            log.error("workspace.damaged", number=state.number, reason=str(error))
            self._add_late(_DAMAGED)
            await _insist(lambda: self._archive.bring_back(_nothing_after(state)))
        await _insist(self._archive.open)
        if state.is_open:
            self._touch()  # what ran before this process began again may be in no snapshot
        self._open.set()

    async def _save(self, *, final: bool) -> None:
        untouched = not self._touched_at
        self._saved_at = asyncio.get_running_loop().time()
        try:
            await self._archive.save(final=final, untouched=untouched)
        except HermesError as error:
            if error.code is ErrorCode.FENCED:
                raise
            log.error("workspace.not_saved", code=error.code.value, reason=error.message[:300], final=final)
            if not error.retryable and error.message != self._told_unsaved:
                self._told_unsaved = error.message
                self._notes.append(notes.not_saved(error.message, self._archive.kept.taken_at))

    async def _pause(self) -> None:
        """Wait for a moment in which nothing runs, and until the last snapshot is long enough ago."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + self._every_seconds
        while True:
            quiet = latest if self._active else min(latest, self._touched_at + self._quiet_seconds)
            left = max(quiet, self._saved_at + self._every_seconds) - loop.time()
            if left <= 0:
                return
            await asyncio.sleep(min(left, self._quiet_seconds))

    def _add_late(self, *texts: str) -> None:
        self._late = " ".join(part for part in (self._late, *texts) if part)

    def _touch(self) -> None:
        self._touched_at = asyncio.get_running_loop().time()
        self._touched.set()


def _nothing_after(state: WorkspaceState) -> WorkspaceState:
    """Return the state of an empty workspace whose next snapshot follows the damaged one."""
    return state.model_copy(update={"parts": ()})


async def _insist(call: Callable[[], Awaitable[Result]]) -> Result:
    """Repeat a call until it is answered. Raises HermesError (FENCED), and what is no HermesError."""
    tries = 0
    while True:
        try:
            return await call()
        except HermesError as error:
            if error.code is ErrorCode.FENCED:
                raise
            log.warning("workspace.waiting", code=error.code.value, reason=error.message[:300])
        await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
        tries += 1
