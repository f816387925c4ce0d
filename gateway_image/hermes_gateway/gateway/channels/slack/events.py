"""What Slack tells of, whichever way it comes: to our address, signed, or over a connection that we opened."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from hermes_contracts.access import SlackAccount
from hermes_contracts.errors import HermesError
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.channels.pipeline import Pipeline
from hermes_gateway.gateway.channels.raw import Refused
from hermes_gateway.gateway.channels.slack.mrkdwn import render_mrkdwn
from hermes_gateway.gateway.channels.slack.reading import read_command, read_event, read_press

log = structlog.get_logger()

Json = dict[str, Any]


@dataclass(frozen=True)
class SlackEvents:
    """Reads what Slack says and hands it on."""

    pipeline: Pipeline
    now: Callable[[], float] = time.time

    async def event(self, account: SlackAccount, body: Json, traceparent: str) -> None:
        """Take an `event_callback`. Raises HermesError when it is not taken: Slack is to send it again."""
        await self._take(account, read_event(account, body), traceparent)

    async def press(self, account: SlackAccount, payload: Json, traceparent: str) -> None:
        """Take the press of a button. Raises HermesError when it is not taken."""
        await self._take(account, read_press(account, payload), traceparent)

    async def command(self, account: SlackAccount, form: Json, traceparent: str) -> Json | Refused:
        """Carry out a slash command; returns what the person alone is shown."""
        message = read_command(account, form, f"{self.now():.6f}")
        if isinstance(message, Refused):
            return message
        try:
            said = await self.pipeline.take_command(message, account, traceparent)
        except HermesError as error:
            # Slack shows nothing of an error and tries no command again: the person must do that.
            said = f"That did not work: {error.message}. Please try again."
        return {"response_type": "ephemeral", "text": render_mrkdwn(said)}

    async def _take(self, account: SlackAccount, found: ChatMessage | Refused, traceparent: str) -> None:
        if isinstance(found, Refused):
            log.debug("slack.ignored", account=account.name, reason=found.reason)
            return
        await self.pipeline.take(found, account, traceparent)
