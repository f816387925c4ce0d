"""What each command does, and what the person reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from hermes_contracts.envelopes import Route
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    GET_SESSION,
    LIST_SESSIONS,
    PUT_COMMAND,
    CommandKind,
    ListSessionsRequest,
    OwnedSession,
    OwnedSessionRequest,
    PutCommandRequest,
)  # fmt: skip
from hermes_gateway.gateway.approvals.desk import AnswerDesk
from hermes_gateway.gateway.approvals.sentences import asking, read_answer, sentence
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.channels.commands import Asked, CommandSpec, help_text
from hermes_gateway.gateway.channels.conversation_commands import NOBODY, ConversationCommands
from hermes_gateway.gateway.channels.conversations import Conversations
from hermes_gateway.gateway.channels.homes import HomeCommands
from hermes_gateway.gateway.channels.routing import owner_of, place_in_session
from hermes_gateway.gateway.jobs.chat import CronCommands
from hermes_gateway.gateway.people.choosing import ProfileChoices
from hermes_gateway.gateway.people.command_rights import only_his_own
from hermes_gateway.gateway.people.linking import Linking
from hermes_gateway.gateway.people.pairing import Pairing
from hermes_service.rpc import StoreClient

_STORE_SECONDS = 1.0
_NOTED = {
    CommandKind.STOP: "Noted: I stop as soon as I can.",
    CommandKind.STEER: "Noted: I look at it with my next step.",
    CommandKind.COMPRESS: "Noted: I shorten this conversation as soon as I can.",
}
_FIRST_PAUSE_SECONDS = 0.1
_LISTED = 20


@dataclass(frozen=True)
class CommandAnswers:
    """Handlers of commands. Each raises HermesError UNAVAILABLE when what it needs is away; saying it again is safe."""

    store: StoreClient
    conversations: Conversations
    wait_seconds: float
    """How long a command that an agent carries out is waited for."""
    desk: AnswerDesk
    pairing: Pairing
    linking: Linking
    schedules: CronCommands
    talk: ConversationCommands
    choices: ProfileChoices

    async def answer(self, asked: Asked, message: ChatMessage, route: Route, allowed: Sequence[CommandSpec]) -> str:
        """Carry out a command, which must be among the allowed ones, and return what to say."""
        own_only = only_his_own(message, route, allowed)
        if asked.spec.control is not None:
            return await self._control(asked.spec.control, asked.argument, message, route, own_only=own_only)
        match asked.spec.name:
            case "approve" | "deny" | "answer":
                return await self._decide(asked, message, route)
            case "cron" | "sethome" | "home":
                return await self._by_the_clock(asked, message, route)
            case "pair" | "link" | "unlink":
                return await self._people(asked, message, route)
            case "new":
                return await self.talk.begin(asked.argument, message, route)
            case "title" | "undo" | "resume" | "model":
                return await self.talk.answer(asked.spec.name, asked.argument, message, route, own_only=own_only)
            case "status":
                session = await self._session(route)
                if session is None:
                    return NOBODY
                profile = self.desk.profiles.get(route.namespace, route.profile)
                return show_status(session, time.time()) + asking(profile.approvals if profile is not None else "")
            case "usage":
                session = await self._session(route)
                return NOBODY if session is None else show_usage(session)
            case "sessions":
                return await self._sessions(route)
            case "whoami":
                return f"{_who(message, route)} The agent is `{route.profile}`, your session `{route.sid}`."
        return help_text(allowed)

    async def _by_the_clock(self, asked: Asked, message: ChatMessage, route: Route) -> str:
        if asked.spec.name == "cron":
            return await self.schedules.answer(asked.argument, message, route)
        homes = HomeCommands(self.store)
        return await (
            homes.set(asked.argument, message, route) if asked.spec.name == "sethome" else homes.show(message, route)
        )

    async def _people(self, asked: Asked, message: ChatMessage, route: Route) -> str:
        if asked.spec.name == "pair":
            return await self.pairing.command(asked.argument, message, route)
        if asked.spec.name == "link":
            return await self.linking.link(asked.argument, message, route)
        return await self.linking.unlink(message, route)

    async def _decide(self, asked: Asked, message: ChatMessage, route: Route) -> str:
        said = read_answer(asked.spec.name, asked.argument)
        if isinstance(said, str):
            return said
        try:
            return sentence(said, await self.desk.take(said, route, by=_speaker(message, route), user=message.user))
        except HermesError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return NOBODY
            raise

    async def _control(self, kind: CommandKind, argument: str, message: ChatMessage, route: Route, *, own_only: bool) -> str:
        arguments: dict[str, str] = {}
        if kind is CommandKind.STOP and own_only:
            arguments = {"sender": message.user}
        if kind is CommandKind.STEER:
            arguments = {"text": argument}
        elif kind is CommandKind.COMPRESS:
            conversation = await self.conversations.current(route.sid, place_in_session(message))
            arguments = {"conversation": conversation, "focus": argument}
        request = PutCommandRequest(
            sid=route.sid,
            owner=route.owner,
            account=message.account,
            update_id=message.update_id,
            kind=kind,
            arguments=arguments,
        )
        deadline, pause = time.monotonic() + self.wait_seconds, _FIRST_PAUSE_SECONDS
        try:
            while True:
                reply = await self.store.call(
                    PUT_COMMAND, request, timeout_seconds=_STORE_SECONDS, patience_seconds=_STORE_SECONDS
                )
                if reply.result is not None:
                    return reply.result
                if time.monotonic() + pause > deadline:
                    return _NOTED.get(kind, "Noted.")
                await asyncio.sleep(pause)
                pause *= 1.5
        except HermesError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return NOBODY
            raise

    async def _session(self, route: Route) -> OwnedSession | None:
        request = OwnedSessionRequest(sid=route.sid, owner=route.owner)
        try:
            return await self.store.call(
                GET_SESSION, request, timeout_seconds=_STORE_SECONDS, patience_seconds=_STORE_SECONDS
            )
        except HermesError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return None
            raise

    async def _sessions(self, route: Route) -> str:
        request = ListSessionsRequest(owner=route.owner, namespace=route.namespace, profile=route.profile, limit=_LISTED)
        reply = await self.store.call(
            LIST_SESSIONS, request, timeout_seconds=_STORE_SECONDS, patience_seconds=_STORE_SECONDS
        )
        lines = [f"- {s.title or 'without a title'}: {s.turns} messages, `{s.sid}`" for s in reply.sessions]
        more = ["", "There are more; the API lists them all."] if reply.more else []
        return "\n".join([*lines, *more]) if lines else NOBODY


def _speaker(message: ChatMessage, route: Route) -> str:
    """Return who decides: a person's own session is his, also from a chat that is linked with it."""
    return route.owner if route.key.user else owner_of(message)


def _who(message: ChatMessage, route: Route) -> str:
    own = owner_of(message)
    linked = route.key.user and route.owner != own
    return f"You are `{route.owner}`, and linked with that as `{own}`." if linked else f"You are `{own}`."


def show_status(session: OwnedSession, now: float) -> str:
    """Describe what a session is doing."""
    doing = "I am working on a message." if session.running_turns else "I am not doing anything."
    minutes = max(0, int((now - session.last_activity) / 60))
    last = "less than a minute ago" if minutes < 1 else f"{minutes} minutes ago"
    return f"{doing} {session.turns} messages so far; the last activity was {last}."


def show_usage(session: OwnedSession) -> str:
    """Describe what a session has used."""
    usage = session.usage
    cost = f"${usage.cost_nano_usd / 1e9:.4f}" + (" or more" if usage.unpriced_calls else "")
    return (
        f"{usage.model_calls} model calls, {usage.input_tokens:,} tokens read "
        f"({usage.cached_input_tokens:,} from the cache), {usage.output_tokens:,} written, {cost}."
    )
