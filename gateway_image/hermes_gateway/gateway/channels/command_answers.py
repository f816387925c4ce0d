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
from hermes_gateway.gateway.approvals.sentences import read_answer, sentence
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.channels.commands import Asked, CommandSpec, help_text
from hermes_gateway.gateway.channels.conversations import Beginning, Conversations
from hermes_gateway.gateway.channels.routing import owner_of, place_in_session
from hermes_gateway.gateway.people.pairing import Pairing
from hermes_service.rpc import StoreClient

_STORE_SECONDS = 1.0
_NOBODY = "We have not talked yet, so there is nothing to do."
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

    async def answer(self, asked: Asked, message: ChatMessage, route: Route, allowed: Sequence[CommandSpec]) -> str:
        """Carry out a command, which must be among the allowed ones, and return what to say."""
        if asked.spec.control is not None:
            return await self._control(asked.spec.control, asked.argument, message, route)
        match asked.spec.name:
            case "approve" | "deny" | "answer":
                return await self._decide(asked, message, route)
            case "pair":
                return await self.pairing.command(asked.argument, message)
            case "new":
                await self.conversations.begin(
                    route.sid, place_in_session(message), Beginning(update_id=message.update_id, order=float(message.order))
                )
                return "A new conversation begins here. The old one is kept."
            case "status":
                session = await self._session(route)
                return _NOBODY if session is None else show_status(session, time.time())
            case "usage":
                session = await self._session(route)
                return _NOBODY if session is None else show_usage(session)
            case "sessions":
                return await self._sessions(route)
            case "whoami":
                return f"You are `{owner_of(message)}`. The agent is `{route.profile}`, your session `{route.sid}`."
        return help_text(allowed)

    async def _decide(self, asked: Asked, message: ChatMessage, route: Route) -> str:
        said = read_answer(asked.spec.name, asked.argument)
        if isinstance(said, str):
            return said
        try:
            return sentence(said, await self.desk.take(said, route, by=owner_of(message), user=message.user))
        except HermesError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return _NOBODY
            raise

    async def _control(self, kind: CommandKind, argument: str, message: ChatMessage, route: Route) -> str:
        arguments: dict[str, str] = {}
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
                return _NOBODY
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
        return "\n".join([*lines, *more]) if lines else _NOBODY


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
