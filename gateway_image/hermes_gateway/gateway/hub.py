"""Shares core subscriptions between callers: one subject is subscribed once, while somebody listens."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from hermes_gateway.gateway import metrics

_QUEUE_MESSAGES = 1024


@dataclass(frozen=True)
class Heard:
    """A message as it came."""

    subject: str
    data: bytes


@dataclass
class _Shared:
    subscription: Subscription
    listeners: set[Listener] = field(default_factory=set)


class Listener:
    """One caller's bounded queue. A slow caller loses messages and knows from the store what it must."""

    def __init__(self, hub: SubjectHub, patterns: tuple[str, ...]) -> None:
        self._hub = hub
        self.patterns = patterns
        self.queue: asyncio.Queue[Heard] = asyncio.Queue(_QUEUE_MESSAGES)

    def offer(self, heard: Heard) -> None:
        """Queue a message, or drop it when the queue is full."""
        try:
            self.queue.put_nowait(heard)
        except asyncio.QueueFull:
            metrics.HUB_DROPPED.inc()

    async def close(self) -> None:
        """Stop listening. May be called twice."""
        await self._hub.leave(self)


class SubjectHub:
    """Subscriptions by pattern, counted by their listeners."""

    def __init__(self, bus: Client) -> None:
        self._bus = bus
        self._shared: dict[str, _Shared] = {}
        self._lock = asyncio.Lock()

    async def listen(self, *patterns: str) -> Listener:
        """Listen to patterns. What this connection publishes afterwards, and what follows from it, is heard."""
        listener = Listener(self, patterns)
        try:
            async with self._lock:
                for pattern in patterns:
                    if pattern not in self._shared:
                        self._shared[pattern] = _Shared(await self._subscribe(pattern))
                        metrics.SUBSCRIPTIONS.inc()
                    self._shared[pattern].listeners.add(listener)
        except BaseException:
            await self.leave(listener)
            raise
        return listener

    async def leave(self, listener: Listener) -> None:
        """Forget a listener and the subscriptions that only it needed."""
        async with self._lock:
            for pattern in listener.patterns:
                shared = self._shared.get(pattern)
                if shared is None:
                    continue
                shared.listeners.discard(listener)
                if not shared.listeners:
                    del self._shared[pattern]
                    metrics.SUBSCRIPTIONS.dec()
                    await _unsubscribe(shared.subscription)

    async def _subscribe(self, pattern: str) -> Subscription:
        async def receive(message: Msg) -> None:
            heard = Heard(message.subject, message.data)
            shared = self._shared.get(pattern)
            for listener in shared.listeners if shared else ():
                listener.offer(heard)

        return await self._bus.subscribe(pattern, cb=receive)


async def _unsubscribe(subscription: Subscription) -> None:
    # A closed or draining connection has no subscriptions any more.
    with contextlib.suppress(NatsError):
        await subscription.unsubscribe()
