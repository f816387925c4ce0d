"""Makes a waiting pod a session's: one patch that only one of many can win, then an identity that only that pod can read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from hermes_contracts.warm_pool import Hello, Identity, Sealed
from hermes_operator import metrics
from hermes_operator.build.facts import Epoch, Installation
from hermes_operator.build.secret import agent_config
from hermes_operator.bus import BusDoor
from hermes_operator.cluster.client import ClusterClient
from hermes_operator.cluster.errors import ClusterError
from hermes_operator.cluster.resources import PODS
from hermes_operator.cluster.views import PodView
from hermes_operator.credentials import Minter
from hermes_operator.pool.manifests import claim_patch, class_of, eligible
from hermes_operator.pool.warm import WarmPod
from hermes_operator.state import Shared, handover_key, pool_key
from hermes_service.sealing import SealError, seal

log = structlog.get_logger()

REPEAT_SECONDS = 0.25
"""Between hand-overs until one is acknowledged."""
_MAX_TRIES = 3


@dataclass(frozen=True)
class Claims:
    """Finds, claims and hands over. Holds nothing: what it knows is on the board and in the cache."""

    client: ClusterClient
    bus: BusDoor
    shared: Shared
    installation: Callable[[], Installation]
    minter: Minter

    def candidates(self, facts: Epoch) -> list[WarmPod]:
        """Return the pods that a session may become, the longest waiting first."""
        if not eligible(facts.profile):
            return []
        group, board = class_of(self.installation(), facts.namespace, facts.profile), self.shared.warm
        found = [
            pod
            for pod in self.shared.cache.warm.all()
            if pod.namespace == facts.namespace and pod.group == group and not pod.deleting and not pod.broken
        ]
        free = [pod for pod in found if board.hello(pod.uid) is not None and pod.uid not in board.reserved]
        if not free:
            metrics.WARM_CLAIMS.labels("empty").inc()
        return sorted(free, key=lambda pod: (pod.created_at, pod.uid))

    async def claim(self, facts: Epoch) -> PodView | None:
        """Return the pod that is the session's from now on, or None for a start in the usual way.

        Raises ClusterError when it cannot be known whether a claim was made: the epoch is then used up.
        """
        for pod in self.candidates(facts)[:_MAX_TRIES]:
            hello = self.shared.warm.hello(pod.uid)
            if hello is None or pod.uid in self.shared.warm.reserved:
                continue
            self.shared.warm.reserved.add(pod.uid)
            try:
                claimed = await self._patch(pod, facts, hello)
            finally:
                self.shared.warm.reserved.discard(pod.uid)
            if claimed is not None:
                return claimed
        return None

    async def _patch(self, pod: WarmPod, facts: Epoch, hello: Hello) -> PodView | None:
        try:
            body = await self.client.merge(PODS, claim_patch(pod, facts, hello.bus_key))
        except ClusterError as error:
            if error.status not in (404, 409, 422):
                raise
            # Somebody has changed it meanwhile, if only the kubelet its status: the watch will show what it is now.
            metrics.WARM_CLAIMS.labels("lost").inc()
            log.info("warm.lost", pod=pod.name, status=error.status)
            return None
        metrics.WARM_CLAIMS.labels("claimed").inc()
        claimed = PodView.read(body)
        self.shared.cache.claim(claimed)
        self.shared.warm.claimed(pod.namespace, pod.group)
        self.shared.queue.add(pool_key(pod.namespace))
        log.info("warm.claimed", pod=pod.name, sid=facts.sid, epoch=facts.epoch)
        return claimed

    async def hand_over(self, facts: Epoch, pod: PodView) -> None:
        """Send a claimed pod its identity once, and see to it that it is sent again. Raises HermesError."""
        hello = self.shared.warm.hello(pod.uid)
        if hello is None or hello.bus_key != pod.bus_key:
            return
        identity = Identity(
            config=agent_config(self.installation(), facts),
            bus_jwt=self.minter.bus_jwt(facts.sid, facts.epoch, pod.bus_key),
            models_token=self.minter.models_token(
                sid=facts.sid, epoch=facts.epoch, namespace=facts.namespace, profile=facts.profile_name
            ),
        )
        try:
            box = seal(hello.seal_key, identity.model_dump_json().encode())
        except SealError:
            log.warning("warm.bad_key", pod=pod.name)
            return
        self.shared.warm.sent(pod.uid)
        await self.bus.hand_over(pod.uid, Sealed(box=box))
        when = self.shared.warm.wall_clock() + REPEAT_SECONDS
        self.shared.queue.add_at(handover_key(pod.namespace, pod.name), when)
