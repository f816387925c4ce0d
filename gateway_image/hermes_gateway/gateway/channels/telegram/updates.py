"""Takes updates, whichever way they come, and has each account's come: by posts to our address, or fetched by us.

One replica holds each account, under a lease: it tells Telegram where to send, or fetches.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import structlog
from nats.js import JetStreamContext

from hermes_contracts.access import TelegramAccount
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.gateway.channels.commands import COMMANDS
from hermes_gateway.gateway.channels.held import held_by_one
from hermes_gateway.gateway.channels.pipeline import Pipeline
from hermes_gateway.gateway.channels.telegram.channel import Accounts, TelegramChannel
from hermes_gateway.gateway.channels.telegram.reading import Refused, press_id, read_update
from hermes_service import tracing

log = structlog.get_logger()

_PAUSE_SECONDS = 2.0


@dataclass(frozen=True)
class TelegramUpdates:
    """All accounts' updates."""

    channel: TelegramChannel
    pipeline: Pipeline

    async def take(self, account: TelegramAccount, update: dict[str, Any], traceparent: str) -> None:
        """Take an update. Raises HermesError when it is not taken: it is to come again."""
        from telegram.error import TelegramError

        bot = self.channel.bot(account)
        try:
            me = await bot.me()
        except TelegramError as error:
            raise HermesError(
                ErrorCode.UNAVAILABLE, f"Telegram does not say who this bot is: {type(error).__name__}", retryable=True
            ) from error
        found = read_update(account, me, update)
        if isinstance(found, Refused):
            log.debug("telegram.ignored", account=account.name, reason=found.reason)
            return
        await self.pipeline.take(found, account, traceparent)
        if press := press_id(update):
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
        bot, offset = self.channel.bot(account), 0
        while not finish.is_set():
            for update in await bot.fetch(offset):
                if not await self._taken(account, update):
                    # It stays first on Telegram's list.
                    await asyncio.sleep(_PAUSE_SECONDS)
                    break
                offset = int(update["update_id"]) + 1

    async def _taken(self, account: TelegramAccount, update: dict[str, Any]) -> bool:
        try:
            await self.take(account, update, tracing.accept(None))
        except HermesError as error:
            log.warning("telegram.not_taken", account=account.name, error=error.message[:200])
            return False
        return True
