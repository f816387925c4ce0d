"""Composition of the models service: the only place that names concrete classes."""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlsplit

import structlog
import uvloop
from nats.aio.client import Client
from pydantic import ValidationError

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import RECORD_USAGE, Method
from hermes_gateway.models.accounts import Accounts
from hermes_gateway.models.addresses import guarded_client
from hermes_gateway.models.attempts import Attempts
from hermes_gateway.models.budgets import BudgetKeeper
from hermes_gateway.models.endpoint import Endpoint
from hermes_gateway.models.file_profiles import FileProfiles
from hermes_gateway.models.health import KeyPool, ModelHealth
from hermes_gateway.models.logins import Logins
from hermes_gateway.models.metrics import ModelsMetrics
from hermes_gateway.models.pictures import Pictures
from hermes_gateway.models.profiles import ProfileSource
from hermes_gateway.models.providers.loading import load, make_providers
from hermes_gateway.models.retry import RetryPolicy
from hermes_gateway.models.routing import Backends, Routes
from hermes_gateway.models.server import serve_http
from hermes_gateway.models.service import ModelsService
from hermes_gateway.models.settings import ModelsSettings
from hermes_gateway.models.store import Rep, Req, Store
from hermes_gateway.models.token_endpoint import TokenEndpoint
from hermes_gateway.models.tokens import TokenVerifier
from hermes_gateway.models.usage import UsageRecorder
from hermes_service.bus import BusCredentials, connect, follow_file
from hermes_service.lifecycle import run
from hermes_service.logs import configure_logging
from hermes_service.operations import Operations
from hermes_service.rpc import service_store_client
from hermes_service.settings import explain
from hermes_service.tracing import configure_tracing

log = structlog.get_logger()

_DRAIN_SECONDS = 5.0
_STORE_SECONDS = 5.0
"""How long a call waits for the store, where it cannot go on without."""


@dataclass
class Bus:
    """The connection to NATS, made beside everything else: a bus that is away stops no stream, only the accounts wait."""

    settings: ModelsSettings
    client: Client | None = field(default=None)

    async def run(self) -> None:
        """Connect, and stay connected until cancelled."""
        credentials = BusCredentials.load(self.settings.bus_credentials_file)
        name = Role.MODELS.value
        self.client = await connect(
            self.settings.bus_url, credentials, name="hermes-models", inbox=subjects.service_inbox(name)
        )
        try:
            await follow_file(self.client, credentials, self.settings.bus_credentials_file)
        finally:
            await self.client.close()

    def problem(self) -> str | None:
        """Return None while connected."""
        return None if self.client is not None and self.client.is_connected else "the bus is not connected"

    async def call(self, method: Method[Req, Rep], request: Req) -> Rep:
        """Call the store. Raises HermesError."""
        if self.client is None:
            raise HermesError(ErrorCode.UNAVAILABLE, "the bus is not connected", retryable=True)
        client = service_store_client(self.client, Role.MODELS.value, patience_seconds=_STORE_SECONDS)
        return await client.call(method, request)


@asynccontextmanager
async def endpoint(
    settings: ModelsSettings,
    profiles: ProfileSource,
    store: Store,
    metrics: ModelsMetrics,
    *,
    policy: RetryPolicy | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Endpoint]:
    """Build the application and run what works beside it; what it holds is closed at the end."""
    await asyncio.to_thread(load)
    budgets = BudgetKeeper(store, clock)
    recorder = UsageRecorder(partial(store.call, RECORD_USAGE), metrics, settled=budgets.recorded)
    async with AsyncExitStack() as stack:
        make = partial(guarded_client, connect_seconds=settings.connect_seconds, idle_seconds=settings.idle_seconds)
        http = await stack.enter_async_context(make(settings.allowed_private_hosts))
        own = await stack.enter_async_context(make([urlsplit(settings.scripted_url).hostname or ""]))
        allowed = frozenset(settings.allowed_private_hosts)
        backends = Backends(make_providers(http), make_providers(own), settings.scripted_url, allowed)
        logins = Logins(store, TokenEndpoint(http).renew, allowed)
        routes = Routes(profiles, backends, ModelHealth(clock), KeyPool(clock), logins)
        accounts = Accounts(recorder, budgets, metrics)
        attempts = Attempts(routes, accounts, Pictures(store), metrics, policy=policy or RetryPolicy())
        service = ModelsService(
            routes, attempts, budgets, metrics, tenants=settings.tenants, call_seconds=settings.call_seconds
        )
        tokens = TokenVerifier(settings.token_public_key_file)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        worker = group.create_task(recorder.run())
        try:
            yield Endpoint(
                service, tokens, metrics,
                max_body_bytes=settings.max_body_bytes, heartbeat_seconds=settings.heartbeat_seconds,
            )  # fmt: skip
            await recorder.drain(_DRAIN_SECONDS)
        finally:
            worker.cancel()


async def serve(settings: ModelsSettings) -> None:
    """Run the service until cancelled; streams that are open then may finish within the grace period."""
    bus, metrics, operations = Bus(settings), ModelsMetrics(), Operations()
    started = False
    operations.ready["bus"] = bus.problem
    operations.ready["http"] = lambda: None if started else "provider packages are being loaded"
    async with operations.serve(settings.operations_host, settings.operations_port), asyncio.TaskGroup() as group:
        background = [group.create_task(bus.run())]
        if settings.profiles_file is not None:
            profiles: ProfileSource = FileProfiles(settings.profiles_file)
        else:
            module = await asyncio.to_thread(importlib.import_module, "hermes_gateway.models.kubernetes_profiles")
            cluster = module.KubernetesProfiles(settings.tenants, secret_cache_seconds=settings.secret_cache_seconds)
            background.append(group.create_task(cluster.run()))
            profiles = cluster
        operations.ready["profiles"] = profiles.problem
        try:
            async with endpoint(settings, profiles, bus, metrics) as application:
                started = True
                await serve_http(application, settings.listen_host, settings.listen_port, settings.grace_seconds)
        finally:
            for task in background:
                task.cancel()


def main() -> None:
    """Run the process."""
    try:
        settings = ModelsSettings()
    except ValidationError as error:
        sys.exit(f"models: {explain(error)}")
    configure_logging("models", settings.log_level)
    configure_tracing("hermes-models", settings.trace_endpoint)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    run(lambda: serve(settings))
