"""Makes the object of a session whose first message has arrived, or whose object is gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from hermes_contracts.crd.base import ObjectRef
from hermes_contracts.crd.session import SessionSpec
from hermes_contracts.envelopes import Route
from hermes_contracts.names import API_VERSION, CRON_CHANNEL, session_id, session_object_name
from hermes_operator.build.meta import session_labels
from hermes_operator.bus import Arrival, BusDoor
from hermes_operator.cluster.client import ClusterClient, Manifest
from hermes_operator.cluster.errors import ClusterError
from hermes_operator.cluster.resources import SESSIONS
from hermes_operator.cluster.views import SessionView
from hermes_operator.namespaces import Namespaces
from hermes_operator.reconcile.session import PROFILE_GONE
from hermes_operator.state import Key, Shared, session_key
from hermes_operator.undertaker import Undertaker

log = structlog.get_logger()

_LOOK_AGAIN_SECONDS = 30.0


@dataclass(frozen=True)
class Problem:
    """Why a message makes no session: a word for the dead letter, a sentence for the log."""

    reason: str
    text: str


@dataclass(frozen=True)
class ArrivalPass:
    """Runs passes over session ids that have messages and no object."""

    client: ClusterClient
    bus: BusDoor
    shared: Shared
    namespaces: Namespaces
    tenants: frozenset[str]
    undertaker: Undertaker
    bury_seconds: float
    wall_clock: Callable[[], float] = time.time

    async def run(self, key: Key) -> float | None:
        """Run one pass; returns when to look again. Raises HermesError to be tried again."""
        sid, cache = key.name, self.shared.cache
        known = cache.session_of(sid)
        if known is not None:
            self.shared.queue.add(session_key(known.namespace, known.name))
            return None
        if sid in self.shared.to_purge:
            return self.wall_clock() + _LOOK_AGAIN_SECONDS
        arrival = await self.bus.first_arrival(sid)
        if arrival is None:
            # Messages wait and none of them is the gateway's: they go when they are old, with nobody to tell.
            await self.undertaker.bury(sid, self.wall_clock() - self.bury_seconds, "unsigned")
            return None
        route = arrival.route
        problem = await self._problem(route)
        if problem is not None:
            return await self._refuse(sid, arrival, problem)
        session = SessionView.read(await self.client.apply(SESSIONS, build_session(route)))
        cache.sessions.put(session.record())
        cache.bind(sid, session.namespace, session.name)
        log.info("session.made", sid=sid, namespace=session.namespace, session=session.name)
        self.shared.queue.add(session_key(session.namespace, session.name))
        return None

    async def _refuse(self, sid: str, arrival: Arrival, problem: Problem) -> float:
        """Let messages wait for what is missing, which may come back, and give those up that waited long enough."""
        now = self.wall_clock()
        log.warning("arrival.refused", sid=sid, problem=problem.text)
        if now - arrival.at >= self.bury_seconds:
            await self.undertaker.bury(sid, now - self.bury_seconds, problem.reason)
            return now + _LOOK_AGAIN_SECONDS
        return min(now + _LOOK_AGAIN_SECONDS, arrival.at + self.bury_seconds)

    async def _problem(self, route: Route) -> Problem | None:
        """Return why a route makes no session, or None. The gateway signed it; that does not make it true for ever."""
        if route.namespace not in self.tenants:
            return Problem("not_routable", f"namespace {route.namespace} is no tenant")
        try:
            facts = await self.namespaces.get(route.namespace)
        except ClusterError as error:
            if error.status != 404:
                raise
            return Problem("not_routable", f"namespace {route.namespace} does not exist")
        if session_id(facts.uid, route.profile, route.key) != route.sid:
            return Problem("not_routable", "its id is not derived from this namespace, Profile and key")
        if route.key.channel == CRON_CHANNEL:
            # Only the job makes these objects, before it sends anything: somebody deleted it.
            return Problem("run_deleted", "the scheduled run was deleted")
        if self.shared.cache.synced and self.shared.cache.profiles.get(route.namespace, route.profile) is None:
            return Problem(PROFILE_GONE, f"there is no Profile {route.profile}")
        name = session_object_name(route.profile, route.key)
        found = self.shared.cache.sessions.get(route.namespace, name)
        if found is not None and found.view().spec.key != route.key:
            return Problem("not_routable", f"HermesSession {name} has another key")
        return None


def build_session(route: Route) -> Manifest:
    """Return the object of a session that a message makes."""
    spec = SessionSpec(profile_ref=ObjectRef(name=route.profile), key=route.key, owner=route.owner)
    return {
        "apiVersion": API_VERSION,
        "kind": "HermesSession",
        "metadata": {
            "name": session_object_name(route.profile, route.key),
            "namespace": route.namespace,
            "labels": session_labels(route.sid, route.profile),
        },
        "spec": spec.model_dump(mode="json", by_alias=True, include={"profile_ref", "key", "owner"}),
    }
