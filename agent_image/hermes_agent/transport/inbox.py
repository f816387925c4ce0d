"""Pulls a session's messages one by one, with no right but the one to pull.

A client library's pull subscription asks the server about its consumer, which an agent may not. So the request is made
here: one message at a time, with heartbeats, asked for again when they stay away or the connection came back.
One at a time, because messages that are held back would come again out of order if this process died.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from hermes_contracts import subjects

log = structlog.get_logger()

EXPIRES_SECONDS = 60.0
HEARTBEAT_SECONDS = 5.0
_PAUSE_SECONDS = 0.25
_ACK_PREFIX = "$JS.ACK."
_QUIET_ENDS = frozenset({"404", "408"})
"""No message in time: the normal end of a request."""


class Inbox:
    """Messages of one session and epoch, in stream order."""

    def __init__(self, bus: Client, sid: str, epoch: int, *, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> None:
        self._bus = bus
        self._request_subject = f"$JS.API.CONSUMER.MSG.NEXT.{subjects.in_stream(sid)}.{subjects.consumer(sid, epoch)}"
        self._reply_prefix = f"{subjects.agent_inbox(sid, epoch)}.pull"
        self._heartbeat_seconds = heartbeat_seconds
        self._messages: deque[Msg] = deque()
        self._news = asyncio.Event()
        self._ended = False
        self._last_word = 0.0
        self._number = 0

    async def start(self) -> None:
        """Listen for what pull requests bring."""
        await self._bus.subscribe(f"{self._reply_prefix}.*", cb=self._receive)

    def pull_again(self) -> None:
        """Ask anew: a server that restarted has forgotten the request."""
        self._ended = True
        self._news.set()

    def take_waiting(self) -> list[Msg]:
        """Take the messages that came and that nobody will work on."""
        taken = list(self._messages)
        self._messages.clear()
        return taken

    async def next(self) -> Msg:
        """Return the next message; waits for ever."""
        while not self._messages:
            await self._request()
            await self._wait()
        return self._messages.popleft()

    async def _request(self) -> None:
        self._number += 1
        self._ended = False
        self._last_word = time.monotonic()
        body = {"batch": 1, "expires": int(EXPIRES_SECONDS * 1e9), "idle_heartbeat": int(self._heartbeat_seconds * 1e9)}
        try:
            await self._bus.publish(
                self._request_subject, json.dumps(body).encode(), reply=f"{self._reply_prefix}.{self._number}"
            )
        except NatsError as error:
            log.info("inbox.request_failed", error=str(error)[:200])
            self._ended = True
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _wait(self) -> None:
        """Return when there is a message, the request ended, or the server fell silent."""
        while not self._messages and not self._ended:
            left = self._last_word + 2.2 * self._heartbeat_seconds - time.monotonic()
            if left <= 0:
                log.info("inbox.silent")
                return
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._news.wait()

    async def _receive(self, message: Msg) -> None:
        self._last_word = time.monotonic()
        if message.reply.startswith(_ACK_PREFIX):
            self._messages.append(message)
            self._news.set()
            return
        headers = message.headers or {}
        status = headers.get("Status", "")
        if status == "100" or message.subject.rsplit(".", 1)[-1] != str(self._number):
            return
        if status not in _QUIET_ENDS:
            log.info("inbox.request_ended", status=status, reason=headers.get("Description", "")[:100])
            await asyncio.sleep(_PAUSE_SECONDS)
        self.pull_again()
