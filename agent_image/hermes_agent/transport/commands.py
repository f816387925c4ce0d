"""Control commands: the store keeps them, a hint says that there are some, this does them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from hermes_agent.loop.outcome import EndReason, Outcome
from hermes_agent.loop.ports import Store
from hermes_agent.stop import StopReason, StopSignal
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    FINISH_COMMAND,
    TAKE_COMMANDS,
    Command,
    CommandKind,
    Empty,
    FinishCommandRequest,
)

log = structlog.get_logger()

STOPPED = "Stopped the running turn."
NOTHING_RAN = "Nothing was running."
CLOCK_SKEW_SECONDS = 0.5
"""How far the clocks of gateway and store may be apart."""


@dataclass
class _Running:
    stop: StopSignal
    received_at: float


class Commands:
    """Stops the running turn when asked to, and says what became of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._some = asyncio.Event()
        self._running: _Running | None = None
        self._stopping: set[str] = set()

    def look(self) -> None:
        """There may be commands in the store."""
        self._some.set()

    def turn_begins(self, stop: StopSignal, received_at: float) -> None:
        """Let commands reach this turn, those included that are older than this process."""
        self._running = _Running(stop, received_at)
        self.look()

    async def turn_ended(self, outcome: Outcome | None) -> None:
        """Answer the commands that wanted this turn to end. None: it was given back, and so they stay open."""
        self._running = None
        waiting, self._stopping = self._stopping, set()
        if outcome is None:
            return
        text = STOPPED if outcome.reason is EndReason.STOPPED_BY_USER else NOTHING_RAN
        for command_id in sorted(waiting):
            await self._finish(command_id, text)

    async def pump(self) -> None:
        """Work until cancelled. Raises HermesError when the epoch is over."""
        while True:
            await self._some.wait()
            self._some.clear()
            try:
                taken = await self._store.call(TAKE_COMMANDS, Empty())
                for command in taken.commands:
                    await self._do(command)
            except HermesError as error:
                if error.code is ErrorCode.FENCED:
                    raise
                log.warning("commands.failed", code=error.code.value)

    async def _do(self, command: Command) -> None:
        if command.kind is not CommandKind.STOP:
            await self._finish(command.command_id, f"This agent does not know the command {command.kind}.")
            return
        if command.command_id in self._stopping:
            return
        running = self._running
        # A stop that is older than the message it would hit was meant for something before it.
        if running is None or command.created_at < running.received_at - CLOCK_SKEW_SECONDS:
            await self._finish(command.command_id, NOTHING_RAN)
            return
        self._stopping.add(command.command_id)
        running.stop.set(StopReason.USER)

    async def _finish(self, command_id: str, result: str) -> None:
        await self._store.call(FINISH_COMMAND, FinishCommandRequest(command_id=command_id, result=result))
