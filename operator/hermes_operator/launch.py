"""Carries out plans for sessions: starts, drains, stops, renewals. Each step may be repeated."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from hermes_contracts.agent_config import BUS_CREDENTIALS_FILE
from hermes_contracts.envelopes import Credentials, Drain, Route
from hermes_contracts.errors import HermesError
from hermes_contracts.names import API_VERSION, FIELD_MANAGER, FINALIZER_PURGE, credentials_name, pod_name
from hermes_operator import metrics
from hermes_operator.build.claim import build_claim
from hermes_operator.build.facts import Epoch, Installation
from hermes_operator.build.pod import build_pod
from hermes_operator.build.secret import build_secret
from hermes_operator.bus import BusDoor
from hermes_operator.cluster.client import ClusterClient
from hermes_operator.cluster.errors import ClusterError, start_reason
from hermes_operator.cluster.events import EventRecorder
from hermes_operator.cluster.resources import CLAIMS, PODS, SECRETS, SESSIONS
from hermes_operator.cluster.views import PodView, SessionView
from hermes_operator.credentials import Minter
from hermes_operator.epochs import raise_epoch
from hermes_operator.pool.claims import Claims
from hermes_operator.reconcile import model
from hermes_operator.reconcile.model import Observed, ProfileVerdict, StartFailure
from hermes_operator.reconcile.session import CRASH_MEMORY_SECONDS, DRAIN_SLACK_SECONDS
from hermes_operator.state import Shared
from hermes_operator.undertaker import Undertaker
from hermes_service.bus import BusCredentials
from hermes_service.rpc import StoreClient

log = structlog.get_logger()

FINALIZER_MANAGER = f"{FIELD_MANAGER}-finalizer"
_MAX_FAILURE_SECONDS = 60.0
_REASONS = ("QuotaExceeded", "PodSecurityRefused", "NamespaceTerminating", "ServiceAccountMissing", "Forbidden",
            "PodInvalid", "ClusterUnavailable", "StoreUnavailable", "BusUnavailable")  # fmt: skip


def epoch_of(
    session: SessionView, sid: str, epoch: int, profile: ProfileVerdict, idle_seconds: int, created_at: float
) -> Epoch:
    """Return the facts that builders need."""
    return Epoch(
        namespace=session.namespace,
        session=session.name,
        session_uid=session.uid,
        sid=sid,
        epoch=epoch,
        profile_name=session.spec.profile_ref.name,
        profile=profile.spec,
        idle_timeout_seconds=idle_seconds,
        created_at=created_at,
    )


def route_of(session: SessionView, sid: str) -> Route:
    """Return what the store keeps of where a session lives and whose it is."""
    return Route(
        sid=sid,
        namespace=session.namespace,
        profile=session.spec.profile_ref.name,
        owner=session.spec.owner or f"object:{session.uid}",
        key=session.key(),
    )


@dataclass(frozen=True)
class Launcher:
    """Does what plans say."""

    client: ClusterClient
    bus: BusDoor
    store: StoreClient
    shared: Shared
    installation: Callable[[], Installation]
    minter: Minter
    events: EventRecorder
    undertaker: Undertaker
    claims: Claims
    wall_clock: Callable[[], float] = time.time

    async def start(self, observed: Observed, action: model.Start, idle_seconds: int) -> None:
        """Raise the epoch, make consumer, Secret and pod. A refusal is remembered and shown, and tried again later."""
        session = observed.session
        assert isinstance(observed.profile, ProfileVerdict)
        decided_at = self.wall_clock()
        self.shared.memories.change(session.uid, wants_start=True, drain=None, startup=None)
        component = "BusReady"
        try:
            number = await self._epoch(observed, action.expected)
            facts = epoch_of(session, observed.sid, number, observed.profile, idle_seconds, decided_at)
            if not await self._start_warm(facts):
                async with asyncio.TaskGroup() as group:
                    group.create_task(self.bus.make_consumer(observed.sid, number))
                    group.create_task(self._make_secret(facts))
                    group.create_task(self._make_claim(facts))
                component = "PodReady"
                await self._make_pod(facts)
        except* HermesError as group_error:
            self._refused(observed, component, _first(group_error))
        else:
            self.shared.memories.change(
                session.uid,
                failure=None,
                prepared_epoch=0,
                renewed_at=decided_at,
                started=(number, decided_at),
                scheduled_at=None,
            )
            if number > 1:
                await self._clean_up(session, number - 1)

    async def carry_out(self, observed: Observed, action: model.Action) -> None:
        """Do anything but a start. Raises HermesError to be tried again."""
        session = observed.session
        if isinstance(action, model.Stop):
            await self._stop(observed, action)
        elif isinstance(action, model.Drain):
            order = Drain(deadline_seconds=action.deadline_seconds)
            deadline = self.wall_clock() + action.deadline_seconds + action.saving_seconds + DRAIN_SLACK_SECONDS
            await self.bus.order(observed.sid, action.epoch, order)
            self.shared.memories.change(session.uid, drain=model.DrainOrder(action.epoch, deadline))
        elif isinstance(action, model.Renew):
            await self._renew(observed, action)
        elif isinstance(action, model.Resubscribe):
            await self.bus.make_consumer(observed.sid, action.epoch)
            self.shared.memories.change(session.uid, waiting_since=self.wall_clock())
            words = "messages waited for an agent that is idle: what hands them to it was made again on the bus"
            await self.events.post(session, "Warning", "MessagesNotTaken", words)
        elif isinstance(action, model.Bury):
            await self.undertaker.bury(observed.sid, action.before, action.reason)
        elif isinstance(action, model.Purge):
            await self.undertaker.purge(observed.sid)
        elif isinstance(action, model.Hold):
            await self._hold(session, held=action.held)
        elif isinstance(action, model.Forget):
            await self.client.delete(SESSIONS, session.namespace, session.name, uid=session.uid)

    async def _hold(self, session: SessionView, *, held: bool) -> None:
        """Set or take back our finalizer, under a manager of its own: the rest of the object stays whose it is."""
        meta = {"name": session.name, "namespace": session.namespace, "uid": session.uid}
        manifest = {
            "apiVersion": API_VERSION,
            "kind": "HermesSession",
            "metadata": {**meta, "finalizers": [FINALIZER_PURGE] if held else []},
        }
        try:
            body = await self.client.apply(SESSIONS, manifest, manager=FINALIZER_MANAGER)
        except ClusterError as error:
            if error.status in (404, 409):
                return  # it is gone, and so is the need
            raise
        if "deletionTimestamp" not in body["metadata"] or held:
            self.shared.cache.sessions.put(SessionView.read(body).record())

    async def _start_warm(self, facts: Epoch) -> bool:
        """Make a waiting pod the session's; False when there is none. Raises HermesError.

        From the first claim on the epoch may have a pod, whatever becomes of us: a failure uses it up.
        """
        if not self.claims.candidates(facts):
            return False
        self.shared.memories.change(facts.session_uid, prepared_epoch=0)
        claim: asyncio.Task[PodView | None] | None = None
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.bus.make_consumer(facts.sid, facts.epoch))
                claim = group.create_task(self.claims.claim(facts))
        except* HermesError:
            if claim is not None and not claim.cancelled() and claim.exception() is None:
                await self._give_up(claim.result())
            raise
        pod = claim.result()
        if pod is None:
            self.shared.memories.change(facts.session_uid, prepared_epoch=facts.epoch)
            return False
        await self.claims.hand_over(facts, pod)
        return True

    async def _give_up(self, pod: PodView | None) -> None:
        """Delete a claimed pod whose session could not be started: it must not be told who it is."""
        if pod is not None:
            self.shared.cache.put_pod(replace(pod, deleting=True, resource_version=pod.resource_version + "+"))
            await self.client.delete(PODS, pod.namespace, pod.name, uid=pod.uid)

    def facts_of(self, session: SessionView, pod: PodView, profile: ProfileVerdict) -> Epoch:
        """Return the facts of an epoch that has its pod already."""
        started = self.shared.memories.get(session.uid).started
        at = started[1] if started is not None and started[0] == pod.epoch else pod.created_at
        idle = session.spec.idle_timeout_seconds or profile.spec.idle_timeout_seconds
        return epoch_of(session, pod.sid, pod.epoch, profile, idle, at)

    async def _epoch(self, observed: Observed, expected: int) -> int:
        """Raise the epoch, or go on with one that was raised for a pod that could not be made."""
        session, prepared = observed.session, observed.memory.prepared_epoch
        if prepared and prepared == expected:
            return prepared
        number = await raise_epoch(self.store, route_of(session, observed.sid), expected)
        self.shared.memories.change(session.uid, prepared_epoch=number)
        return number

    async def _make_secret(self, facts: Epoch) -> None:
        await self.client.apply(
            SECRETS,
            build_secret(
                self.installation(),
                facts,
                bus_credentials=self.minter.bus_user(facts.sid, facts.epoch).render(),
                models_token=self._models_token(facts),
            ),
        )

    def _models_token(self, facts: Epoch) -> str:
        return self.minter.models_token(
            sid=facts.sid, epoch=facts.epoch, namespace=facts.namespace, profile=facts.profile_name
        )

    async def _make_claim(self, facts: Epoch) -> None:
        if facts.profile.sandbox.workspace.kind != "PersistentVolumeClaim":
            return
        manifest = build_claim(facts)
        if await self.client.get(CLAIMS, facts.namespace, manifest["metadata"]["name"]) is None:
            await self.client.apply(CLAIMS, manifest)

    async def _make_pod(self, facts: Epoch) -> None:
        try:
            body = await self.client.create(PODS, build_pod(self.installation(), facts))
        except ClusterError as error:
            if error.status != 409 or error.reason != "AlreadyExists":
                raise
            found = await self.client.get(PODS, facts.namespace, pod_name(facts.session, facts.epoch))
            if found is None or PodView.read(found).sid != facts.sid:
                raise
            body = found
        # The watch will say so too; until then a second pass must not think that there is no pod.
        self.shared.cache.put_pod(PodView.read(body))

    def _refused(self, observed: Observed, component: str, error: HermesError) -> None:
        previous = self.shared.memories.get(observed.session.uid).failure
        if isinstance(error, ClusterError):
            component, reason = "PodReady", start_reason(error)
        elif "the bus" in error.message:
            reason = "BusUnavailable"
        else:
            reason = "StoreUnavailable"
        count = previous.count + 1 if previous is not None else 1
        delay = min(_MAX_FAILURE_SECONDS, 0.5 * 2 ** min(count, 10))
        failure = StartFailure(component, reason, error.message[:900], count, self.wall_clock() + delay)
        self.shared.memories.change(observed.session.uid, failure=failure)
        metrics.START_FAILURES.labels(reason if reason in _REASONS else "Other").inc()
        log.warning("session.start_refused", sid=observed.sid, reason=reason, count=count, error=error.message[:300])

    async def _stop(self, observed: Observed, action: model.Stop) -> None:
        session = observed.session
        await self.bus.delete_consumer(observed.sid, action.epoch)
        if action.pod:
            await self.client.delete(PODS, session.namespace, action.pod, uid=action.pod_uid)
            pod = self.shared.cache.pods.get(session.namespace, action.pod)
            if pod is not None and pod.uid == action.pod_uid:
                self.shared.cache.put_pod(replace(pod, deleting=True, resource_version=pod.resource_version + "+"))
        if not session.deleting:
            await self._delete_secret(session, action.epoch)
        if action.crashed:
            await self._count_crash(observed, action)
        memory = self.shared.memories.get(session.uid)
        if memory.drain is not None and memory.drain.epoch == action.epoch:
            self.shared.memories.change(session.uid, drain=None)

    async def _count_crash(self, observed: Observed, action: model.Stop) -> None:
        session, memory, now = observed.session, observed.memory, self.wall_clock()
        recent = now - memory.crashed_at < CRASH_MEMORY_SECONDS
        spoke = memory.word is not None and memory.word.epoch == action.epoch
        self.shared.memories.change(
            session.uid,
            crashes=memory.crashes + 1 if recent else 1,
            crashed_at=now,
            crash=f"{action.crashed}: {action.why}"[:300] if action.why else action.crashed,
            wants_start=memory.wants_start or not spoke,
        )
        await self.events.post(
            session, "Warning", action.crashed, f"pod {action.pod} is replaced: {action.why or action.crashed}"
        )

    async def _delete_secret(self, session: SessionView, epoch: int) -> None:
        await self.client.delete(SECRETS, session.namespace, credentials_name(session.name, epoch))

    async def _clean_up(self, session: SessionView, epoch: int) -> None:
        try:
            await self._delete_secret(session, epoch)
        except HermesError as error:
            log.info("session.clean_up_later", error=error.message[:200])

    async def _renew(self, observed: Observed, action: model.Renew) -> None:
        """Send fresh credentials; the Secret gets them too, for an agent that starts again in the same pod."""
        session = observed.session
        if not isinstance(observed.profile, ProfileVerdict):
            return
        pod = self.shared.cache.pods.get(session.namespace, action.pod)
        if pod is not None and pod.bus_key:
            # Its key never left it, and no Secret holds what it was given.
            jwt = self.minter.bus_jwt(observed.sid, action.epoch, pod.bus_key)
            token = self._models_token(self.facts_of(session, pod, observed.profile))
            await self.bus.order(observed.sid, action.epoch, Credentials(bus_jwt=jwt, models_token=token))
            self.shared.memories.change(session.uid, renewed_at=self.wall_clock())
            return
        name = credentials_name(session.name, action.epoch)
        body = await self.client.get(SECRETS, session.namespace, name)
        if body is None:
            return
        old = BusCredentials.parse(base64.b64decode(body["data"][BUS_CREDENTIALS_FILE]).decode())
        fresh = BusCredentials(self.minter.renewed_bus_jwt(observed.sid, action.epoch, old.seed), old.seed)
        created_at = pod.created_at if pod is not None else 0.0
        idle = session.spec.idle_timeout_seconds or observed.profile.spec.idle_timeout_seconds
        facts = epoch_of(session, observed.sid, action.epoch, observed.profile, idle, created_at)
        token = self._models_token(facts)
        await self.bus.order(observed.sid, action.epoch, Credentials(bus_jwt=fresh.jwt, models_token=token))
        if action.update_secret:
            manifest = build_secret(self.installation(), facts, bus_credentials=fresh.render(), models_token=token)
            await self.client.apply(SECRETS, manifest)
        self.shared.memories.change(session.uid, renewed_at=self.wall_clock())


def _first(group: BaseExceptionGroup[HermesError]) -> HermesError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, HermesError)
    return error
