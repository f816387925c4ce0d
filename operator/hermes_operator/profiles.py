"""A Profile's pass: examines it, writes its status and projection, keeps its namespace's NetworkPolicies."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from hermes_contracts import projection as projections
from hermes_contracts.names import API_VERSION
from hermes_operator.build.facts import Installation
from hermes_operator.build.meta import ANNOTATION_TEMPLATE
from hermes_operator.build.network_policy import EGRESS_CLASSES, build_policy
from hermes_operator.bus import BusDoor
from hermes_operator.cluster.client import ClusterClient, Manifest
from hermes_operator.cluster.errors import ClusterError
from hermes_operator.cluster.events import EventRecorder
from hermes_operator.cluster.resources import NETWORK_POLICIES, PROFILES
from hermes_operator.cluster.views import ProfileView
from hermes_operator.namespaces import Namespaces
from hermes_operator.pool.manifests import class_of, eligible
from hermes_operator.reconcile.conditions import turned_bad
from hermes_operator.reconcile.model import Unknown
from hermes_operator.reconcile.profile import (
    COUNTS_SECONDS,
    ObservedProfile,
    ProfilePlan,
    decide_profile,
    worth_writing,
)
from hermes_operator.reconcile.provider_secrets import SecretState, uses
from hermes_operator.secret_watch import SecretWatch
from hermes_operator.spending import Spending
from hermes_operator.state import Key, Shared, pool_key, profile_key, session_key

log = structlog.get_logger()

_POLICY_FRESH_SECONDS = 600.0


@dataclass(frozen=True)
class ProfilePass:
    """Runs passes over Profiles. All collaborators are handed in."""

    client: ClusterClient
    bus: BusDoor
    shared: Shared
    installation: Callable[[], Installation]
    namespaces: Namespaces
    events: EventRecorder
    secrets: SecretWatch
    spending: Spending
    wall_clock: Callable[[], float] = time.time
    _policies: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)
    _written_at: dict[str, float] = field(default_factory=dict)

    async def run(self, key: Key) -> float | None:
        """Run one pass; returns when to look again, in wall-clock seconds. Raises HermesError to be tried again."""
        view = self.shared.cache.profiles.get(key.namespace, key.name)
        if view is None or view.deleting:
            await self._gone(key)
            return None
        observed = await self.observe(view)
        now = self.wall_clock()
        plan = decide_profile(observed, now)
        await self._apply(view, plan)
        return min(plan.due, await self._say(view, plan, now))

    async def observe(self, view: ProfileView) -> ObservedProfile:
        """Read what is said of a Profile."""
        facts = await self.namespaces.get(view.namespace)
        sessions = self.shared.cache.sessions_of(view.namespace, view.name)
        live = sum(1 for session in sessions if session.pod)
        return ObservedProfile(
            view=view,
            namespace_uid=facts.uid,
            namespace_restricted=facts.restricted,
            secrets=await self._secrets(view),
            live_sessions=live,
            asleep_sessions=len(sessions) - live,
            warm_pods=self._warm_pods(view),
            policies=await self._ensure_policies(view.namespace),
            rivals=tuple(
                (other.created_at, other.name, other.spec.channels) for other in self._claimants(view.namespace, view.name)
            ),
            spend=self.spending.of(view.namespace, view.name),
        )

    def _claimants(self, namespace: str, but: str) -> list[ProfileView]:
        """Return the other Profiles of a namespace that claim chats."""
        profiles = self.shared.cache.profiles.all()
        same = (other for other in profiles if other.namespace == namespace and other.name != but)
        return [other for other in same if other.spec.channels and not other.deleting]

    def _look_at_claimants(self, namespace: str, but: str) -> None:
        for other in self._claimants(namespace, but):
            self.shared.queue.add(profile_key(other.namespace, other.name))

    def _warm_pods(self, view: ProfileView) -> int:
        """Count the pods that have started everything and may become a session of this Profile."""
        if not eligible(view.spec):
            return 0
        group = class_of(self.installation(), view.namespace, view.spec)
        waiting = (p for p in self.shared.cache.warm.all() if p.namespace == view.namespace and p.group == group)
        return sum(1 for pod in waiting if not pod.deleting and self.shared.warm.hello(pod.uid) is not None)

    async def _secrets(self, view: ProfileView) -> dict[str, SecretState]:
        names = sorted({use.secret for use in uses(view.spec) if use.secret})
        return {name: await self.secrets.state(view.namespace, name) for name in names}

    async def _ensure_policies(self, namespace: str) -> Unknown | None:
        try:
            for egress in EGRESS_CLASSES:
                await self._ensure_policy(namespace, egress)
        except ClusterError as error:
            return Unknown(error.message)
        return None

    async def _ensure_policy(self, namespace: str, egress: str) -> None:
        manifest = build_policy(self.installation(), namespace, egress)
        wanted = manifest["metadata"]["annotations"][ANNOTATION_TEMPLATE]
        known, seen_at = self._policies.get((namespace, egress), ("", 0.0))
        now = self.wall_clock()
        if known == wanted and now - seen_at < _POLICY_FRESH_SECONDS:
            return
        found = await self.client.get(NETWORK_POLICIES, namespace, manifest["metadata"]["name"])
        if found is None or found["spec"] != _as_stored(manifest["spec"]) or _template(found) != wanted:
            await self.client.apply(NETWORK_POLICIES, manifest)
        self._policies[(namespace, egress)] = (wanted, now)

    async def _apply(self, view: ProfileView, plan: ProfilePlan) -> None:
        if plan.projection is not None:
            name = projections.key(view.namespace, view.name)
            if self.shared.projections.get(name) != plan.projection:
                await self.bus.put_projection(plan.projection)
                before = self.shared.projections.get(name)
                self.shared.projections[name] = plan.projection
                if plan.projection.channels != (before.channels if before is not None else ()):
                    self._look_at_claimants(view.namespace, view.name)
        if plan.verdict is not None and self.shared.verdicts.get((view.namespace, view.name)) != plan.verdict:
            self.shared.verdicts[(view.namespace, view.name)] = plan.verdict
            self._look_at_sessions(view.namespace, view.name)
            self.shared.queue.add(pool_key(view.namespace))

    async def _say(self, view: ProfileView, plan: ProfilePlan, now: float) -> float:
        """Write the status when it is worth it; returns when a smaller difference will be."""
        # A Profile seen for the first time may have been written a moment ago, by whoever acted before.
        written_at = self._written_at.setdefault(view.uid, now)
        if plan.status == view.status:
            return plan.due
        if not worth_writing(view.status, plan.status, written_at, now):
            return written_at + COUNTS_SECONDS
        body = await self.client.apply(
            PROFILES.status,
            {
                "apiVersion": API_VERSION,
                "kind": "Profile",
                "metadata": {"name": view.name, "namespace": view.namespace},
                "status": plan.status.model_dump(mode="json", by_alias=True, exclude_none=True),
            },
        )
        self._written_at[view.uid] = now
        self.shared.cache.profiles.put(ProfileView.read(body))
        for condition in turned_bad(view.status.conditions, plan.status.conditions):
            await self.events.post(view, "Warning", condition.reason, condition.message)
        return plan.due

    async def _gone(self, key: Key) -> None:
        name = projections.key(key.namespace, key.name)
        await self.bus.delete_projection(name)
        gone = self.shared.projections.pop(name, None)
        if gone is not None and gone.channels:
            self._look_at_claimants(key.namespace, key.name)
        if self.shared.verdicts.pop((key.namespace, key.name), None) is not None:
            self._look_at_sessions(key.namespace, key.name)
            self.shared.queue.add(pool_key(key.namespace))

    def _look_at_sessions(self, namespace: str, name: str) -> None:
        for session in self.shared.cache.sessions_of(namespace, name):
            self.shared.queue.add(session_key(session.namespace, session.name))


def _template(body: Manifest) -> str:
    return str((body["metadata"].get("annotations") or {}).get(ANNOTATION_TEMPLATE, ""))


def _as_stored(spec: Manifest) -> Manifest:
    """Return a policy's spec as the API server gives it back: it drops empty lists."""
    return {name: value for name, value in spec.items() if value != []}
