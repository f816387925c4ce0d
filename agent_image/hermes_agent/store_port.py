"""The store as this session's agent calls it."""

from __future__ import annotations

from typing import Protocol, TypeVar

from pydantic import BaseModel

from hermes_contracts.store_api import Method

Req = TypeVar("Req", bound=BaseModel)
Rep = TypeVar("Rep", bound=BaseModel)


class Store(Protocol):
    """Raises HermesError: FENCED ends everything."""

    async def call(self, method: Method[Req, Rep], request: Req) -> Rep:
        """Call a method; every one may be repeated."""
        ...
