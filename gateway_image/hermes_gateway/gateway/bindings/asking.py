"""Asks Slack and Telegram about an account. Never raises for what they do, and says nothing to anybody."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from hermes_contracts.access import SlackAccount
from hermes_gateway.gateway.bindings.platform_checks import SlackFacts, TelegramFacts

if TYPE_CHECKING:
    from hermes_gateway.gateway.channels.telegram.bots import TelegramBot

ASK_SECONDS = 5.0
_TROUBLE = (aiohttp.ClientError, SlackClientError, OSError, json.JSONDecodeError)


async def ask_slack(account: SlackAccount) -> SlackFacts:
    """Return what Slack says of an account's tokens."""
    timeout = aiohttp.ClientTimeout(total=ASK_SECONDS)
    try:
        async with asyncio.timeout(3 * ASK_SECONDS), aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
            client = AsyncWebClient(token=account.bot_token, base_url=account.api_url, session=session, retry_handlers=[])
            who = await client.auth_test()
            header = str(who.headers.get("x-oauth-scopes") or "")
            scopes = frozenset(part.strip() for part in header.split(",") if part.strip()) or None
            return SlackFacts(
                team=str(who.get("team_id") or ""),
                app=await _app_of(client, str(who.get("bot_id") or "")),
                scopes=scopes,
                socket_error=await _socket_error(account, session),
            )
    except SlackApiError as error:
        return SlackFacts(error=_words(error))
    except TimeoutError:
        return SlackFacts(away="no answer in time")
    except _TROUBLE as error:
        return SlackFacts(away=type(error).__name__)


async def _app_of(client: AsyncWebClient, bot: str) -> str:
    """Return the app of a bot; empty when the token may not ask."""
    if not bot:
        return ""
    try:
        found = (await client.bots_info(bot=bot)).get("bot") or {}
    except SlackApiError:
        return ""
    return str(found.get("app_id") or "")


async def _socket_error(account: SlackAccount, session: aiohttp.ClientSession) -> str:
    if account.app_token is None:
        return ""
    client = AsyncWebClient(base_url=account.api_url, session=session, retry_handlers=[])
    try:
        await client.apps_connections_open(app_token=account.app_token)
    except SlackApiError as error:
        words = _words(error)
        return "" if words == "ratelimited" else words
    return ""


def _words(error: SlackApiError) -> str:
    return str(error.response.get("error") or "unknown error")[:100]


async def ask_telegram(bot: TelegramBot) -> TelegramFacts:
    """Return what Telegram says of a bot."""
    from telegram.error import InvalidToken, TelegramError

    from hermes_gateway.gateway.channels.telegram.bots import judge

    try:
        async with asyncio.timeout(ASK_SECONDS):
            found = await bot.posting()
    except InvalidToken:
        return TelegramFacts(bad_token=True)
    except TelegramError as error:
        return TelegramFacts(error=judge(error).error)
    except TimeoutError:
        return TelegramFacts(error="no answer in time")
    failed_at = found.last_error_date.timestamp() if found.last_error_date else 0.0
    return TelegramFacts(
        posts_to=found.url or "",
        post_error=found.last_error_message or "",
        post_error_age=time.time() - failed_at,
        waiting=found.pending_update_count,
    )
