"""Slack's Web API, as far as answers need it, with Slack's own client."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import aiohttp
import structlog
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from hermes_contracts.access import SlackAccount
from hermes_contracts.envelopes import Choice, Target
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.gateway.channels.base import Attachment, Capabilities, ChatMessage, FileToSend
from hermes_gateway.gateway.channels.slack.blocks import blocks_of
from hermes_gateway.gateway.channels.slack.files import fetch_file, find_file, upload_file
from hermes_gateway.gateway.channels.slack.mrkdwn import render_mrkdwn
from hermes_gateway.gateway.channels.slack.reading import CHANNEL
from hermes_gateway.gateway.delivery.backoff import Verdict, parse_retry_after

log = structlog.get_logger()

METADATA_EVENT = "hermes_delivery"
_COMES_AGAIN = frozenset(
    {"ratelimited", "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org",
     # What an administrator can put right while the answer waits.
     "invalid_auth", "not_authed", "token_expired", "token_revoked", "account_inactive"}
)  # fmt: skip
_LOOK_BACK_SECONDS = 86_400
_PAGES = 5
_GUEST_SECONDS = 3600.0
_GUEST_TIMEOUT_SECONDS = 1.5
_REMEMBERED = 10_000

Accounts = Callable[[], Mapping[str, SlackAccount]]


class SlackChannel:
    """Writes to Slack. Accounts are looked up for each call, so a new token counts at once."""

    name = CHANNEL
    capabilities = Capabilities(max_characters=40_000, max_edit_characters=4_000, threads=True)

    def __init__(self, accounts: Accounts, *, timeout_seconds: float) -> None:
        self._accounts = accounts
        self._timeout_seconds = timeout_seconds
        self._session: aiohttp.ClientSession | None = None
        self._guests: OrderedDict[tuple[str, str], tuple[float, bool]] = OrderedDict()

    async def close(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()

    def account(self, account: str) -> SlackAccount | None:
        """Return an account by its name in routing keys."""
        return next((found for found in self._accounts().values() if found.account == account), None)

    def seconds_between(self, place: Target) -> float:
        """Slack takes about one message a second in each channel."""
        del place
        return 1.0

    def render(self, markdown: str) -> str:
        """Return mrkdwn."""
        return render_mrkdwn(markdown)

    async def send(self, place: Target, text: str, delivery_id: str, choices: Sequence[Choice] = ()) -> Verdict:
        """Post a message; its metadata holds the delivery id."""
        metadata = {"event_type": METADATA_EVENT, "event_payload": {"delivery_id": delivery_id}}
        return await self._write(
            place,
            lambda client: client.chat_postMessage(
                channel=place.chat,
                thread_ts=place.thread or None,
                text=text,
                blocks=blocks_of(text, choices) or None,
                metadata=metadata if delivery_id else None,
                unfurl_links=False,
                unfurl_media=False,
            ),
        )

    async def edit(self, place: Target, message_id: str, text: str, choices: Sequence[Choice] = ()) -> Verdict:
        """Replace a message's text and buttons; its metadata stays."""
        blocks = blocks_of(text, choices)
        return await self._write(
            place, lambda client: client.chat_update(channel=place.chat, ts=message_id, text=text, blocks=blocks)
        )

    async def delete(self, place: Target, message_id: str) -> Verdict:
        """Delete a message of ours."""
        verdict = await self._write(place, lambda client: client.chat_delete(channel=place.chat, ts=message_id))
        return Verdict("delivered") if "message_not_found" in verdict.error else verdict

    async def find(self, place: Target, delivery_id: str) -> Verdict:
        """Look through the last day of the thread, or of the chat. An app without the right to read finds nothing."""
        verdict, messages = await self._look_back(place, lambda message: _delivery_of(message) == delivery_id)
        if verdict.outcome != "delivered":
            return verdict
        found = next((message for message in messages if _delivery_of(message) == delivery_id), None)
        if found is None:
            return Verdict("failed", "no such message")
        return Verdict("delivered", platform_message_id=str(found.get("ts", "")))

    async def send_file(self, place: Target, sent: FileToSend) -> Verdict:
        """Upload a file and show it in the chat or thread."""
        account = self.account(place.account)
        if account is None:
            return Verdict("failed", f"the Slack account {place.account[:64]} is not configured any more")
        return await upload_file(self._write, self._connections(), account, place, sent)

    async def find_file(self, place: Target, sent: FileToSend) -> Verdict:
        """Look for the file behind its answer's first part."""
        verdict, messages = await self._look_back(place, lambda _: False)
        return find_file(messages, sent, _delivery_of) if verdict.outcome == "delivered" else verdict

    async def _look_back(self, place: Target, enough: Callable[[Any], bool]) -> tuple[Verdict, list[dict[str, Any]]]:
        """Return the last day's messages, as many pages of them as are allowed, up to the page that is enough."""
        oldest, cursor = f"{time.time() - _LOOK_BACK_SECONDS:.6f}", ""
        messages: list[dict[str, Any]] = []
        for _ in range(_PAGES):
            page: dict[str, Any] = {}
            verdict = await self._write(place, partial(_read_page, place, oldest, cursor, page))
            if verdict.outcome != "delivered":
                return verdict, []
            found = [message for message in page.get("messages", []) if isinstance(message, dict)]
            messages += found
            cursor = str((page.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor or any(map(enough, found)):
                break
        return Verdict("delivered"), messages

    async def fetch(self, message: ChatMessage, attachment: Attachment) -> bytes:
        """Fetch a file with the bot's token."""
        account = self.account(message.account)
        if account is None:
            raise HermesError(ErrorCode.NOT_FOUND, "the account is not configured any more")
        return await fetch_file(self._connections(), account, attachment.handle)

    async def typing(self, place: Target) -> None:
        """Do nothing: Slack has no such sign for bots."""

    async def is_guest(self, message: ChatMessage) -> bool:
        """Ask Slack what a person is; the answer is kept for an hour."""
        key, now = (message.account, message.user), time.monotonic()
        known = self._guests.get(key)
        if known is not None and now - known[0] < _GUEST_SECONDS:
            return known[1]
        guest: list[bool] = []

        async def ask(client: AsyncWebClient) -> Any:
            async with asyncio.timeout(_GUEST_TIMEOUT_SECONDS):
                answer = await client.users_info(user=message.user)
            user: dict[str, Any] = answer.get("user") or {}
            flags = ("is_restricted", "is_ultra_restricted", "is_bot", "is_stranger", "deleted")
            guest.append(any(user.get(flag) for flag in flags) or user.get("team_id") != message.team)
            return answer

        verdict = await self._write(message.place, ask)
        if not guest:
            if verdict.outcome == "failed":
                return True
            raise HermesError(ErrorCode.UNAVAILABLE, "Slack does not say who this is; try again", retryable=True)
        self._guests[key] = now, guest[0]
        if len(self._guests) > _REMEMBERED:
            self._guests.popitem(last=False)
        return guest[0]

    async def _write(self, place: Target, call: Callable[[AsyncWebClient], Awaitable[AsyncSlackResponse]]) -> Verdict:
        account = self.account(place.account)
        if account is None:
            return Verdict("failed", f"the Slack account {place.account[:64]} is not configured any more")
        try:
            answer = await call(self._client(account))
        except SlackApiError as error:
            return judge(error)
        except TimeoutError:
            return Verdict("retry", f"Slack did not answer within {self._timeout_seconds:g} s")
        except (aiohttp.ClientError, SlackClientError, OSError, json.JSONDecodeError) as error:
            return Verdict("retry", f"the connection to Slack failed: {type(error).__name__}")
        return Verdict("delivered", platform_message_id=str(answer.get("ts") or ""))

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            limits = aiohttp.TCPConnector(limit=64, keepalive_timeout=30)
            total = aiohttp.ClientTimeout(total=self._timeout_seconds)
            self._session = aiohttp.ClientSession(connector=limits, timeout=total, trust_env=False)
        return self._session

    def _client(self, account: SlackAccount) -> AsyncWebClient:
        # Its own retries would hide an attempt whose end is unknown.
        return AsyncWebClient(
            token=account.bot_token,
            base_url=account.api_url,
            timeout=int(self._timeout_seconds) or 1,
            session=self._connections(),
            retry_handlers=[],
        )


async def _read_page(
    place: Target, oldest: str, cursor: str, page: dict[str, Any], client: AsyncWebClient
) -> AsyncSlackResponse:
    """Read a page of a thread or a chat into `page`."""
    common: dict[str, Any] = {"channel": place.chat, "oldest": oldest, "limit": 200, "include_all_metadata": True}
    if cursor:
        common["cursor"] = cursor
    if place.thread:
        answer = await client.conversations_replies(ts=place.thread, **common)
    else:
        answer = await client.conversations_history(**common)
    page.update(answer.data if isinstance(answer.data, dict) else {})
    return answer


def judge(error: SlackApiError) -> Verdict:
    """Say what an answer of Slack's that is no success means."""
    response = error.response
    status = getattr(response, "status_code", None) or getattr(response, "status", None) or 0
    data = getattr(response, "data", None)
    code = str(data.get("error", "")) if isinstance(data, dict) else ""
    shown = f"Slack answered {code or status}"
    if status == 429 or status >= 500 or code in _COMES_AGAIN or not code:
        headers = getattr(response, "headers", None) or {}
        after = parse_retry_after(headers.get("Retry-After") or headers.get("retry-after"), datetime.now(UTC))
        return Verdict("retry", shown, retry_after_seconds=after)
    return Verdict("failed", shown)


def _delivery_of(message: Any) -> str:
    metadata = message.get("metadata") if isinstance(message, dict) else None
    if not isinstance(metadata, dict) or metadata.get("event_type") != METADATA_EVENT:
        return ""
    payload = metadata.get("event_payload")
    return str(payload.get("delivery_id", "")) if isinstance(payload, dict) else ""
