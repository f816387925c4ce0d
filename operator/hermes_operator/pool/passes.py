"""The pool's two passes: one keeps a namespace's waiting pods at their number, one repeats a hand-over until it is heard."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from hermes_contracts.errors import HermesError
from hermes_contracts.warm_pool import Waiting
from hermes_operator import metrics
from hermes_operator.build.facts import Epoch, Installation
from hermes_operator.bus import BusDoor
from hermes_operator.cluster.client import ClusterClient
from hermes_operator.cluster.errors import ClusterError, start_reason
from hermes_operator.cluster.events import EventRecorder
from hermes_operator.cluster.resources import PODS, SECRETS
from hermes_operator.cluster.views import PodView, ProfileView, SessionView
from hermes_operator.credentials import Minter
from hermes_operator.pool.claims import REPEAT_SECONDS, Claims
from hermes_operator.pool.decide import LOOK_AGAIN_SECONDS, decide_pool, merge
from hermes_operator.pool.manifests import build_bootstrap, build_warm_pod, class_of, eligible
from hermes_operator.pool.warm import Discard, ObservedPool, WarmPod
from hermes_operator.reconcile.model import ProfileVerdict
from hermes_operator.state import Key, Shared, session_key

log = structlog.get_logger()

GIVE_UP_SECONDS = 10.0
"""A claimed pod that has not acknowledged its identity by then is replaced under a new epoch."""
_GRACE_SECONDS = 1
"""A pod without an identity has nothing to finish."""


@dataclass(frozen=True)
class PoolPass:
    """Runs passes over the waiting pods of a namespace. All collaborators are handed in."""

    client: ClusterClient
    shared: Shared
    installation: Callable[[], Installation]
    minter: Minter
    events: EventRecorder
    wall_clock: Callable[[], float] = time.time

    async def run(self, key: Key) -> float | None:
        """Run one pass; returns when to look again. Raises HermesError to be tried again."""
        namespace, now = key.namespace, self.wall_clock()
        profiles = self._profiles(namespace)
        if profiles is None:
            return now + LOOK_AGAIN_SECONDS
        members: dict[str, list[ProfileView]] = {}
        wanted = list[tuple[str, int]]()
        for view in profiles:
            group = class_of(self.installation(), namespace, view.spec)
            members.setdefault(group, []).append(view)
            wanted.append((group, view.spec.warm_pool.size))
        board = self.shared.warm
        pods = tuple(pod for pod in self.shared.cache.warm.all() if pod.namespace == namespace)
        plan = decide_pool(
            ObservedPool(
                groups=merge(wanted, board.not_before(namespace)),
                pods=pods,
                heard=board.heard(),
                reserved=frozenset(board.reserved),
                listening_since=board.listening_since,
            ),
            now,
        )
        for discard in plan.discard:
            await self._discard(discard)
        for group in plan.make:
            await self._make(namespace, group, members[group])
        alive = {pod.uid for pod in self.shared.cache.warm.all()} | {pod.uid for pod in self.shared.cache.pods.all()}
        board.prune(alive)
        metrics.WARM_PODS.labels(namespace).set(sum(1 for pod in pods if pod.uid in board.heard() and not pod.deleting))
        return plan.due

    def _profiles(self, namespace: str) -> list[ProfileView] | None:
        """Return the Profiles that want waiting pods, or None while one of the namespace was not examined yet."""
        found = [view for view in self.shared.cache.profiles.all() if view.namespace == namespace and not view.deleting]
        if not self.shared.cache.synced:
            return None
        verdicts = self.shared.verdicts
        if any((namespace, view.name) not in verdicts for view in found):
            return None
        return sorted(
            (view for view in found if eligible(view.spec) and verdicts[(namespace, view.name)].ready),
            key=lambda view: view.name,
        )

    async def _discard(self, discard: Discard) -> None:
        pod = discard.pod
        log.info("warm.discarded", pod=pod.name, reason=discard.reason)
        # The version: a pod that was claimed meanwhile, by whoever led before, is no longer ours to delete.
        done = await self.client.delete(
            PODS, pod.namespace, pod.name, uid=pod.uid, version=pod.resource_version, grace_seconds=_GRACE_SECONDS
        )
        if not done:
            return
        self.shared.cache.warm.put(replace(pod, deleting=True, resource_version=pod.resource_version + "+"))
        if discard.failed:
            self.shared.warm.failed(pod.namespace, pod.group)

    async def _make(self, namespace: str, group: str, owners: list[ProfileView]) -> None:
        name = f"warm-{group[:8]}-{secrets.token_hex(4)}"
        manifest = build_warm_pod(
            self.installation(), namespace, name, owners[0].spec, [(view.name, view.uid) for view in owners]
        )
        try:
            pod = WarmPod.read(await self.client.create(PODS, manifest))
            self.shared.cache.warm.put(pod)
            installation = self.installation()
            waiting = Waiting(pod_uid=pod.uid, bus_url=installation.bus_url, models_url=installation.models_url)
            credentials = self.minter.warm_bus_user(pod.uid).render()
            # The kubelet waits for it: a pod's UID is not known before the pod is there.
            await self.client.create(SECRETS, build_bootstrap(pod, waiting, credentials))
        except ClusterError as error:
            self.shared.warm.failed(namespace, group)
            log.warning("warm.not_made", namespace=namespace, error=error.message[:300])
            await self.events.post(
                owners[0], "Warning", start_reason(error), f"a pod of the warm pool cannot be made: {error.message[:500]}"
            )


@dataclass(frozen=True)
class HandoverPass:
    """Runs passes over claimed pods that have not said yet that they know who they are."""

    client: ClusterClient
    bus: BusDoor
    shared: Shared
    claims: Claims
    facts: Callable[[SessionView, PodView, ProfileVerdict], Epoch]
    wall_clock: Callable[[], float] = time.time

    async def run(self, key: Key) -> float | None:
        """Run one pass; returns when to look again, None when there is nothing more to do."""
        pod = self.shared.cache.pods.get(key.namespace, key.name)
        if pod is None or pod.deleting or not pod.bus_key or self._knows(pod):
            return None
        now, board = self.wall_clock(), self.shared.warm
        hello, record = board.hello(pod.uid), self.shared.cache.session_of(pod.sid)
        restarted = hello is not None and hello.bus_key != pod.bus_key
        if restarted or (board.was_sent(pod.uid) and now - board.sent(pod.uid) > GIVE_UP_SECONDS):
            await self._replace(pod, "its agent started again" if restarted else "it did not answer")
            return None
        verdict = None if record is None else self.shared.verdicts.get((record.namespace, record.profile))
        if record is not None and verdict is not None:
            try:
                if not board.was_sent(pod.uid):
                    # Whoever claimed it may have gone before there was something to pull from.
                    await self.bus.make_consumer(pod.sid, pod.epoch)
                await self.claims.hand_over(self.facts(record.view(), pod, verdict), pod)
            except HermesError as error:
                log.info("warm.not_sent", pod=pod.name, error=error.message[:200])
        return now + REPEAT_SECONDS

    def _knows(self, pod: PodView) -> bool:
        record = self.shared.cache.session_of(pod.sid)
        word = self.shared.memories.get(record.uid).word if record is not None else None
        return self.shared.warm.accepted(pod.uid) or (word is not None and word.epoch >= pod.epoch)

    async def _replace(self, pod: PodView, why: str) -> None:
        """Delete the pod. Its session wants to start still, and does so under the next epoch."""
        metrics.WARM_CLAIMS.labels("unanswered").inc()
        log.warning("warm.replaced", pod=pod.name, sid=pod.sid, epoch=pod.epoch, why=why)
        await self.client.delete(PODS, pod.namespace, pod.name, uid=pod.uid, grace_seconds=_GRACE_SECONDS)
        self.shared.cache.put_pod(replace(pod, deleting=True, resource_version=pod.resource_version + "+"))
        session = self.shared.cache.session_of(pod.sid)
        if session is not None:
            self.shared.queue.add(session_key(session.namespace, session.name))
