"""A conversation as it goes: which session, what runs, and what each command does. Knows no keyboard."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from hermes_cli.api.client import Api
from hermes_cli.api.sessions import tell
from hermes_cli.api.shapes import Session, Turn
from hermes_cli.errors import CliError
from hermes_cli.talk.conversation import answer, ask, ask_again
from hermes_cli.talk.pictures import read_picture
from hermes_cli.talk.screen import Screen
from hermes_cli.talk.session_commands import SessionCommands
from hermes_cli.talk.slash import Slash, help_lines, message_of, parse_line

_COMMAND_SECONDS = 5.0
_COMPRESS_SECONDS = 300.0
_PARTING_SECONDS = 1.0


class Chat:
    """Takes lines and shows what comes of them. Messages run in a task group, so that commands reach them meanwhile."""

    def __init__(self, api: Api, session: Session, screen: Screen, tasks: asyncio.TaskGroup) -> None:
        self._api = api
        self.session = session
        self._screen = screen
        self._tasks = tasks
        self._about = SessionCommands(api, screen)
        self._running: set[asyncio.Task[None]] = set()
        self._commands: set[asyncio.Task[None]] = set()
        self._stopping = False
        self.last: Turn | None = None
        self.failed = False
        """Whether a message had no answer, or its turn failed."""

    @property
    def busy(self) -> bool:
        """Whether a message waits for its answer."""
        return bool(self._running)

    async def take(self, line: str) -> bool:
        """Do what a line says; returns whether the conversation goes on."""
        if not line.strip():
            return True
        try:
            found = parse_line(line.strip())
            if found is None:
                self._send(message_of(line), ())
                return True
            return await self._command(*found)
        except CliError as error:
            self._screen.problem(str(error))
            self.failed = True
            return True

    def interrupt(self) -> bool:
        """Ctrl-C: stops the running turn; returns False when there is nothing to stop, or it was told to already."""
        if not self.busy or self._stopping:
            return False
        self._stopping = True
        self._screen.say("Stopping the turn. Ctrl-C again leaves; the turn then ends without us.")
        self._tell("stop", None, "The agent has been told to stop.", _COMMAND_SECONDS)
        return True

    async def leave(self) -> None:
        """End what is shown here. The turns go on without us; a command that was just given gets a moment to arrive."""
        if self._commands:
            await asyncio.wait(self._commands, timeout=_PARTING_SECONDS)
        for task in (*self._running, *self._commands):
            task.cancel()

    async def idle(self) -> None:
        """Wait until every message has its answer."""
        while self._running:
            await asyncio.wait(self._running)

    def _send(self, text: str, images: Sequence[str]) -> None:
        self._run(ask(self._api, self.session, text, images, self._screen.show))

    def _run(self, turn: Coroutine[Any, Any, Turn]) -> None:
        task = self._tasks.create_task(self._watch(turn))
        self._running.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._stopping = self._stopping and self.busy

    def _tell(self, command: str, body: dict[str, str] | None, otherwise: str, wait_seconds: float) -> None:
        task = self._tasks.create_task(self._told(command, body, otherwise, wait_seconds))
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)

    async def _watch(self, turn: Coroutine[Any, Any, Turn]) -> None:
        try:
            self.last = await turn
            self.failed = self.failed or not self.last.answered
        except CliError as error:
            self.failed = True
            self._screen.problem(str(error))

    async def _command(self, slash: Slash, argument: str) -> bool:
        match slash.name:
            case "quit":
                return False
            case "help":
                for name, text in help_lines():
                    self._screen.say(f"  {name:<18} {text}")
                self._screen.say("  While a turn runs, you may write on. Alt-Enter makes a new line.")
            case "stop":
                self._tell("stop", None, "The agent has been told to stop.", _COMMAND_SECONDS)
            case "steer" | "redirect":
                self._tell(slash.name, {"text": argument}, "Told; the agent has not taken it yet.", _COMMAND_SECONDS)
            case "compress":
                self._screen.say("Compressing the conversation ...")
                body = {"focus": argument} if argument else None
                self._tell("compress", body, "It takes longer, or the agent is asleep.", _COMPRESS_SECONDS)
            case "approve" | "deny" | "answer":
                self._run(answer(self._api, self.session, slash.name, argument, self._screen.show, self._screen.say))
            case "queue":
                self._send(argument, ())
            case "image":
                path, _, text = argument.partition(" ")
                self._send(text.strip(), (read_picture(Path(path)),))
            case "retry":
                self._run(ask_again(self._api, self.session, self._screen.show))
            case _:
                leaves = slash.name == "new" or (slash.name in ("resume", "profile") and argument)
                if leaves and self.busy:
                    self._screen.say("A turn still runs in the old session; its answer is shown here when it comes.")
                self.session = await self._about.do(slash.name, argument, self.session)
        return True

    async def _told(self, command: str, body: dict[str, str] | None, otherwise: str, wait_seconds: float) -> None:
        try:
            result = await tell(self._api, self.session.id, command, body, wait_seconds=wait_seconds)
            self._screen.say(result or otherwise)
        except CliError as error:
            self._screen.problem(str(error))
