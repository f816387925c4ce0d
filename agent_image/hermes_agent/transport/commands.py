"""Control commands: the store keeps them, a hint says that there are some, this does them."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Protocol

import structlog

from hermes_agent.loop.outcome import EndReason, Outcome
from hermes_agent.loop.ports import Store
from hermes_agent.stop import Note, Stopped, StopReason, StopSignal
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
NOT_YOURS = "Somebody else asked for what is running. They may stop it, and so may an admin of this chat."
STEERED = "Passed on to the running turn."
REDIRECTED = "The running turn has the new goal."
NOT_PASSED_ON = "Nothing was running. Send it as a message."
TOO_LATE = "The turn had ended before this could be passed on. Send it as a message."
NO_TEXT = "There was nothing to pass on: the command had no text."
COMPRESSION_STOPPED = "Compressing was stopped; the conversation is as it was."
COMPRESSION_FAILED = "The conversation could not be compressed now. Please try again later."
CLOCK_SKEW_SECONDS = 0.5
"""How far the clocks of gateway and store may be apart."""
MAX_RESULT_CHARACTERS = 2_000


class ConversationCompactor(Protocol):
    """`loop.run.TurnRunner`."""

    async def compact(self, conversation: str, focus: str, command_id: str, stop: StopSignal) -> str:
        """Compact a conversation when no turn runs; return what became of it."""
        ...


@dataclass
class _Running:
    stop: StopSignal
    received_at: float
    sender: str


class Commands:
    """Does what people ask of the running turn, and says what became of it.

    A command is finished only after what it brought is in the store: whoever dies before finds it there again.
    """

    def __init__(self, store: Store, compactor: ConversationCompactor | None = None) -> None:
        self._store = store
        self._compactor = compactor
        self._some = asyncio.Event()
        self._running: _Running | None = None
        self._stopping: set[str] = set()
        self._notes: dict[str, str] = {}
        """Command to its answer, for words that the running turn holds and has not stored yet."""
        self._done: deque[tuple[str, str]] = deque()
        self._compressing: dict[str, StopSignal] = {}

    def look(self) -> None:
        """There may be commands in the store."""
        self._some.set()

    def turn_begins(self, stop: StopSignal, received_at: float, sender: str = "") -> None:
        """Let commands reach this turn, those included that are older than this process. `sender`: who wrote its message,
        where several people share the session."""
        stop.on_stored = self._stored
        self._running = _Running(stop, received_at, sender)
        self.look()

    async def turn_ended(self, outcome: Outcome | None) -> None:
        """Answer the commands that wanted something of this turn. None: it was given back, and so they stay open."""
        self._running = None
        stopping, self._stopping = self._stopping, set()
        notes, self._notes = self._notes, {}
        if outcome is None:
            return
        text = STOPPED if outcome.reason is EndReason.STOPPED_BY_USER else NOTHING_RAN
        self._done.extend((command_id, text) for command_id in sorted(stopping))
        self._done.extend((command_id, TOO_LATE) for command_id in notes)
        await self._finish_done()

    async def pump(self) -> None:
        """Work until cancelled. Raises HermesError when the epoch is over."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._some.wait()
                self._some.clear()
                try:
                    await self._finish_done()
                    taken = await self._store.call(TAKE_COMMANDS, Empty())
                    for command in taken.commands:
                        await self._do(command, group)
                except HermesError as error:
                    if error.code is ErrorCode.FENCED:
                        raise
                    log.warning("commands.failed", code=error.code.value)

    def _stored(self, note: Note) -> None:
        """The turn wrote a note down."""
        text = self._notes.pop(note.command_id, None)
        if text is not None:
            self._done.append((note.command_id, text))
            self.look()

    async def _finish_done(self) -> None:
        while self._done:
            await self._finish(*self._done[0])
            self._done.popleft()

    async def _do(self, command: Command, group: asyncio.TaskGroup) -> None:
        answered = any(command_id == command.command_id for command_id, _ in self._done)
        if answered or command.command_id in self._stopping or command.command_id in self._notes:
            return
        match command.kind:
            case CommandKind.STOP:
                await self._stop(command)
            case CommandKind.STEER | CommandKind.REDIRECT:
                await self._pass_on(command)
            case CommandKind.COMPRESS if self._compactor is not None:
                self._compress(command, self._compactor, group)
            case _:
                await self._finish(command.command_id, f"This agent does not know the command {command.kind}.")

    def _hit(self, command: Command) -> _Running | None:
        """Return the turn that a command is meant for: one that is older than its message was meant for something before."""
        running = self._running
        return running if running and command.created_at >= running.received_at - CLOCK_SKEW_SECONDS else None

    async def _stop(self, command: Command) -> None:
        running, only = self._hit(command), command.arguments.get("sender", "")
        if only and (running.sender != only if running else self._compressing):
            await self._finish(command.command_id, NOT_YOURS)
            return
        for signal in self._compressing.values():
            signal.set(StopReason.USER)
        if running is None:
            await self._finish(command.command_id, STOPPED if self._compressing else NOTHING_RAN)
            return
        self._stopping.add(command.command_id)
        running.stop.set(StopReason.USER)

    async def _pass_on(self, command: Command) -> None:
        text = command.arguments.get("text", "").strip()
        running = self._hit(command)
        if running is None or not text:
            await self._finish(command.command_id, NO_TEXT if not text else NOT_PASSED_ON)
            return
        note = Note(command.command_id, text)
        if command.kind is CommandKind.STEER:
            self._notes[command.command_id] = STEERED
            running.stop.steer(note)
        else:
            self._notes[command.command_id] = REDIRECTED
            running.stop.redirect(note)

    def _compress(self, command: Command, compactor: ConversationCompactor, group: asyncio.TaskGroup) -> None:
        if command.command_id not in self._compressing:
            signal = self._compressing[command.command_id] = StopSignal()
            group.create_task(self._compact(command, compactor, signal))

    async def _compact(self, command: Command, compactor: ConversationCompactor, signal: StopSignal) -> None:
        arguments = command.arguments
        try:
            result = await compactor.compact(
                arguments.get("conversation", ""), arguments.get("focus", ""), command.command_id, signal
            )
        except Stopped:
            result = COMPRESSION_STOPPED
        except HermesError as error:
            if error.code is ErrorCode.FENCED:
                raise
            log.warning("compression.failed", code=error.code.value)
            result = COMPRESSION_FAILED
        except Exception:  # the outermost frame of a command: a bug in it must not end the agent
            log.exception("compression.failed")
            result = COMPRESSION_FAILED
        finally:
            self._compressing.pop(command.command_id, None)
        self._done.append((command.command_id, result))
        self.look()

    async def _finish(self, command_id: str, result: str) -> None:
        request = FinishCommandRequest(command_id=command_id, result=result[:MAX_RESULT_CHARACTERS])
        await self._store.call(FINISH_COMMAND, request)
