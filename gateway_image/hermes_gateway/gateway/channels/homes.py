"""`/sethome` and `/home`: the chat where a person's scheduled runs find him."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.envelopes import Route, Target
from hermes_contracts.store_api import LIST_HOMES, SET_HOME, HomesRequest, SetHomeRequest
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_service.rpc import StoreClient

_SECONDS = 1.0
_NONE = "You have no home yet. Say `/sethome` in the chat that should be it: what I do by the clock is told there."


@dataclass(frozen=True)
class HomeCommands:
    """Handlers of both. Each raises HermesError UNAVAILABLE when the store is away; saying it again is safe."""

    store: StoreClient

    async def set(self, argument: str, message: ChatMessage, route: Route) -> str:
        """Make the chat or thread that the message was written in the home, or forget the one on this platform."""
        if argument.lower() not in ("", "off"):
            return "`/sethome` makes this chat your home, `/sethome off` forgets it. It takes nothing else."
        # Where it was written and not where it is answered: an answer begins a thread that nothing else belongs in.
        here = Target(channel=message.channel, account=message.account, chat=message.chat, thread=message.thread)
        request = SetHomeRequest(
            owner=route.owner,
            namespace=route.namespace,
            profile=route.profile,
            channel=message.channel,
            place=None if argument else here,
        )
        await self.store.call(SET_HOME, request, timeout_seconds=_SECONDS, patience_seconds=_SECONDS)
        if argument:
            return f"You have no home on {message.channel} any more."
        return "This is your home now: what I do by the clock for you, with delivery to `home`, is told here."

    async def show(self, message: ChatMessage, route: Route) -> str:
        """Say where the homes are, the one that counts first."""
        request = HomesRequest(owner=route.owner, namespace=route.namespace, profile=route.profile)
        found = (await self.store.call(LIST_HOMES, request, timeout_seconds=_SECONDS, patience_seconds=_SECONDS)).places
        if not found:
            return _NONE
        lines = [f"- {place.channel}: {_name(place, message)}" for place in found]
        return "\n".join(("Your homes, the one that counts unless a platform is named first:", "", *lines))


def _name(place: Target, message: ChatMessage) -> str:
    if (place.channel, place.account, place.chat) == (message.channel, message.account, message.chat):
        return "this chat" if place.thread == message.thread else "this chat, in another thread"
    return f"chat `{place.chat}`" + (f", thread `{place.thread}`" if place.thread else "")
