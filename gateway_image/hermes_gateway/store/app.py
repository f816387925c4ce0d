"""Composition root of the store: database, bus, methods, relay, health."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import structlog
import uvloop
from nats.aio.client import Client
from nats.errors import Error as NatsError
from pydantic import ValidationError

from hermes_contracts.bus_permissions import Role
from hermes_contracts.errors import HermesError
from hermes_contracts.installation import DATABASE_SERVICE
from hermes_contracts.subjects import service_inbox
from hermes_gateway.store.database import Address, Database
from hermes_gateway.store.handlers import build_handlers
from hermes_gateway.store.health import DatabaseHealth
from hermes_gateway.store.janitor import clean_for_ever
from hermes_gateway.store.migrate import MigrationError, migrate
from hermes_gateway.store.relay import Relay
from hermes_gateway.store.settings import StoreSettings
from hermes_gateway.store.workspaces.pieces import collect_for_ever
from hermes_gateway.store.workspaces.s3 import s3_shelf
from hermes_gateway.store.workspaces.shelf import BusShelf, Shelf
from hermes_service.bus import BusCredentials, connect, follow_file
from hermes_service.lifecycle import run
from hermes_service.logs import configure_logging
from hermes_service.operations import Operations
from hermes_service.rpc import RpcServer
from hermes_service.settings import explain
from hermes_service.tracing import configure_tracing

log = structlog.get_logger()

_QUEUE = "store"
_RELAY_CONNECTIONS = 4
_STARTUP_PAUSE_SECONDS = 1.0
_DRAIN_SECONDS = 10.0


def _secret(path: Path) -> str:
    return path.read_text().strip()


async def _migrate_when_up(settings: StoreSettings, address: Address) -> None:
    owner, service = settings.database_owner_password_file, settings.database_service_password_file
    while True:
        try:
            return await migrate(address, _secret(owner), _secret(service))
        except psycopg.OperationalError as error:
            log.warning("store.database.waiting", error=str(error).strip()[:200])
        await asyncio.sleep(_STARTUP_PAUSE_SECONDS)


async def _inspect_when_up(health: DatabaseHealth) -> None:
    while True:
        try:
            return await health.inspect()
        except HermesError as error:
            log.warning("store.database.waiting", error=error.message)
        await asyncio.sleep(_STARTUP_PAUSE_SECONDS)


def _shelf(settings: StoreSettings, bus: Client, stack: AsyncExitStack) -> Shelf:
    """Return where files of workspaces are kept."""
    if not settings.archive_s3_bucket:
        return BusShelf(bus, settings.archive_bus_mebibytes * 1024 * 1024)
    shelf = s3_shelf(
        bucket=settings.archive_s3_bucket,
        prefix=settings.archive_s3_prefix,
        endpoint=settings.archive_s3_endpoint,
        region=settings.archive_s3_region,
        credentials=settings.archive_s3_credentials,
    )
    stack.callback(shelf.close)
    return shelf


async def serve(settings: StoreSettings) -> None:
    """Run until cancelled; what was taken from the bus is answered before the connection closes."""
    operations = Operations()
    address = Address(settings.database_host, settings.database_port, settings.database_name, settings.database_sslmode)
    async with AsyncExitStack() as stack:
        starting: list[str | None] = ["the store is starting"]
        operations.ready["started"] = lambda: starting[0]
        port = await stack.enter_async_context(operations.serve(settings.operations_host, settings.operations_port))
        await _migrate_when_up(settings, address)

        conninfo = address.conninfo(DATABASE_SERVICE, _secret(settings.database_service_password_file))
        requests = await stack.enter_async_context(
            Database(conninfo, connections=settings.database_connections, name="requests")
        )
        # The relay waits for the bus inside its transactions: it must not hold what requests need.
        relaying = await stack.enter_async_context(Database(conninfo, connections=_RELAY_CONNECTIONS, name="relay"))
        health = DatabaseHealth(requests, allow_unsafe=settings.database_allow_unsafe)
        await _inspect_when_up(health)

        credentials = BusCredentials.load(settings.bus_credentials_file)
        bus = await connect(settings.bus_url, credentials, name="hermes-store", inbox=service_inbox(Role.STORE))
        stack.push_async_callback(bus.close)
        relay = Relay(bus, relaying)
        await stack.enter_async_context(relay.running())
        shelf = _shelf(settings, bus, stack)
        server = RpcServer(bus, build_handlers(requests, relay, bus, shelf), concurrency=settings.concurrency)
        await server.start(_QUEUE)

        operations.ready["database"] = health.reachable
        operations.ready["durability"] = health.durable
        operations.ready["bus"] = lambda: None if bus.is_connected else "the bus is not connected"
        starting[0] = None
        log.info("store.started", operations_port=port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(health.watch())
                group.create_task(collect_for_ever(requests, shelf))
                group.create_task(follow_file(bus, credentials, settings.bus_credentials_file))
                group.create_task(
                    clean_for_ever(
                        requests,
                        outbox_seconds=settings.outbox_keep_seconds,
                        detail_seconds=settings.turn_detail_keep_seconds,
                    )
                )
        finally:
            log.info("store.stopping")
            with contextlib.suppress(TimeoutError, NatsError):
                async with asyncio.timeout(_DRAIN_SECONDS):
                    await server.stop()


def main() -> None:
    """Read the settings and run."""
    try:
        settings = StoreSettings()
    except ValidationError as error:
        sys.exit(f"store: {explain(error)}")
    configure_logging("store", settings.log_level)
    configure_tracing("hermes-store", settings.trace_endpoint)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    try:
        run(lambda: serve(settings))
    except MigrationError as error:
        sys.exit(f"store: {error}")
