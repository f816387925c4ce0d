"""Sends what goes to a person's home, wherever that is at this moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hermes_contracts.envelopes import Outbound
from hermes_contracts.errors import HermesError
from hermes_contracts.store_api import FIND_HOME, HomeRequest
from hermes_gateway.gateway.delivery.backoff import Verdict
from hermes_gateway.gateway.delivery.deliver import Attempt, Send
from hermes_service.rpc import StoreClient


@dataclass(frozen=True)
class HomeSender:
    """The target's account is the person, its chat a platform or nothing, which means the home that was set last."""

    store: StoreClient
    chats: Mapping[str, Send]

    async def send(self, outbound: Outbound, attempt: Attempt) -> Verdict:
        """Make one attempt. Never raises for what the platform does."""
        request = HomeRequest.model_construct(sid=outbound.sid, owner=outbound.account, channel=outbound.chat)
        try:
            found = (await self.store.call(FIND_HOME, request)).places
        except HermesError as error:
            if error.retryable:
                return Verdict("retry", "the store does not say where the home is")
            return Verdict("failed", f"the home of {outbound.account[:64]!r} cannot be looked up: {error.message[:200]}")
        if not found:
            where = f" on {outbound.chat}" if outbound.chat else ""
            return Verdict(
                "failed", f"{outbound.account[:64]} has set no home{where}: say /sethome in the chat that should get this"
            )
        place = found[0]
        send = self.chats.get(place.channel)
        if send is None:
            return Verdict("failed", f"this gateway has no channel {place.channel[:32]!r}")
        there = {"channel": place.channel, "account": place.account, "chat": place.chat, "thread": place.thread}
        return await send(outbound.model_copy(update=there), attempt)
