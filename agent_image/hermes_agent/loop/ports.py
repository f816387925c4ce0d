"""What the loop needs of others."""

from __future__ import annotations

from typing import Literal, Protocol, TypeVar

from pydantic import BaseModel

from hermes_contracts.store_api import Method

Req = TypeVar("Req", bound=BaseModel)
Rep = TypeVar("Rep", bound=BaseModel)

DeltaKind = Literal["text", "reasoning", "tool_started", "tool_finished"]


class Store(Protocol):
    """The store as this session's agent calls it. Raises HermesError: FENCED ends everything."""

    async def call(self, method: Method[Req, Rep], request: Req) -> Rep:
        """Call a method; every one may be repeated."""
        ...


class DeltaSink(Protocol):
    """Where pieces of a running turn go; they may be lost."""

    def emit(self, kind: DeltaKind, *, text: str = "", tool: str = "", call_id: str = "") -> None:
        """Send a piece; never waits, never raises."""
        ...
