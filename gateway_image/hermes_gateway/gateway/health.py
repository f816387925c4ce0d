"""How the gateway is: in one word for everybody, in detail for those with a key, by checks for the kubelet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fastapi import APIRouter
from nats.aio.client import Client
from pydantic import BaseModel

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import GET_SESSION, OwnedSessionRequest
from hermes_gateway.gateway.profiles import ProfileCache
from hermes_gateway.gateway.web.callers import AnyCaller, problems
from hermes_service.operations import Operations
from hermes_service.rpc import StoreClient

_NOBODY = OwnedSessionRequest(sid="s" + "a" * 25, owner="nobody")
_PROBE_SECONDS = 1.0


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Part(BaseModel):
    """One dependency."""

    ok: bool
    message: str = ""
    milliseconds: float | None = None


class DetailedHealth(BaseModel):
    """`degraded` is still a 200: the process is alive and says what is not."""

    status: Literal["ok", "degraded"]
    parts: dict[str, Part]


@dataclass(frozen=True)
class Checks:
    """Looks at what the gateway depends on."""

    bus: Client
    store: StoreClient
    profiles: ProfileCache
    file_problems: Callable[[], list[str]]

    def bus_problem(self) -> str | None:
        """Say why the bus is away."""
        return None if self.bus.is_connected else "not connected to the message bus"

    def profiles_problem(self) -> str | None:
        """Say that the Profiles are not known yet."""
        return None if self.profiles.synced else "the Profiles have not been read yet"

    def register(self, operations: Operations) -> None:
        """Give the kubelet its checks. The store is none: without it messages are still accepted."""
        operations.ready["bus"] = self.bus_problem
        operations.ready["profiles"] = self.profiles_problem

    async def detailed(self) -> DetailedHealth:
        """Look at everything."""
        files = "; ".join(self.file_problems())
        bus, profiles = self.bus_problem(), self.profiles_problem()
        parts = {
            "bus": Part(ok=bus is None, message=bus or ""),
            "profiles": Part(ok=profiles is None, message=profiles or ""),
            "access_files": Part(ok=not files, message=files),
            "store": await self._store_part(),
        }
        return DetailedHealth(status="ok" if all(part.ok for part in parts.values()) else "degraded", parts=parts)

    async def _store_part(self) -> Part:
        started = time.perf_counter()
        try:
            async with asyncio.timeout(_PROBE_SECONDS * 2):
                await self.store.call(GET_SESSION, _NOBODY, timeout_seconds=_PROBE_SECONDS, patience_seconds=0)
        except HermesError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                return Part(ok=False, message=error.message)
        except TimeoutError:
            return Part(ok=False, message="the store does not answer")
        return Part(ok=True, milliseconds=round((time.perf_counter() - started) * 1000, 1))


def build_router(checks: Checks) -> APIRouter:
    """Build the routes."""
    router = APIRouter(tags=["Health"])

    @router.get("/health")
    @router.get("/v1/health")
    async def health() -> Health:
        """Say that the process answers; needs no key."""
        return Health()

    @router.get("/health/detailed", responses=problems())
    async def detailed(_: AnyCaller) -> DetailedHealth:
        """Say how the gateway's dependencies are."""
        return await checks.detailed()

    return router
