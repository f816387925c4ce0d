"""How many messages of a session are on the bus: those that no agent has finished, whether or not one has begun."""

from __future__ import annotations

import asyncio

import structlog
from nats.errors import Error as NatsError
from nats.js import JetStreamContext

from hermes_contracts import subjects
from hermes_contracts.errors import ErrorCode, HermesError

log = structlog.get_logger()

_SECONDS = 1.0


class WaitingMessages:
    """Counts them. An agent takes a message off the bus a moment after its turn is settled in the store."""

    def __init__(self, js: JetStreamContext) -> None:
        self._js = js

    async def count(self, sid: str) -> int:
        """Return how many there are. Raises HermesError UNAVAILABLE."""
        subject = subjects.inbound(sid)
        try:
            async with asyncio.timeout(_SECONDS):
                info = await self._js.stream_info(subjects.in_stream(sid), subjects_filter=subject)
        except (NatsError, TimeoutError) as error:
            log.info("waiting.unavailable", error=str(error)[:200] or type(error).__name__)
            raise HermesError(ErrorCode.UNAVAILABLE, "the message bus does not answer; try again", retryable=True) from error
        return (info.state.subjects or {}).get(subject, 0)
