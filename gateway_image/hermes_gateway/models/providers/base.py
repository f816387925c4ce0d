"""What a provider is to the rest of the service, and the loop that all of them share."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from hermes_contracts.model_api import Finish, ModelEvent, ModelRequest
from hermes_gateway.models.providers.errors import ProviderError, Reason
from hermes_gateway.models.target import Medium, Target

DRAIN_SECONDS = 0.25
"""How long a finished stream may take to end, so that its connection can serve the next call."""

Media = Mapping[str, Medium]
"""Pictures by `media_id`; one that is missing is told to the model in words."""

C = TypeVar("C")


class Provider(Protocol):
    """Streams one call."""

    def stream(self, request: ModelRequest, target: Target, media: Media) -> AsyncGenerator[ModelEvent, None]:
        """Yield events, `Finish` once near the end. Raises ProviderError; closing it cancels the call upstream."""
        ...


class Reader(Protocol):
    """Turns a provider's events into ours, in order."""

    complete: bool
    """True once nothing more is to come."""

    def read(self, event: Mapping[str, object]) -> Sequence[ModelEvent]:
        """Return our events for one of theirs. A wrong shape raises ValueError or TypeError."""
        ...

    def finish(self) -> Finish | None:
        """Return the end, or None when the provider has not said that it is one."""
        ...


async def relay(upstream: AsyncIterator[object], reader: Reader) -> AsyncGenerator[ModelEvent, None]:
    """Yield our events of a provider's stream, each as soon as it is there. Raises ProviderError CUT."""
    while not reader.complete and (event := await anext(upstream, None)) is not None:
        if not isinstance(event, Mapping):
            raise TypeError("expected an object")
        for ours in reader.read(event):
            yield ours
    finish = reader.finish()
    if finish is None:
        raise ProviderError(Reason.CUT)
    yield finish
    await _drain(upstream)


async def _drain(upstream: AsyncIterator[object]) -> None:
    """Read a finished stream to its end, if that is near."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            while await anext(upstream, None) is not None:
                pass


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
