"""The commands of a conversation that are about sessions: which one it is, how it is called, which model answers in it."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field

from hermes_cli.api.client import Api
from hermes_cli.api.sessions import (
    change_settings,
    find_session,
    get_session,
    get_settings,
    list_profiles,
    list_sessions,
    make_session,
    undo,
)
from hermes_cli.api.shapes import Session, Settings
from hermes_cli.errors import usage
from hermes_cli.show.text import ago, dollars, one_line
from hermes_cli.talk.screen import Screen

_SHOWN_SESSIONS = 15
MOST_UNDONE = 20


@dataclass
class SessionCommands:
    """Each returns the session that the conversation goes on in. Raises CliError."""

    api: Api
    screen: Screen
    listed: list[Session] = field(default_factory=list)
    """As they were shown last: what a number means."""

    async def do(self, name: str, argument: str, session: Session) -> Session:
        """Carry a command out."""
        match name:
            case "new":
                return await self._new(session.profile, argument)
            case "resume":
                return await self._resume(argument, session)
            case "profile":
                return await self._profile(argument, session)
            case "sessions":
                await self._list(session)
            case "title":
                self.screen.say(_title(await self._set(session, title=argument)))
            case "model":
                self.screen.say(_model(await self._set(session, model=argument)))
            case "undo":
                await self._undo(argument, session)
            case "status":
                session = await get_session(self.api, session.id)
                self.screen.say(_status(session))
            case "usage":
                session = await get_session(self.api, session.id)
                self.screen.say(_usage(session))
        return session

    async def _new(self, profile: str, title: str) -> Session:
        session = await make_session(self.api, profile, title=title)
        self.screen.say(f"New session {session.id}.")
        return session

    async def _resume(self, argument: str, session: Session) -> Session:
        if not argument:
            await self._list(session)
            self.screen.say("  /resume with a number or an id goes on with one.")
            return session
        if argument.isascii() and argument.isdigit() and len(argument) < 3:
            if not 1 <= int(argument) <= len(self.listed):
                raise usage(f"no session with the number {argument} was shown", "/resume shows them with their numbers")
            session = await get_session(self.api, self.listed[int(argument) - 1].id)
        else:
            session = await find_session(self.api, argument)
        self.screen.say(f"Session {describe(session)}.")
        return session

    async def _list(self, session: Session) -> None:
        self.listed = [one async for one in list_sessions(self.api, most=_SHOWN_SESSIONS)]
        for number, one in enumerate(self.listed, 1):
            mark = "*" if one.id == session.id else " "
            self.screen.say(f"{mark}{number:>3}  {describe(one)}")

    async def _profile(self, argument: str, session: Session) -> Session:
        names = [one.id for one in await list_profiles(self.api)]
        if not argument:
            others = ", ".join(name for name in names if name != session.profile)
            more = f"/profile with a name begins a session with another: {others}." if others else "There is no other."
            self.screen.say(f"You talk to {session.profile}. {more}")
            return session
        if argument not in names:
            raise usage(f"no Profile {argument!r} that this key may use", f"there is {', '.join(names) or 'none'}")
        return await self._new(argument, "")

    async def _set(self, session: Session, **changes: str) -> Settings:
        """Set what is not empty, and return all that is set."""
        wanted = {name: value for name, value in changes.items() if value}
        return await (change_settings(self.api, session.id, **wanted) if wanted else get_settings(self.api, session.id))

    async def _undo(self, argument: str, session: Session) -> None:
        if argument and not (argument.isascii() and argument.isdigit() and 1 <= int(argument[:9]) <= MOST_UNDONE):
            raise usage("/undo [HOW MANY]", f"a number from 1 to {MOST_UNDONE}; 1 without it")
        self.screen.say(await undo(self.api, session.id, int(argument or 1), secrets.token_hex(16)))


def describe(session: Session) -> str:
    """Return a session in one line."""
    quiet = ago(time.time() - session.last_activity) if session.last_activity else "?"
    title = one_line(session.title or session.client_id or "(no title yet)")
    return f"{session.id}  {title}  {session.turns} turns, {quiet} ago"


def _status(session: Session) -> str:
    doing = "a turn runs" if session.running_turns else "nothing runs"
    return f"{describe(session)}; Profile {session.namespace}/{session.profile}; {doing}"


def _usage(session: Session) -> str:
    used = session.usage
    cost = dollars(used.cost_usd, used.unpriced_calls)
    tokens = f"{used.input_tokens:,} tokens in ({used.cached_input_tokens:,} cached), {used.output_tokens:,} out"
    return f"{tokens}, {used.model_calls} model calls, {cost}{f' ({used.cost_note})' if used.cost_note else ''}"


def _title(settings: Settings) -> str:
    return settings.title or "(no title yet; the agent finds one after the first exchange, /title TEXT gives one)"


def _model(settings: Settings) -> str:
    others = ", ".join(name for name in settings.models if name != settings.model)
    more = f"/model with a name chooses another, from the next message on: {others}." if others else "There is no other."
    return f"{settings.model} answers here. {more}"
