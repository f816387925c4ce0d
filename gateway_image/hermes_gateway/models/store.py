"""The store, as this service calls it."""

from __future__ import annotations

from typing import Protocol, TypeVar

from pydantic import BaseModel

from hermes_contracts.store_api import Method

Req = TypeVar("Req", bound=BaseModel)
Rep = TypeVar("Rep", bound=BaseModel)


class Store(Protocol):
    """Calls a method of the store."""

    async def call(self, method: Method[Req, Rep], request: Req) -> Rep:
        """Return the answer. Raises HermesError: the store's own, or UNAVAILABLE after a few seconds."""
        ...
