"""`/title`, `/undo`, `/retry`, `/resume` and `/model` of chats: about the conversation of the place where they are said."""

from __future__ import annotations

import time
from dataclasses import dataclass

from hermes_contracts import names
from hermes_contracts.envelopes import Inbound, Route
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import MAX_UNDONE
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.channels.conversations import Beginning, Conversations
from hermes_gateway.gateway.channels.routing import place_in_session
from hermes_gateway.gateway.conversations import sentences
from hermes_gateway.gateway.conversations.desk import ConversationDesk, Saying, offered_model, said_again
from hermes_gateway.gateway.profiles import ProfileCache

NOBODY = "We have not talked yet, so there is nothing to do."
_MAX_TITLE = 200


@dataclass(frozen=True)
class ConversationCommands:
    """Handlers. Each raises HermesError UNAVAILABLE when what it needs is away; saying it again is safe."""

    desk: ConversationDesk
    conversations: Conversations
    profiles: ProfileCache

    async def answer(self, name: str, argument: str, message: ChatMessage, route: Route, *, own_only: bool) -> str:
        """Carry out any of them but `/retry`. `own_only`: he takes back only what he wrote himself."""
        try:
            match name:
                case "title":
                    return await self._title(argument, message, route)
                case "undo":
                    return await self._undo(argument, message, route, own_only=own_only)
                case "model":
                    return await self._model(argument, message, route)
        except HermesError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return NOBODY
            raise
        return await self._resume(argument, message, route)

    async def begin(self, title: str, message: ChatMessage, route: Route) -> str:
        """Carry out `/new`."""
        place = place_in_session(message)
        await self.conversations.begin(route.sid, place, _beginning(message))
        if title:
            # Not the present one: the same message may come again after the next `/new`.
            begun = names.conversation_id(route.sid, place, message.update_id)
            await self.desk.name(route, begun, title[:_MAX_TITLE])
        return "A new conversation begins here. The old one is kept."

    async def retry(self, message: ChatMessage, route: Route, *, own_only: bool) -> Inbound | str:
        """Take the last exchange back; returns its message as a new one, or why there is none."""
        saying = await self._saying(message, route, own_only=own_only)
        try:
            reply = await self.desk.undo(saying, again=True)
        except HermesError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return NOBODY
            raise
        return sentences.undone(reply) if reply.last is None else said_again(reply.last, saying, message.place)

    async def _title(self, argument: str, message: ChatMessage, route: Route) -> str:
        conversation = await self.conversations.current(route.sid, place_in_session(message))
        if not argument:
            return sentences.show_title((await self.desk.settings(route, conversation)).title)
        title = " ".join(argument.split())
        if len(title) > _MAX_TITLE:
            return f"A title has at most {_MAX_TITLE} characters; this one has {len(title)}."
        return sentences.show_title((await self.desk.name(route, conversation, title)).title)

    async def _undo(self, argument: str, message: ChatMessage, route: Route, *, own_only: bool) -> str:
        if argument and not (argument.isascii() and argument.isdigit() and 1 <= int(argument[:9]) <= MAX_UNDONE):
            return f"`/undo` takes back one exchange, `/undo 3` the last three; {MAX_UNDONE} is the most at once."
        saying = await self._saying(message, route, own_only=own_only)
        return sentences.undone(await self.desk.undo(saying, int(argument or 1)))

    async def _model(self, argument: str, message: ChatMessage, route: Route) -> str:
        profile = self.profiles.get(route.namespace, route.profile)
        if profile is None:
            return f"The Profile `{route.profile}` is not known. Try again in a moment."
        conversation = await self.conversations.current(route.sid, place_in_session(message))
        if not argument:
            try:
                chosen = (await self.desk.settings(route, conversation)).model
            except HermesError as error:
                if error.code is not ErrorCode.NOT_FOUND:
                    raise
                chosen = ""
            return sentences.show_models(profile, chosen)
        model = offered_model(profile, argument)
        if model is None:
            return sentences.no_such_model(profile, argument)
        return sentences.chose_model(profile, (await self.desk.choose(route, conversation, model)).model)

    async def _resume(self, argument: str, message: ChatMessage, route: Route) -> str:
        place = place_in_session(message)
        known = await self.conversations.known(route.sid, place)
        listed = await self.desk.listed(route, known)
        if not listed:
            return NOBODY
        if not argument:
            return sentences.list_conversations(listed, known[-1], time.time())
        number = int(argument[:9]) if argument.isascii() and argument.isdigit() else 0
        if not 1 <= number <= len(listed):
            return f"There is no conversation {argument[:20]!r} here. `/resume` lists them with their numbers."
        one = listed[number - 1]
        chosen = _beginning(message).model_copy(update={"conversation": one.conversation})
        await self.conversations.begin(route.sid, place, chosen)
        return sentences.resumed(one)

    async def _saying(self, message: ChatMessage, route: Route, *, own_only: bool) -> Saying:
        conversation = await self.conversations.current(route.sid, place_in_session(message))
        sender = "" if route.key.user else message.user
        return Saying(route, conversation, message.account, message.update_id, sender, own_only)


def _beginning(message: ChatMessage) -> Beginning:
    return Beginning(update_id=message.update_id, order=float(message.order))
