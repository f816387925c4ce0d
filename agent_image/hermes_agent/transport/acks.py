"""Acknowledgements of one message: keeps it alive while it is worked on, and settles it for sure."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError

log = structlog.get_logger()

PROGRESS_SECONDS = 10.0
"""A third of the consumer's ack_wait."""
_TIMEOUT_SECONDS = 2.0
_ATTEMPTS = 5


@contextlib.asynccontextmanager
async def kept_alive(bus: Client, ack_subject: str, *, interval_seconds: float = PROGRESS_SECONDS) -> AsyncIterator[None]:
    """Tell the server again and again that the message is being worked on."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(interval_seconds)
            with contextlib.suppress(NatsError):
                await bus.publish(ack_subject, b"+WPI")

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()


async def settle(bus: Client, ack_subject: str, word: bytes = b"+ACK") -> bool:
    """Send a final word and wait until the server has it; False when it never said so (then the message comes again)."""
    for _ in range(_ATTEMPTS):
        try:
            await bus.request(ack_subject, word, timeout=_TIMEOUT_SECONDS)
        except NatsError:
            await asyncio.sleep(0.2)
        else:
            return True
    log.warning("ack.unconfirmed", word=word.decode()[:10])
    return False


async def give_back(bus: Client, ack_subject: str, *, delay_seconds: float = 0.0) -> bool:
    """Have the message delivered again, at once or later."""
    word = b'-NAK {"delay": %d}' % int(delay_seconds * 1e9) if delay_seconds else b"-NAK"
    return await settle(bus, ack_subject, word)
