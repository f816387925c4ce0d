"""What a provider is to the rest of the service."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from hermes_contracts.model_api import ModelEvent, ModelRequest
from hermes_gateway.models.targets import Target

DRAIN_SECONDS = 0.25
"""How long a finished stream may take to end, so that its connection can serve the next call."""

C = TypeVar("C")


async def drain(upstream: AsyncIterator[object]) -> None:
    """Read a finished stream to its end, if that is near."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            while await anext(upstream, None) is not None:
                pass


class Provider(Protocol):
    """Streams one call."""

    def stream(self, request: ModelRequest, target: Target) -> AsyncGenerator[ModelEvent, None]:
        """Yield events, `Finish` once near the end. Raises HermesError; closing it cancels the call upstream."""
        ...


class Clients(Generic[C]):
    """SDK clients by address and key, kept warm; the one used longest ago leaves. They share one connection pool."""

    def __init__(self, make: Callable[[str, str], C], limit: int = 256) -> None:
        self._make = make
        self._limit = limit
        self._clients: OrderedDict[tuple[str, str], C] = OrderedDict()

    def get(self, base_url: str, api_key: str) -> C:
        """Return the client of an address and key."""
        found = self._clients.get((base_url, api_key))
        if found is None:
            found = self._clients[base_url, api_key] = self._make(base_url, api_key)
            while len(self._clients) > self._limit:
                self._clients.popitem(last=False)
        self._clients.move_to_end((base_url, api_key))
        return found
