"""`hermes chat` and `hermes send`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes_cli.api.client import Api
from hermes_cli.api.sessions import find_session, list_sessions, make_session, pick_profile, post_message
from hermes_cli.api.shapes import SESSION_ID, Session
from hermes_cli.connection.opening import Connected, connected
from hermes_cli.errors import CliError, ExitCode, usage
from hermes_cli.options import Options
from hermes_cli.show.console import output, print_json, remarks, write_line
from hermes_cli.talk.batch import converse, lines_of
from hermes_cli.talk.conversation import ask
from hermes_cli.talk.pictures import read_picture
from hermes_cli.talk.progress import Action, Ended, Text
from hermes_cli.talk.screen import PlainScreen, RichScreen, Screen

_MAX_STDIN_CHARACTERS = 200_000


@dataclass(frozen=True)
class Which:
    """The session that a person asks for: a word that names one, the latest one, or a new one with a title."""

    word: str | None = None
    latest: bool = False
    title: str = ""


async def open_session(connection: Connected, which: Which) -> Session:
    """Return the session. A word that is no session's id is a client id: the session is made when it is not there."""
    api = connection.api
    if which.latest:
        async for session in list_sessions(api, profile=connection.profile, most=1):
            return session
        raise usage("there is no session yet to continue", "leave out --continue")
    if which.word is not None and SESSION_ID.match(which.word):
        return await find_session(api, which.word)
    profile = await pick_profile(api, connection.profile)
    return await make_session(api, profile, client_id=which.word, title=which.title)


async def chat(options: Options, which: Which, first: str | None) -> ExitCode:
    """Converse: at a keyboard with a prompt, else line by line from stdin."""
    async with connected(options) as connection:
        session = await open_session(connection, which)
        if sys.stdin.isatty() and sys.stdout.isatty():
            from hermes_cli.talk.terminal import Terminal, open_history

            held = await Terminal(open_history()).run(connection.api, session, first)
            remarks().print(f"[dim]Session {held.session.id}; go on with: hermes chat --session {held.session.id}[/]")
            return ExitCode.OK
        held = await converse(connection.api, session, _screen(), _lines(first))
        return ExitCode.FAILED if held.failed else ExitCode.OK


def _screen() -> Screen:
    console = output()
    return RichScreen(console) if console.is_terminal else PlainScreen(sys.stdout, remarks())


async def _lines(first: str | None) -> AsyncIterator[str]:
    if first:
        yield first
    async for line in lines_of(sys.stdin):
        yield line


@dataclass(frozen=True)
class Sending:
    """One message, and how its answer is wanted."""

    text: str
    pictures: Sequence[Path]
    wait: bool
    as_json: bool
    timeout_seconds: float


async def send(options: Options, which: Which, sending: Sending) -> ExitCode:
    """Send a message and print its answer. A turn that fails is exit code 1."""
    text = _text(sending.text)
    images = [read_picture(path) for path in sending.pictures]
    if not text.strip() and not images:
        raise usage("nothing to send", 'hermes send "text", or text on stdin')
    async with connected(options) as connection:
        session = await open_session(connection, which)
        if not sending.wait:
            return await _send_only(connection.api, session, text, images, sending.as_json)
        show = _nothing if sending.as_json else _Answer().show
        try:
            async with asyncio.timeout(sending.timeout_seconds):
                turn = await ask(connection.api, session, text, images, show, deltas=not sending.as_json)
        except TimeoutError:
            what = f"no answer within {sending.timeout_seconds:g} s; the turn goes on"
            raise CliError(what, f"read it later with hermes sessions transcript {session.id}") from None
        if sending.as_json:
            print_json(turn)
        return ExitCode.OK if turn.answered else ExitCode.FAILED


def _text(given: str) -> str:
    if given and given != "-":
        return given
    if sys.stdin.isatty():
        return ""
    text = sys.stdin.read(_MAX_STDIN_CHARACTERS + 1)
    if len(text) > _MAX_STDIN_CHARACTERS:
        raise usage(f"the text is longer than {_MAX_STDIN_CHARACTERS:,} characters", "send less of it")
    return text


async def _send_only(api: Api, session: Session, text: str, images: Sequence[str], as_json: bool) -> ExitCode:
    import secrets

    message_id = await post_message(api, session.id, text, images, secrets.token_hex(16), patience_seconds=30)
    if as_json:
        print_json({"session": session.id, "message_id": message_id, "state": "waiting"})
    else:
        write_line(f"{session.id}\t{message_id}")
    return ExitCode.OK


class _Answer:
    """The last answer alone goes to stdout: what was said between tools is a remark."""

    def __init__(self) -> None:
        self._screen = _screen()

    def show(self, action: Action) -> None:
        """Print the stored answer when it is there, and what happens until then as remarks."""
        if isinstance(action, Ended) and action.turn.reply:
            self._screen.show(Text(action.turn.reply))
        if not isinstance(action, Text):
            self._screen.show(action)


def _nothing(_: Action) -> None:
    """Show nothing while the turn runs."""
