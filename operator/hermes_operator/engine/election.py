"""Leader election on a coordination Lease: one replica acts, the other is ready to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from hermes_operator import metrics
from hermes_operator.cluster.client import ClusterClient, Manifest
from hermes_operator.cluster.errors import ClusterError
from hermes_operator.cluster.resources import LEASES
from hermes_service.cancelling import cancel_until_done

log = structlog.get_logger()


@dataclass(frozen=True)
class LeaseTerms:
    """How long a lease holds without renewal; it is renewed at a fifth of that and given up at two thirds."""

    namespace: str
    name: str
    identity: str
    seconds: int = 10

    @property
    def retry_seconds(self) -> float:
        """Pause between attempts to get or to renew it."""
        return self.seconds / 7.5

    @property
    def stop_seconds(self) -> float:
        """What the leader's work gets to end: whoever comes next may act a third of the lease after we gave it up."""
        return self.seconds / 5


async def while_leading(
    lost: asyncio.Event, work: Coroutine[Any, Any, None], *, stop_seconds: float, abandon: Callable[[], None]
) -> None:
    """Run `work` until it ends or the lease is lost, and return only when it has stopped.

    What has not ended `stop_seconds` after it was cancelled is left to `abandon`, which ends the process: two replicas must
    never act at once.
    """
    task, loss = asyncio.create_task(work), asyncio.create_task(lost.wait())
    try:
        await asyncio.wait({task, loss}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        loss.cancel()
        if not await cancel_until_done(task, seconds=stop_seconds):
            log.error("leader.work_goes_on", seconds=stop_seconds)
            abandon()
    if task.done() and not task.cancelled():
        task.result()


class Elector:
    """Gets, keeps and gives back the lease. Another holder's time is measured on our clock, from when we saw it change."""

    def __init__(self, client: ClusterClient, terms: LeaseTerms, clock: Callable[[], float]) -> None:
        self._client = client
        self._terms = terms
        self._clock = clock
        self._seen: tuple[str, str] = ("", "")
        self._seen_at = 0.0
        self._renewed_at = 0.0
        self._lease: Manifest | None = None
        self.leading = False

    @asynccontextmanager
    async def lead(self) -> AsyncIterator[asyncio.Event]:
        """Wait for the lease, then hold it; the event is set when it is lost. Gives it back at the end."""
        while not await self._try():  # noqa: ASYNC110
            await asyncio.sleep(self._terms.retry_seconds)  # the API server has to be asked, it does not tell
        self.leading = True
        metrics.LEADER.set(1)
        log.info("leader.acquired", identity=self._terms.identity)
        lost = asyncio.Event()
        keeper = asyncio.create_task(self._keep(lost))
        try:
            yield lost
        finally:
            self.leading = False
            metrics.LEADER.set(0)
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeper
            await self._release()

    async def _keep(self, lost: asyncio.Event) -> None:
        while True:
            await asyncio.sleep(self._terms.retry_seconds)
            if await self._try():
                continue
            if self._seen[0] != self._terms.identity or self._clock() - self._renewed_at > self._terms.seconds * 2 / 3:
                log.warning("leader.lost", identity=self._terms.identity)
                lost.set()
                return

    async def _try(self) -> bool:
        asked_at = self._clock()
        try:
            async with asyncio.timeout(self._terms.seconds / 3):
                got = await self._acquire_or_renew()
        except (ClusterError, TimeoutError) as error:
            log.warning("leader.attempt_failed", error=f"{type(error).__name__}: {error}"[:200])
            return False
        if got:
            # From before the request: another replica counts from when the answer was written, which is later.
            self._renewed_at = asked_at
        return got

    async def _acquire_or_renew(self) -> bool:
        found = await self._client.get(LEASES, self._terms.namespace, self._terms.name)
        if found is None:
            self._lease = await self._client.create(LEASES, self._manifest({}, {}))
            self._seen = (self._terms.identity, "")
            return True
        spec = found.get("spec") or {}
        holder, renewed = spec.get("holderIdentity") or "", spec.get("renewTime") or ""
        if (holder, renewed) != self._seen:
            self._seen, self._seen_at = (holder, renewed), self._clock()
        mine = holder == self._terms.identity
        expired = self._clock() - self._seen_at > (spec.get("leaseDurationSeconds") or self._terms.seconds)
        if holder and not mine and not expired:
            return False
        self._lease = await self._client.replace(LEASES, self._manifest(found["metadata"], spec))
        self._seen = (self._terms.identity, self._lease["spec"]["renewTime"])
        return True

    def _manifest(self, meta: dict[str, Any], spec: dict[str, Any]) -> Manifest:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        mine = spec.get("holderIdentity") == self._terms.identity
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self._terms.name,
                "namespace": self._terms.namespace,
                **({"resourceVersion": meta["resourceVersion"]} if "resourceVersion" in meta else {}),
            },
            "spec": {
                "holderIdentity": self._terms.identity,
                "leaseDurationSeconds": self._terms.seconds,
                "acquireTime": spec.get("acquireTime", now) if mine else now,
                "renewTime": now,
                "leaseTransitions": (spec.get("leaseTransitions") or 0) + (1 if spec and not mine else 0),
            },
        }

    async def _release(self) -> None:
        """Name no holder, so that the other replica need not wait for the lease to run out."""
        if self._lease is None or self._seen[0] != self._terms.identity:
            return
        lease = {**self._lease, "spec": {**self._lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}}
        try:
            async with asyncio.timeout(3):
                await self._client.replace(LEASES, lease)
                log.info("leader.released", identity=self._terms.identity)
        except (ClusterError, TimeoutError) as error:
            log.warning("leader.release_failed", error=f"{type(error).__name__}: {error}"[:200])
