"""Turns what is seen of waiting pods and heard from them into cache entries, the board and keys. Decides nothing."""

from __future__ import annotations

from dataclasses import dataclass

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from pydantic import ValidationError

from hermes_contracts import subjects
from hermes_contracts.warm_pool import Hello
from hermes_operator.cluster.client import Manifest
from hermes_operator.pool.warm import WarmPod
from hermes_operator.state import Shared, handover_key, pool_key, profile_key

log = structlog.get_logger()

HELLOS = subjects.warm_hello("*")


@dataclass(frozen=True)
class WarmObserver:
    """Takes events of pods without a session, and their hellos."""

    shared: Shared

    def take(self, event: str | None, body: Manifest) -> bool:
        """Take an event about a waiting pod; tells whether it was news."""
        try:
            pod = WarmPod.read(body)
        except KeyError:
            return False
        if event == "DELETED":
            return self.drop(pod.namespace, pod.name, pod.uid)
        if not self.shared.cache.put_warm(pod):
            return False
        self._look_at(pod)
        return True

    def drop(self, namespace: str, name: str, uid: str) -> bool:
        """Take that a waiting pod is gone; tells whether it was news."""
        change = self.shared.cache.warm.drop(namespace, name, uid)
        if change is None or change.before is None:
            return False
        self._look_at(change.before)
        return True

    async def listen(self, bus: Client) -> None:
        """Subscribe to hellos. Every operator hears all of them."""
        await bus.subscribe(HELLOS, cb=self._take_hello)

    async def _take_hello(self, message: Msg) -> None:
        uid = message.subject.rsplit(".", 1)[1]
        try:
            hello = Hello.model_validate_json(message.data)
        except ValidationError as error:
            log.warning("hello.unreadable", pod_uid=uid, problems=error.error_count())
            return
        self.hello(uid, hello)

    def hello(self, uid: str, hello: Hello) -> None:
        """Take a pod's word on itself; the bus has made sure whose it is."""
        news = self.shared.warm.take(uid, hello)
        claimed = self.shared.cache.claimed_pod(uid)
        if claimed is not None:
            # It says so still, so it does not know: whoever claimed it may be gone.
            if not hello.accepted:
                self.shared.queue.add(handover_key(claimed.namespace, claimed.name))
            return
        waiting = self.shared.cache.waiting_pod(uid) if news else None
        if waiting is not None:
            log.info("warm.ready", pod=waiting.name, namespace=waiting.namespace)
            self.shared.warm.made(waiting.namespace, waiting.group)
            self._look_at(waiting)

    def _look_at(self, pod: WarmPod) -> None:
        self.shared.queue.add(pool_key(pod.namespace))
        for name in pod.profiles:
            self.shared.queue.add_at(profile_key(pod.namespace, name), self.shared.warm.wall_clock() + 1.0)
