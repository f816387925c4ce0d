"""Takes updates, whichever way they come, and has each account's come: by posts to our address, or fetched by us.

One replica holds each account, under a lease: it tells Telegram where to send, or fetches.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog
from nats.js import JetStreamContext

from hermes_contracts.access import TelegramAccount
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.gateway.channels.batching import Batches
from hermes_gateway.gateway.channels.commands import COMMANDS
from hermes_gateway.gateway.channels.held import held_by_one
from hermes_gateway.gateway.channels.pipeline import Pipeline
from hermes_gateway.gateway.channels.raw import Refused
from hermes_gateway.gateway.channels.telegram.channel import Accounts, TelegramChannel
from hermes_gateway.gateway.channels.telegram.joining import (
    WINDOW_SECONDS,
    Update,
    follows,
    goes_on,
    joined,
    open_parts,
)
from hermes_gateway.gateway.channels.telegram.reading import press_id, read_update
from hermes_service import tracing

if TYPE_CHECKING:
    from hermes_gateway.gateway.channels.telegram.bots import TelegramBot

log = structlog.get_logger()

_PAUSE_SECONDS = 2.0
_LOOKS = 5
"""Most fetches that a message which may not be whole keeps others waiting for."""
_REMEMBERED = 10_000


class TelegramUpdates:
    """All accounts' updates."""

    def __init__(self, channel: TelegramChannel, pipeline: Pipeline) -> None:
        self.channel = channel
        self.pipeline = pipeline
        self._batches = Batches(follows, goes_on, WINDOW_SECONDS)
        self._posted: OrderedDict[tuple[str, object], None] = OrderedDict()
        """Parts that were taken with others: Telegram may post one again, alone."""

    async def take_posted(self, account: TelegramAccount, update: Update, traceparent: str) -> None:
        """Take an update that came by post, with those that are parts of the same message.

        Raises HermesError when it is not taken: it is to come again.
        """

        async def act(parts: list[Update]) -> None:
            in_order = sorted(parts, key=_number)
            await self.take(account, in_order, traceparent)
            if len(parts) > 1:
                self._posted |= {(account.account, part.get("update_id")): None for part in parts}
            while len(self._posted) > _REMEMBERED:
                self._posted.popitem(last=False)

        if (account.account, update.get("update_id")) not in self._posted:
            await self._batches.take(account.account, update, act)

    async def take(self, account: TelegramAccount, parts: Sequence[Update], traceparent: str) -> None:
        """Take a message. Raises HermesError when it is not taken: it is to come again."""
        from telegram.error import TelegramError

        bot = self.channel.bot(account)
        try:
            me = await bot.me()
        except TelegramError as error:
            raise HermesError(
                ErrorCode.UNAVAILABLE, f"Telegram does not say who this bot is: {type(error).__name__}", retryable=True
            ) from error
        found = read_update(account, me, *parts)
        if isinstance(found, Refused):
            log.debug("telegram.ignored", account=account.name, reason=found.reason)
            return
        await self.pipeline.take(found, account, traceparent)
        if press := press_id(parts[0]):
            with contextlib.suppress(TelegramError):
                await bot.noticed(press)

    async def run(self, accounts: Accounts, js: JetStreamContext, instance: str) -> None:
        """Have updates come, for ever."""
        await held_by_one("telegram", lambda: frozenset(accounts().values()), self._hold, js, instance)

    async def _hold(self, account: TelegramAccount, finish: asyncio.Event) -> None:
        from telegram.error import TelegramError

        bot = self.channel.bot(account)
        while not finish.is_set():
            try:
                await bot.offer([(spec.name, spec.summary) for spec in COMMANDS])
                if account.webhook_url is not None and account.secret_token is not None:
                    await bot.listen_at(account.webhook_url, account.secret_token)
                    log.info("telegram.posts", account=account.name)
                    await finish.wait()
                else:
                    await bot.listen_here()
                    log.info("telegram.fetches", account=account.name)
                    await self._fetch(account, finish)
            except TelegramError as error:
                # Another process that fetches for the same bot is a Conflict.
                log.warning("telegram.not_listening", account=account.name, error=type(error).__name__)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _fetch(self, account: TelegramAccount, finish: asyncio.Event) -> None:
        """Fetch until asked to finish. An update leaves Telegram's list when it is taken, and not before."""
        bot, offset, taken = self.channel.bot(account), 0, set[int]()
        while not finish.is_set():
            found = await _fetch_whole(bot, offset)
            for parts in joined(update for update in found if update["update_id"] not in taken):
                if not await self._taken(account, parts):
                    await asyncio.sleep(_PAUSE_SECONDS)
                    break
                taken |= {part["update_id"] for part in parts}
            if found:
                # What is not taken stays first on Telegram's list.
                waiting = (update["update_id"] for update in found if update["update_id"] not in taken)
                offset = next(waiting, found[-1]["update_id"] + 1)
                taken = {number for number in taken if number >= offset}

    async def _taken(self, account: TelegramAccount, parts: Sequence[Update]) -> bool:
        try:
            await self.take(account, parts, tracing.accept(None))
        except HermesError as error:
            log.warning("telegram.not_taken", account=account.name, error=error.message[:200])
            return False
        return True


async def _fetch_whole(bot: TelegramBot, offset: int) -> list[Update]:
    """Fetch, and once more as long as parts come of a message that may not be whole. Raises TelegramError."""
    found = await bot.fetch(offset)
    for _ in range(_LOOKS):
        parts = open_parts(found)
        if not parts:
            break
        await asyncio.sleep(WINDOW_SECONDS)
        found = await bot.fetch(offset)
        if open_parts(found) == parts:
            break
    return found


def _number(update: Update) -> int:
    message = update.get("message")
    number = message.get("message_id") if isinstance(message, dict) else None
    return number if isinstance(number, int) else 0
