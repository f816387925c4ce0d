"""Lists of everything that is watched: the first look, and the comparison with what the watches showed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from hermes_operator.cluster.client import ClusterClient, Manifest
from hermes_operator.observer import Identity
from hermes_operator.watched import Watched

log = structlog.get_logger()


@dataclass
class Lists:
    """The kinds in the tenants' namespaces, as the API server lists them."""

    client: ClusterClient
    kinds: tuple[Watched, ...]
    tenants: tuple[str, ...]

    async def fill(self) -> None:
        """Take every object as a list shows it, kind by kind in their order. Raises ClusterError."""
        for kind in self.kinds:
            for namespace in self.tenants:
                await self.take_list(kind, namespace)

    async def take_list(self, kind: Watched, namespace: str) -> int:
        """Take a list of one kind in one namespace, and what it does not show any more; returns how much was news."""
        known, present, news = kind.known(namespace), set[Identity](), 0
        async for page in self.client.pages(kind.resource, namespace, labels=kind.labels):
            for body in page.get("items") or []:
                present.add(_identity(body))
                news += take(kind, None, body)
        news += await self._drop_missing(kind, known, present)
        return news

    async def compare(self, kind: Watched, namespace: str, grace_seconds: float) -> int:
        """List, wait, and return how much of it the watch has not shown; that much is taken from the list."""
        bodies: list[Manifest] = []
        async for page in self.client.pages(kind.resource, namespace, labels=kind.labels):
            bodies += page.get("items") or []
        await asyncio.sleep(grace_seconds)
        news = sum(take(kind, None, body) for body in bodies)
        return news + await self._drop_missing(kind, kind.known(namespace), {_identity(body) for body in bodies})

    async def _drop_missing(self, kind: Watched, known: list[Identity], present: set[Identity]) -> int:
        """Take the deletion of what the list did not show, asking for each: it may be newer than the list."""
        news = 0
        for namespace, name, uid in known:
            if (namespace, name, uid) in present:
                continue
            body = await self.client.get(kind.resource, namespace, name)
            if body is None or body["metadata"]["uid"] != uid:
                news += kind.drop((namespace, name, uid))
        return news


def take(kind: Watched, what: str | None, body: Manifest) -> bool:
    """Take one object; one that nobody can read must not end the watch of all others."""
    try:
        return kind.take(what, body)
    except Exception:
        log.exception("watch.not_taken", resource=kind.resource.plural, name=body.get("metadata", {}).get("name"))
        return False


def _identity(body: Manifest) -> Identity:
    meta = body["metadata"]
    return meta["namespace"], meta["name"], meta["uid"]
