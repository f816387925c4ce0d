"""Socket Mode: events come over a connection that we open, so Slack needs no address of ours. One replica has it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from nats.js import JetStreamContext
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from hermes_contracts.access import SlackAccount
from hermes_contracts.errors import HermesError
from hermes_gateway.gateway.channels.held import held_by_one
from hermes_gateway.gateway.channels.raw import Refused
from hermes_gateway.gateway.channels.slack.events import SlackEvents
from hermes_service import tracing

log = structlog.get_logger()

Accounts = Callable[[], Mapping[str, SlackAccount]]

_CLOSE_SECONDS = 2.0
_UNANSWERED = logging.getLogger("slack.socket")
"""The client's own log repeats what it receives; only its warnings are let through."""
_UNANSWERED.setLevel(logging.WARNING)


@dataclass(frozen=True)
class SlackSockets:
    """The connections of all accounts that have an app token."""

    accounts: Accounts
    events: SlackEvents
    js: JetStreamContext
    instance: str

    async def run(self) -> None:
        """Hold one for each account, for ever."""

        def wanted() -> frozenset[SlackAccount]:
            return frozenset(account for account in self.accounts().values() if account.app_token is not None)

        await held_by_one("slack", wanted, self._listen, self.js, self.instance)

    async def _listen(self, account: SlackAccount, finish: asyncio.Event) -> None:
        """Listen until asked to finish. What is not acknowledged, Slack sends again, to whoever listens then."""
        client = SocketModeClient(
            app_token=account.app_token or "",
            web_client=AsyncWebClient(base_url=account.api_url),
            logger=_UNANSWERED,
        )
        # The client begins with each message at once; what one person writes must stay in order.
        turn = asyncio.Lock()

        async def hear(connection: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
            async with turn:
                await self._hear(account, connection, request)

        client.socket_mode_request_listeners.append(hear)
        try:
            log.info("slack.socket_opening", account=account.name)
            await client.connect()  # type: ignore[no-untyped-call]
            log.info("slack.socket_open", account=account.name)
            await finish.wait()
        finally:
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await client.close()  # type: ignore[no-untyped-call]

    async def _hear(self, account: SlackAccount, connection: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        payload: dict[str, Any] | None = None
        try:
            match request.type:
                case "events_api":
                    await self.events.event(account, request.payload, tracing.accept(None))
                case "interactive":
                    await self.events.press(account, request.payload, tracing.accept(None))
                case "slash_commands":
                    said = await self.events.command(account, request.payload, tracing.accept(None))
                    payload = None if isinstance(said, Refused) else said
        except HermesError as error:
            log.warning("slack.not_taken", account=account.name, error=error.message[:200])
            return
        await connection.send_socket_mode_response(SocketModeResponse(request.envelope_id, payload))
