"""Telegram as the shared pipeline sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from hermes_contracts.access import TelegramAccount
from hermes_contracts.envelopes import Choice, Target
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.gateway.channels.base import Attachment, Capabilities, ChatMessage, FileToSend
from hermes_gateway.gateway.channels.telegram.markdown_v2 import render_markdown_v2
from hermes_gateway.gateway.channels.telegram.reading import CHANNEL
from hermes_gateway.gateway.delivery.backoff import Verdict
from hermes_gateway.text.split import utf16_units

if TYPE_CHECKING:
    from hermes_gateway.gateway.channels.telegram.bots import TelegramBot

Accounts = Callable[[], Mapping[str, TelegramAccount]]

_PRIVATE_SECONDS, _GROUP_SECONDS = 1.0, 3.0
"""Telegram's own limits: about one message a second in a chat, twenty a minute in a group."""


class TelegramChannel:
    """Writes to Telegram. Accounts are looked up for each call, so a new token counts at once."""

    name = CHANNEL
    capabilities = Capabilities(max_characters=4_096, max_edit_characters=4_096, measure=utf16_units, threads=True)

    def __init__(self, accounts: Accounts, *, timeout_seconds: float) -> None:
        self._accounts = accounts
        self._timeout_seconds = timeout_seconds
        self._bots: dict[TelegramAccount, TelegramBot] = {}

    async def close(self) -> None:
        """Close connections."""
        for bot in self._bots.values():
            await bot.close()

    def account(self, account: str) -> TelegramAccount | None:
        """Return an account by its name in routing keys."""
        return next((found for found in self._accounts().values() if found.account == account), None)

    def bot(self, account: TelegramAccount) -> TelegramBot:
        """Return an account's bot."""
        if account not in self._bots:
            from hermes_gateway.gateway.channels.telegram.bots import TelegramBot

            self._bots[account] = TelegramBot(account, self._timeout_seconds)
        return self._bots[account]

    def seconds_between(self, place: Target) -> float:
        """Groups have negative ids."""
        return _GROUP_SECONDS if place.chat.startswith("-") else _PRIVATE_SECONDS

    def render(self, markdown: str) -> str:
        """Return MarkdownV2."""
        return render_markdown_v2(markdown)

    async def send(self, place: Target, text: str, delivery_id: str, choices: Sequence[Choice] = ()) -> Verdict:
        """Post a message. Telegram keeps no delivery id."""
        del delivery_id
        bot = self._bot_at(place)
        return await bot.send(place, text, choices) if bot is not None else _gone(place)

    async def edit(self, place: Target, message_id: str, text: str, choices: Sequence[Choice] = ()) -> Verdict:
        """Replace a message's text and buttons."""
        bot = self._bot_at(place)
        return await bot.edit(place, message_id, text, choices) if bot is not None else _gone(place)

    async def delete(self, place: Target, message_id: str) -> Verdict:
        """Delete a message of ours."""
        bot = self._bot_at(place)
        return await bot.delete(place, message_id) if bot is not None else _gone(place)

    async def find(self, place: Target, delivery_id: str) -> Verdict:
        """Find nothing: a bot cannot read what it has written."""
        del place, delivery_id
        return Verdict("failed", "Telegram shows no history to bots")

    async def send_file(self, place: Target, sent: FileToSend) -> Verdict:
        """Post a file, a picture as one."""
        bot = self._bot_at(place)
        return await bot.send_file(place, sent) if bot is not None else _gone(place)

    async def find_file(self, place: Target, sent: FileToSend) -> Verdict:
        """Find nothing: a bot cannot read what it has written."""
        return await self.find(place, sent.delivery_id)

    async def fetch(self, message: ChatMessage, attachment: Attachment) -> bytes:
        """Fetch a file; Telegram gives bots those of at most 20 MB."""
        account = self.account(message.account)
        if account is None:
            raise HermesError(ErrorCode.NOT_FOUND, "the account is not configured any more")
        return await self.bot(account).fetch_file(attachment.handle)

    async def typing(self, place: Target) -> None:
        """Show that an answer is on its way."""
        bot = self._bot_at(place)
        if bot is not None:
            await bot.typing(place)

    async def is_guest(self, message: ChatMessage) -> bool:
        """Members of a group are members."""
        del message
        return False

    def _bot_at(self, place: Target) -> TelegramBot | None:
        account = self.account(place.account)
        return self.bot(account) if account is not None else None


def _gone(place: Target) -> Verdict:
    return Verdict("failed", f"the Telegram account {place.account[:64]} is not configured any more")
