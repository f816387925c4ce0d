"""Sends a part of an answer to a chat, exactly once wherever the chat can be asked what it has."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nats.errors import Error as NatsError

from hermes_contracts.envelopes import Outbound, Target
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.gateway.channels.base import FileToSend
from hermes_gateway.gateway.delivery.backoff import Verdict
from hermes_gateway.gateway.delivery.chats import Chat
from hermes_gateway.gateway.delivery.deliver import Attempt
from hermes_gateway.gateway.delivery.previews import Previews
from hermes_gateway.gateway.files import read_file
from hermes_service.rpc import StoreClient

_LONGEST_WAIT_SECONDS = 5.0
_RECORDS_AWAY = Verdict("retry", "the message bus does not say whether the answer was being shown already")


@dataclass(frozen=True)
class ChatSender:
    """One channel's answers. The first part of an answer takes the place of its preview."""

    chat: Chat
    previews: Previews
    store: StoreClient

    async def send(self, outbound: Outbound, attempt: Attempt) -> Verdict:
        """Make one attempt. Never raises for what the platform does."""
        account = self.chat.channel.account(outbound.account)
        if account is None:
            return Verdict("failed", f"the account {outbound.account[:64]} is not configured any more")
        if outbound.namespace and account.namespace != outbound.namespace:
            return Verdict("failed", f"the account {account.name} is not bound to this session's namespace")
        place = Target(channel=outbound.channel, account=outbound.account, chat=outbound.chat, thread=outbound.thread)
        if (left := self.chat.pace.seconds_left(place)) > _LONGEST_WAIT_SECONDS:
            return Verdict("retry", "the platform asked to wait", retry_after_seconds=left)
        await self.chat.pace.wait(place)
        write = self._write if outbound.file is None else self._write_file
        verdict = await write(outbound, attempt, place)
        if verdict.outcome == "retry" and verdict.retry_after_seconds:
            self.chat.pace.penalise(place, verdict.retry_after_seconds)
        return verdict

    async def _write(self, outbound: Outbound, attempt: Attempt, place: Target) -> Verdict:
        text = self.chat.channel.render(outbound.text)
        shown = None
        if outbound.part == 1 and outbound.target == 0:
            await self.previews.end(outbound)
            try:
                shown = await self.previews.message_of(outbound)
            except (NatsError, TimeoutError):
                return _RECORDS_AWAY
        if shown == "?" or attempt.number > 1 or attempt.uncertain:
            # Somebody began to write this part, and how that ended is not known here: the chat knows.
            found = await self.chat.channel.find(place, outbound.delivery_id)
            if found.outcome == "retry":
                return found
            shown = found.platform_message_id or (shown if shown != "?" else None)
        if not shown:
            return await self.chat.channel.send(place, text, outbound.delivery_id, outbound.choices)
        return await self._replace(place, shown, text, outbound)

    async def _write_file(self, outbound: Outbound, attempt: Attempt, place: Target) -> Verdict:
        if outbound.file is None:
            return Verdict("failed", "the part has no file")
        try:
            data = await read_file(self.store, outbound.sid, outbound.file)
        except HermesError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return Verdict("failed", "the file is not stored any more")
            return Verdict("retry", "the store does not give the file")
        sid, turn, _, *target = outbound.delivery_id.split(".")
        after = ".".join((sid, turn, "1", *target)) if outbound.part > 1 else ""
        sent = FileToSend(outbound.file, data, outbound.delivery_id, after)
        if attempt.number > 1 or attempt.uncertain:
            found = await self.chat.channel.find_file(place, sent)
            if found.outcome != "failed":
                return found
        return await self.chat.channel.send_file(place, sent)

    async def _replace(self, place: Target, message_id: str, text: str, outbound: Outbound) -> Verdict:
        """Make a message that is there the answer: by an edit, or where that is not possible by another one."""
        limits = self.chat.channel.capabilities
        if limits.measure(text) <= limits.max_edit_characters:
            edited = await self.chat.channel.edit(place, message_id, text, outbound.choices)
            if edited.outcome != "failed":
                return replace(edited, platform_message_id=message_id) if edited.outcome == "delivered" else edited
        gone = await self.chat.channel.delete(place, message_id)
        if gone.outcome == "retry":
            return gone
        return await self.chat.channel.send(place, text, outbound.delivery_id, outbound.choices)
