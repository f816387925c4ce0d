"""Lists everything now and then and compares it with what the watches showed: the net under a watch that died silently."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from hermes_operator import metrics
from hermes_operator.cluster.cache import Shelf
from hermes_operator.cluster.client import ClusterClient, Manifest
from hermes_operator.cluster.resources import PODS, PROFILES, SESSIONS, Resource
from hermes_operator.cluster.views import PodView, ProfileView, SessionView
from hermes_operator.observer import Identity, Observer
from hermes_operator.state import Shared
from hermes_operator.watch import POD_SELECTOR

log = structlog.get_logger()

_GRACE_SECONDS = 5.0
_STALE_LIMIT = 2
"""Resyncs in a row that found what the watch had not shown; then the process asks to be restarted."""


@dataclass(frozen=True)
class _Kind:
    resource: Resource
    take: Callable[[str | None, Manifest], bool]
    known: Callable[[], list[Identity]]
    drop: Callable[[Identity], bool]


def _identities(shelf: Shelf[PodView] | Shelf[ProfileView] | Shelf[SessionView]) -> list[Identity]:
    return [(item.namespace, item.name, item.uid) for item in shelf.all()]


def _identity(body: Manifest) -> Identity:
    meta = body["metadata"]
    return meta["namespace"], meta["name"], meta["uid"]


@dataclass
class Resync:
    """Fills the cache at start and checks it later."""

    client: ClusterClient
    shared: Shared
    observer: Observer
    tenants: tuple[str, ...]
    stale_in_a_row: int = 0

    async def fill(self) -> None:
        """Take every object as a list shows it. Raises ClusterError."""
        # Profiles first and sessions before pods: a pass finds what it refers to.
        for kind in self._kinds():
            for body in await self._bodies(kind.resource):
                kind.take(None, body)
        self.shared.cache.synced = True

    async def check(self) -> None:
        """List again; whatever the watch has not shown after a moment counts as missed and is taken from the list."""
        missed = 0
        for kind in self._kinds():
            bodies = await self._bodies(kind.resource)
            await asyncio.sleep(_GRACE_SECONDS)
            missed += sum(kind.take(None, body) for body in bodies)
            missed += await self._drop_missing(kind, {_identity(body) for body in bodies})
        metrics.WATCH_STALE.inc(missed)
        self.stale_in_a_row = self.stale_in_a_row + 1 if missed else 0
        log.info("resync.done", missed=missed)

    def problem(self) -> str | None:
        """Return what is wrong with the watches, or None."""
        if self.stale_in_a_row >= _STALE_LIMIT:
            return "the watches have missed changes twice in a row"
        return None

    async def _drop_missing(self, kind: _Kind, present: set[Identity]) -> int:
        """Take the deletion of what the list did not show, asking for each: it may be newer than the list."""
        missed = 0
        for namespace, name, uid in kind.known():
            if (namespace, name, uid) in present:
                continue
            body = await self.client.get(kind.resource, namespace, name)
            if body is not None and body["metadata"]["uid"] == uid:
                continue
            missed += kind.drop((namespace, name, uid))
        return missed

    def _kinds(self) -> list[_Kind]:
        cache, observer = self.shared.cache, self.observer
        return [
            _Kind(PROFILES, observer.take_profile, lambda: _identities(cache.profiles), observer.drop_profile),
            _Kind(SESSIONS, observer.take_session, lambda: _identities(cache.sessions), observer.drop_session),
            _Kind(PODS, observer.take_pod, lambda: _identities(cache.pods), observer.drop_pod),
        ]

    async def _bodies(self, resource: Resource) -> list[Manifest]:
        labels = POD_SELECTOR if resource is PODS else ""
        return [body for ns in self.tenants for body in await self.client.list(resource, ns, labels=labels)]
