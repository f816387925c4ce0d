"""Slack's files: fetched with the bot's token, uploaded in three steps of which the last one shows them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from hermes_contracts.access import SlackAccount
from hermes_contracts.envelopes import Target
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import MAX_MEDIA_BYTES
from hermes_gateway.gateway.channels.base import FileToSend
from hermes_gateway.gateway.channels.slack.mrkdwn import render_mrkdwn
from hermes_gateway.gateway.delivery.backoff import Verdict, judge_status

Call = Callable[[AsyncWebClient], Awaitable[AsyncSlackResponse]]
_UPLOAD_SECONDS = 40.0
"""8 MiB at 200 KB/s. Below what the bus waits for an acknowledgement."""
Write = Callable[[Target, Call], Awaitable[Verdict]]
"""Makes a call of Slack's API and says what its end means."""


async def fetch_file(connections: aiohttp.ClientSession, account: SlackAccount, address: str) -> bytes:
    """Fetch a file with the bot's token, which goes to Slack's own hosts only. Raises HermesError."""
    if not is_slacks(address, account.api_url):
        raise HermesError(ErrorCode.INVALID, "Slack names no address of its own for it")
    headers = {"Authorization": f"Bearer {account.bot_token}"}
    try:
        async with connections.get(address, headers=headers, allow_redirects=False) as response:
            if response.status != 200:
                # Without the right files:read Slack leads to its own front page.
                raise HermesError(ErrorCode.UNAVAILABLE, f"Slack answered {response.status}")
            data = await response.content.read(MAX_MEDIA_BYTES + 1)
            while len(data) <= MAX_MEDIA_BYTES and (more := await response.content.read(MAX_MEDIA_BYTES)):
                data += more
    except (aiohttp.ClientError, OSError) as error:
        raise HermesError(ErrorCode.UNAVAILABLE, "the connection to Slack failed") from error
    if len(data) > MAX_MEDIA_BYTES:
        raise HermesError(ErrorCode.TOO_LARGE, "too large")
    return data


async def upload_file(
    write: Write, connections: aiohttp.ClientSession, account: SlackAccount, place: Target, sent: FileToSend
) -> Verdict:
    """Ask where to, put the bytes there, show them. Only the last step is seen, so only its end can be unknown."""
    told: dict[str, Any] = {}

    async def ask(client: AsyncWebClient) -> AsyncSlackResponse:
        answer = await client.files_getUploadURLExternal(filename=sent.file.name, length=len(sent.data))
        told.update(answer.data if isinstance(answer.data, dict) else {})
        return answer

    verdict = await write(place, ask)
    if verdict.outcome != "delivered":
        return verdict
    address, identity = str(told.get("upload_url", "")), str(told.get("file_id", ""))
    if not is_slacks(address, account.api_url):
        return Verdict("failed", "Slack names no address of its own to upload to")
    try:
        # Without the token: the address itself is the right to write there.
        taking = aiohttp.ClientTimeout(total=_UPLOAD_SECONDS)
        async with connections.post(address, data=sent.data, allow_redirects=False, timeout=taking) as response:
            # Taken is what is answered whole.
            async for _ in response.content.iter_chunked(4_096):
                pass
            put = judge_status(response.status, response.headers.get("Retry-After"), datetime.now(UTC))
    except TimeoutError:
        return Verdict("retry", "Slack did not take the file in time")
    except (aiohttp.ClientError, OSError) as error:
        return Verdict("retry", f"the connection to Slack failed: {type(error).__name__}")
    if put.outcome != "delivered":
        return put
    shown = await write(
        place,
        lambda client: client.files_completeUploadExternal(
            files=[{"id": identity, "title": sent.file.name}],
            channel_id=place.chat,
            thread_ts=place.thread or None,
            initial_comment=render_mrkdwn(sent.file.caption) or None,
        ),
    )
    return Verdict("delivered", platform_message_id=identity) if shown.outcome == "delivered" else shown


def find_file(messages: Iterable[Mapping[str, Any]], sent: FileToSend, anchor: Callable[[Any], str]) -> Verdict:
    """Look for a file behind the beginning of its answer. Slack keeps no delivery id of ours with a file.

    Names are unique within an answer, and an older answer's file of the same name is before the beginning.
    """
    ordered = sorted(messages, key=lambda message: str(message.get("ts", "")))
    begins = next((n for n, message in enumerate(ordered) if sent.after and anchor(message) == sent.after), None)
    for message in ordered[begins + 1 :] if begins is not None else []:
        for file in message.get("files") or ():
            if isinstance(file, dict) and file.get("name") == sent.file.name and file.get("size") == sent.file.size:
                return Verdict("delivered", platform_message_id=str(file.get("id", "")))
    return Verdict("failed", "no such message")


def is_slacks(address: str, api_url: str) -> bool:
    """Tell whether an address is one that Slack serves files from, or the configured API's own."""
    url, api = urlsplit(address), urlsplit(api_url)
    if (url.scheme, url.netloc) == (api.scheme, api.netloc):
        return True
    host = url.hostname or ""
    return url.scheme == "https" and (host == "slack.com" or host.endswith((".slack.com", ".slack-files.com")))
