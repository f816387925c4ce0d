"""The conversation at a keyboard: a prompt that stays while answers come in above it."""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console

from hermes_cli.api.client import Api
from hermes_cli.api.shapes import Session
from hermes_cli.show.text import one_line
from hermes_cli.talk.chat import Chat
from hermes_cli.talk.screen import RichScreen
from hermes_cli.talk.slash import SLASHES

HISTORY_FILE = Path("~/.local/state/hermes/history")
_TAIL_LINES = 8
_REFRESH_SECONDS = 0.5


class SlashCompleter(Completer):
    """Completes the names of commands at the beginning of a line."""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        """Yield the commands that begin like this."""
        text = document.text_before_cursor
        if text.startswith("/") and " " not in text:
            for slash in SLASHES:
                if slash.name.startswith(text[1:]):
                    yield Completion(f"/{slash.name}", -len(text), display_meta=slash.help)


def open_history(path: Path = HISTORY_FILE) -> History:
    """Return what was said before, kept in a file that only its person reads; in memory where that cannot be."""
    file = path.expanduser()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
        return FileHistory(file) if os.access(file, os.R_OK | os.W_OK) else InMemoryHistory()
    except OSError:
        return InMemoryHistory()


@contextmanager
def control_d_is_a_key(terminal: int) -> Iterator[None]:
    """Have a terminal hand Ctrl-D on like any other key, and set it back at the end.

    While something is written above the prompt the terminal reads lines by itself, and would take Ctrl-D for the end of one:
    who presses it while an answer streams would not get away.
    """
    if not os.isatty(terminal):
        yield
        return
    before = termios.tcgetattr(terminal)
    changed = termios.tcgetattr(terminal)
    changed[6][termios.VEOF] = bytes([os.fpathconf(terminal, "PC_VDISABLE") & 0xFF])
    termios.tcsetattr(terminal, termios.TCSANOW, changed)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)


class Terminal:
    """Reads lines and keys; everything they mean is the chat's."""

    def __init__(
        self, history: History, *, console: Console | None = None, stdin: Input | None = None, stdout: Output | None = None
    ) -> None:
        self._screen = RichScreen(console or Console(force_terminal=True, highlight=False), self._changed)
        self._chat: Chat | None = None
        self._leave = False
        self._prompt: PromptSession[str] = PromptSession(
            message=self._message,
            multiline=True,
            history=history,
            completer=SlashCompleter(),
            complete_while_typing=True,
            key_bindings=self._keys(),
            bottom_toolbar=self._toolbar,
            prompt_continuation="  ",
            erase_when_done=True,
            refresh_interval=_REFRESH_SECONDS,
            input=stdin,
            output=stdout,
        )

    async def run(self, api: Api, session: Session, first: str | None) -> Chat:
        """Converse until the person leaves; a turn that runs goes on."""
        with control_d_is_a_key(self._prompt.app.input.fileno()), patch_stdout(raw=True):
            async with asyncio.TaskGroup() as tasks:
                self._chat = chat = Chat(api, session, self._screen, tasks)
                await self._converse(chat, first)
                await chat.leave()
        return chat

    async def _converse(self, chat: Chat, first: str | None) -> None:
        line = first or ""
        while True:
            if line.strip():
                self._leave = False
                self._screen.asked(line)
                if not await chat.take(line):
                    return
            try:
                line = await self._prompt.prompt_async()
            except EOFError:
                return

    def _changed(self) -> None:
        self._prompt.app.invalidate()

    def _message(self) -> StyleAndTextTuples:
        width = max(20, self._prompt.app.output.get_size().columns - 1)
        tail = [line[:width] for line in self._screen.unfinished.split("\n")][-_TAIL_LINES:]
        shown = "\n".join(tail)
        return [("", f"{shown}\n" if shown.strip() else ""), ("bold ansicyan", "› ")]

    def _toolbar(self) -> StyleAndTextTuples:
        chat = self._chat
        if chat is None:
            return []
        state = f"{self._screen.doing or 'waiting for the agent'} (Ctrl-C stops)" if chat.busy else "/help"
        title = one_line(chat.session.title or chat.session.id, 40)
        return [("", f" {chat.session.profile} · {title} · {state}")]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            self._interrupted(event)

        return keys

    def _interrupted(self, event: KeyPressEvent) -> None:
        """Clear what is being written; else stop the turn; else leave, at the second time in a row."""
        if event.current_buffer.text:
            event.current_buffer.reset()
            return
        chat = self._chat
        if chat is not None and chat.interrupt():
            self._leave = True
        elif self._leave or chat is None:
            event.app.exit(exception=EOFError())
        else:
            self._leave = True
            self._screen.say("Ctrl-C again, or Ctrl-D, leaves.")
