"""The composition root: builds everything, starts it, and takes the leader's work up and down."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog
from nats.aio.client import Client

from hermes_contracts.bus_permissions import Role, service_permissions
from hermes_contracts.errors import HermesError
from hermes_contracts.projection import ProfileProjection
from hermes_operator import bootstrap
from hermes_operator.admissions import Admissions
from hermes_operator.arrivals import ArrivalPass
from hermes_operator.bus import BusDoor
from hermes_operator.cluster.cache import Cache
from hermes_operator.cluster.client import ClusterClient, Reach
from hermes_operator.cluster.errors import ClusterError
from hermes_operator.cluster.events import EventRecorder
from hermes_operator.cluster.resources import NAMESPACES
from hermes_operator.cron.passes import CronPass
from hermes_operator.cron.post import Post
from hermes_operator.engine.election import Elector, LeaseTerms, while_leading
from hermes_operator.engine.queue import WorkQueue
from hermes_operator.engine.workers import Workers
from hermes_operator.gone_namespaces import GoneNamespaces
from hermes_operator.jobs.callers import Callers
from hermes_operator.jobs.desk import Desk
from hermes_operator.jobs.serve import serve_jobs
from hermes_operator.launch import Launcher
from hermes_operator.lists import Lists
from hermes_operator.mail import Mail
from hermes_operator.namespaces import Namespaces
from hermes_operator.observer import Observer
from hermes_operator.pending import PendingBoard
from hermes_operator.pool.claims import Claims
from hermes_operator.pool.passes import HandoverPass, PoolPass
from hermes_operator.profiles import ProfilePass
from hermes_operator.purges import PurgePass
from hermes_operator.reconcile.model import Limits
from hermes_operator.resync import Resync
from hermes_operator.secret_watch import SecretWatch
from hermes_operator.sessions import SessionPass
from hermes_operator.settings import OperatorSettings
from hermes_operator.spending import Spending
from hermes_operator.state import Key, Shared, cron_key, pool_key, profile_key, session_key
from hermes_operator.surroundings import Surroundings
from hermes_operator.sweep import Sweep
from hermes_operator.undertaker import Undertaker
from hermes_operator.watch import watch
from hermes_operator.watched import watched_kinds
from hermes_service.bus import connect
from hermes_service.operations import Operations
from hermes_service.rpc import StoreClient, service_store_client
from hermes_service.signing import Signer, Verifier
from hermes_service.tracing import configure_tracing

log = structlog.get_logger()

_RETRY_SECONDS = 2.0


class Operator:
    """One replica."""

    def __init__(
        self, settings: OperatorSettings, client: ClusterClient, operations: Operations, abandon: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._abandon = abandon
        self._client = client
        self._operations = operations
        self._namespaces = Namespaces(client, time.monotonic)
        self._shared = Shared(WorkQueue(time.time), Cache(), PendingBoard(time.monotonic))
        rooms = {namespace: limits.room() for namespace, limits in settings.limits.items()}
        self._admissions = Admissions(self._shared.cache, self._shared.queue, rooms)
        self._observer = Observer(self._shared, self._namespaces)
        kinds = watched_kinds(self._shared, self._observer)
        self._lists = Lists(client, kinds, settings.tenants)
        self._resync = Resync(self._lists)
        self._terms = LeaseTerms(
            settings.namespace, f"{settings.release}-operator", settings.pod_name, settings.lease_seconds
        )
        self._elector = Elector(client, self._terms, time.monotonic)
        self._synced = asyncio.Event()
        self._main: asyncio.Task[Any] | None = None
        self._bus: Client | None = None
        self._workers: Workers | None = None

    async def run(self) -> None:
        """Run until cancelled, or until kopf was told to stop by a signal."""
        self._main = asyncio.current_task()
        self._operations.live["watch"] = self._resync.problem
        self._operations.live["workers"] = lambda: self._workers.problem() if self._workers else None
        self._operations.ready["cache"] = lambda: None if self._shared.cache.synced else "the first list is not complete"
        self._operations.ready["bus"] = self._bus_problem
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._observe())
                group.create_task(self._serve())
        except* _Stopped:
            log.info("operator.stopped")

    def _bus_problem(self) -> str | None:
        return None if self._bus is not None and self._bus.is_connected else "not connected"

    async def _observe(self) -> None:
        """Fill the cache, then watch. Every replica does, so that the next leader need not wait for a list."""
        while True:
            try:
                for tenant in self._settings.tenants:
                    await self._namespaces.get(tenant)
                await self._lists.fill()
                break
            except ClusterError as error:
                log.warning("observe.waiting", error=error.message[:300])
                await asyncio.sleep(_RETRY_SECONDS)
        self._shared.cache.synced = True
        self._synced.set()
        log.info("observe.synced", sessions=len(self._shared.cache.sessions.all()))
        async with asyncio.TaskGroup() as group:
            checks = group.create_task(self._check_often())
            started = asyncio.Event()
            signals = group.create_task(self._claim_signals(started))
            await watch(self._client.configuration, self._settings.tenants, self._lists.kinds, started)
            checks.cancel()
            signals.cancel()
        raise _Stopped

    async def _claim_signals(self, started: asyncio.Event) -> None:
        """Have a signal end everything at once: kopf alone would take seconds before anyone gave the lease back."""
        await started.wait()
        loop, main = asyncio.get_running_loop(), self._main
        assert main is not None
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, main.cancel)

    async def _check_often(self) -> None:
        while True:
            await asyncio.sleep(self._settings.resync_seconds)
            try:
                await self._resync.check()
            except ClusterError as error:
                log.warning("resync.failed", error=error.message[:300])

    async def _serve(self) -> None:
        """Become leader again and again; a standby connects to the bus too and listens."""
        async with asyncio.TaskGroup() as group:
            connected: asyncio.Task[_Bus] = group.create_task(self._connect(group))
            while True:
                async with self._elector.lead() as lost:
                    try:
                        await while_leading(
                            lost, self._lead(connected), stop_seconds=self._terms.stop_seconds, abandon=self._abandon
                        )
                    finally:
                        self._shared.leading = False
                self._shared.queue.clear()

    async def _connect(self, group: asyncio.TaskGroup) -> _Bus:
        keys = await self._keys()
        surroundings = Surroundings(self._settings, keys.gateway_public_key)
        await surroundings.wait()
        inbox = service_permissions(Role.OPERATOR).inbox
        client = await self._dial(keys, inbox)
        self._bus = client
        await self._observer.listen(client)
        group.create_task(surroundings.keep_fresh())
        verifier = Verifier(keys.gateway_public_key)
        return _Bus(client, BusDoor(client, verifier), Mail(client, verifier), keys, surroundings)

    async def _dial(self, keys: bootstrap.Keys, inbox: str) -> Client:
        while True:
            try:
                return await connect(self._settings.bus_url, keys.minter.own_bus_user(), name="operator", inbox=inbox)
            except OSError as error:
                log.info("bus.waiting", error=type(error).__name__)
                await asyncio.sleep(_RETRY_SECONDS / 4)

    async def _keys(self) -> bootstrap.Keys:
        while True:
            try:
                keys = await bootstrap.load_keys(self._client, self._settings)
                if keys is not None:
                    return keys
            except ClusterError as error:
                log.warning("keys.waiting", error=error.message[:200])
            await asyncio.sleep(_RETRY_SECONDS / 10)

    async def _lead(self, connected: asyncio.Task[_Bus]) -> None:
        """Do what only one replica does."""
        self._shared.memories.forget_all()
        self._shared.to_purge.clear()
        self._shared.leading = True
        self._shared.warm.lead()
        await self._bootstrap()
        bus = await asyncio.shield(connected)
        await bootstrap.make_streams(bus.client)
        store = service_store_client(bus.client, Role.OPERATOR.value)
        spending, secrets = Spending(store, self._shared), SecretWatch(self._client, self._shared)
        self._workers = self._build_workers(bus, store, spending, secrets)
        await self._synced.wait()
        await self._read_projections(bus.door)
        sweep = Sweep(bus.door, bus.mail, store, self._shared, self._observer, self._settings.sweep_seconds)
        await sweep.once()
        for profile in self._shared.cache.profiles.all():
            self._shared.queue.add(profile_key(profile.namespace, profile.name))
        for session in self._shared.cache.sessions.all():
            self._shared.queue.add(session_key(session.namespace, session.name))
        for job in self._shared.cache.cron_jobs.all():
            self._shared.queue.add(cron_key(job.namespace, job.name))
        for tenant in self._settings.tenants:
            self._shared.queue.add(pool_key(tenant))
        log.info("leader.working", sessions=len(self._shared.cache.sessions.all()))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._workers.run())
            group.create_task(sweep.run())
            group.create_task(secrets.run())
            group.create_task(spending.run())
            callers = Callers(self._shared, store)
            desk = Desk(self._client, frozenset(self._settings.tenants), callers, lambda: datetime.now(UTC))
            group.create_task(serve_jobs(bus.client, desk))
            group.create_task(self._gone_namespaces(bus, store).run())

    async def _bootstrap(self) -> None:
        while True:
            try:
                await bootstrap.make_secrets(self._client, self._settings)
                await bootstrap.make_first_profile(self._client, self._settings)
            except ClusterError as error:
                log.warning("bootstrap.waiting", error=error.message[:300])
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    def _gone_namespaces(self, bus: _Bus, store: StoreClient) -> GoneNamespaces:
        async def exists(name: str) -> bool:
            return await self._client.get(NAMESPACES, "", name) is not None

        settings = self._settings
        purge = Undertaker(store, bus.mail).purge
        return GoneNamespaces(store, exists, purge, settings.gone_namespace_seconds, settings.gone_check_seconds)

    def _build_workers(self, bus: _Bus, store: StoreClient, spending: Spending, secrets: SecretWatch) -> Workers:
        settings, shared, installation = self._settings, self._shared, bus.surroundings.installation
        events = EventRecorder(self._client, settings.pod_name, time.monotonic)
        undertaker = Undertaker(store, bus.mail)
        minter = bus.keys.minter
        claims = Claims(self._client, bus.door, shared, installation, minter)
        launcher = Launcher(self._client, bus.door, store, shared, installation, minter, events, undertaker, claims)
        limits = Limits(
            asleep_ttl=settings.asleep_ttl_seconds,
            renew=settings.renew_seconds,
            silence=settings.silence_seconds,
            bury=settings.bury_seconds,
            bury_suspended=settings.bury_suspended_seconds,
        )
        self._admissions.forget_all()
        sessions = SessionPass(
            client=self._client,
            bus=bus.door,
            store=store,
            shared=shared,
            installation=installation,
            namespaces=self._namespaces,
            launcher=launcher,
            events=events,
            mail=bus.mail,
            admissions=self._admissions,
            limits=limits,
        )
        profiles = ProfilePass(self._client, bus.door, shared, installation, self._namespaces, events, secrets, spending)
        crons = CronPass(
            client=self._client,
            bus=bus.door,
            store=store,
            shared=shared,
            namespaces=self._namespaces,
            events=events,
            post=Post(bus.client.jetstream(), Signer(bus.keys.gateway_seed)),
            wake=self._observer.wake,
            clock_skew=lambda: self._client.clock_skew,
        )
        tenants = frozenset(settings.tenants)
        arrivals = ArrivalPass(self._client, bus.door, shared, self._namespaces, tenants, undertaker, settings.bury_seconds)

        async def gone(key: Key) -> None:
            await bus.door.delete_consumer(key.namespace, int(key.name))

        passes = {
            "session": sessions.run,
            "profile": profiles.run,
            "cron": crons.run,
            "arrival": arrivals.run,
            "purge": PurgePass(shared, undertaker).run,
            "gone": gone,
            "pool": PoolPass(self._client, shared, installation, minter, events).run,
            "handover": HandoverPass(self._client, bus.door, shared, claims, launcher.facts_of).run,
        }
        return Workers(shared.queue, passes, settings.workers)

    async def _read_projections(self, door: BusDoor) -> None:
        """Learn what the bucket holds, and remove the entries of Profiles that went while nobody looked."""
        while True:
            try:
                found = await door.projections()
                break
            except HermesError as error:
                log.warning("projections.waiting", error=error.message[:200])
                await asyncio.sleep(_RETRY_SECONDS)
        self._shared.projections.clear()
        for name, data in found.items():
            namespace, _, profile = name.partition(".")
            if self._shared.cache.profiles.get(namespace, profile) is None:
                self._shared.queue.add(profile_key(namespace, profile))
            with contextlib.suppress(ValueError):
                self._shared.projections[name] = ProfileProjection.model_validate_json(data)


class _Stopped(Exception):
    """A signal asked for the end."""


class _Bus:
    def __init__(self, client: Client, door: BusDoor, mail: Mail, keys: bootstrap.Keys, surroundings: Surroundings) -> None:
        self.client = client
        self.door = door
        self.mail = mail
        self.keys = keys
        self.surroundings = surroundings


def _end_at_once() -> None:
    """End without a word to anyone: nothing that runs here may act any more."""
    os._exit(1)


async def run(settings: OperatorSettings) -> None:
    """Run one replica with these settings."""
    configure_tracing("hermes-operator", settings.trace_endpoint)
    operations = Operations()
    reach = Reach(settings.namespace, frozenset(settings.tenants))
    async with (
        operations.serve(settings.operations_host, settings.operations_port),
        ClusterClient.open(settings.kubeconfig, reach) as client,
    ):
        await Operator(settings, client, operations, _end_at_once).run()
