"""A session's pass: observe, decide, apply."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from hermes_contracts.errors import HermesError
from hermes_contracts.names import API_VERSION
from hermes_contracts.store_api import SUMMARIES, SessionIdsRequest, SessionSummary
from hermes_operator.admissions import Admissions
from hermes_operator.build.facts import Installation
from hermes_operator.build.pod import pod_template
from hermes_operator.bus import BusDoor
from hermes_operator.cluster.client import ClusterClient
from hermes_operator.cluster.events import EventRecorder
from hermes_operator.cluster.resources import SESSIONS
from hermes_operator.cluster.views import SessionView
from hermes_operator.launch import Launcher, epoch_of
from hermes_operator.mail import Mail
from hermes_operator.namespaces import Namespaces
from hermes_operator.reconcile.conditions import turned_bad
from hermes_operator.reconcile.model import Limits, Memory, Observed, Plan, ProfileVerdict, Start, Unknown
from hermes_operator.reconcile.session import LOOK_AGAIN_SECONDS, decide, idle_since, idle_timeout
from hermes_operator.reconcile.status import State, worth_writing, write_later_at
from hermes_operator.state import Key, Shared
from hermes_service.rpc import StoreClient

log = structlog.get_logger()

_QUIET_REASONS = frozenset({"Asleep", "Starting", "Draining", "Suspended", "Waiting", "Ready", "Busy", "Failed"})


_NEEDS_NO_PLACE = frozenset({State.ASLEEP, State.SUSPENDED, State.FAILED})


@dataclass(frozen=True)
class SessionPass:
    """Runs passes over sessions. All collaborators are handed in."""

    client: ClusterClient
    bus: BusDoor
    store: StoreClient
    shared: Shared
    installation: Callable[[], Installation]
    namespaces: Namespaces
    launcher: Launcher
    events: EventRecorder
    mail: Mail
    admissions: Admissions
    limits: Limits
    wall_clock: Callable[[], float] = time.time

    async def run(self, key: Key) -> float | None:
        """Run one pass; returns when to look again, in wall-clock seconds. Raises HermesError to be tried again."""
        record = self.shared.cache.sessions.get(key.namespace, key.name)
        if record is None:
            return None
        observed = await self.observe(record.view())
        now = self.wall_clock()
        observed, plan = self._admitted(observed, now)
        await self._apply(observed, plan)
        return await self._say(observed, plan, now)

    def _admitted(self, observed: Observed, now: float) -> tuple[Observed, Plan]:
        """Decide, with what others leave room for."""
        session = observed.session
        crowded = self.admissions.crowded(session.namespace)
        if crowded and observed.pods:
            observed = replace(observed, yields=self.admissions.yields(observed, idle_since(observed)))
        plan = decide(observed, now)
        if any(isinstance(action, Start) for action in plan.actions):
            place = self.admissions.ask(observed)
            if place is not None:
                observed = replace(observed, place=place)
                plan = decide(observed, now)
        elif plan.status is not None and plan.status.state in _NEEDS_NO_PLACE:
            self.admissions.withdraw(session.namespace, session.uid)
        if crowded and observed.pods and plan.due is not None:
            plan = replace(plan, due=min(plan.due, now + LOOK_AGAIN_SECONDS))
        return observed, plan

    async def observe(self, session: SessionView) -> Observed:
        """Read what a decision rests on; a part that cannot be read is Unknown."""
        cache, memory = self.shared.cache, self.shared.memories.get(session.uid)
        namespace = await self.namespaces.get(session.namespace)
        sid = session.sid(namespace.uid)
        cache.bind(sid, session.namespace, session.name)
        name = session.spec.profile_ref.name
        profile: ProfileVerdict | Unknown | None = self.shared.verdicts.get((session.namespace, name))
        if profile is None and (not cache.synced or cache.profiles.get(session.namespace, name) is not None):
            profile = Unknown(f"Profile {name} was not examined yet")
        pods = cache.pods_of(sid) if cache.synced else Unknown("the list of pods is not complete yet")
        has_pods = not isinstance(pods, Unknown) and bool(pods)
        pending = await self._pending(sid, ask=has_pods)
        waits = isinstance(pending, int) and pending > 0
        memory = self._noted(session, memory, waits=waits and has_pods)
        new = session.status.epoch == 0 and not session.spec.suspend
        commanded = sid in self.shared.commanded
        wanted = has_pods or waits or commanded or new or memory.wants_start
        summary = await self._summary(sid) if wanted else None
        template = ""
        if has_pods and isinstance(profile, ProfileVerdict):
            epoch = epoch_of(session, sid, 1, profile, session.spec.idle_timeout_seconds or 900, 0.0)
            template = pod_template(self.installation(), epoch)
        return Observed(
            session=session,
            sid=sid,
            profile=profile,
            pods=pods,
            pending=pending,
            summary=summary if wanted else Unknown("not asked"),
            memory=memory,
            template=template,
            services=(self.installation().bus.aliased(), self.installation().models.aliased()),
            oldest_pending=await self._oldest(sid, session, profile, pending) if not has_pods else None,
            dead_letters=self.shared.dead.get(sid, 0),
            commanded=commanded,
            limits=self.limits,
        )

    def _noted(self, session: SessionView, memory: Memory, *, waits: bool) -> Memory:
        """Note since when messages wait for a pod that is up."""
        if waits == (memory.waiting_since is not None):
            return memory
        return self.shared.memories.change(session.uid, waiting_since=self.wall_clock() if waits else None)

    async def _pending(self, sid: str, *, ask: bool) -> int | Unknown:
        hint = self.shared.pending.hint(sid)
        if hint == 0 and not ask:
            return 0
        try:
            return await self.bus.pending(sid)
        except HermesError as error:
            return Unknown(error.message)

    async def _oldest(
        self, sid: str, session: SessionView, profile: ProfileVerdict | Unknown | None, pending: int | Unknown
    ) -> float | Unknown | None:
        """Ask how long messages have waited, where nothing will take them."""
        stuck = session.spec.suspend or profile is None or session.status.state in (State.FAILED, State.QUEUED)
        if not stuck or not isinstance(pending, int) or pending == 0:
            return None
        try:
            return await self.mail.oldest(sid)
        except HermesError as error:
            return Unknown(error.message)

    async def _summary(self, sid: str) -> SessionSummary | Unknown | None:
        try:
            found = await self.store.call(SUMMARIES, SessionIdsRequest(sids=(sid,)), patience_seconds=2.0)
        except HermesError as error:
            return Unknown(error.message)
        return next(iter(found.sessions), None)

    async def _apply(self, observed: Observed, plan: Plan) -> None:
        for action in plan.actions:
            log.info("session.action", action=type(action).__name__, sid=observed.sid, session=observed.session.name)
            if isinstance(action, Start):
                await self.launcher.start(observed, action, idle_timeout(observed))
            else:
                await self.launcher.carry_out(observed, action)

    async def _say(self, observed: Observed, plan: Plan, now: float) -> float | None:
        """Write the status when it is worth it; returns when to look again."""
        session, status = observed.session, plan.status
        if status is None:
            return plan.due
        written_at = observed.memory.status_written_at
        if not worth_writing(session.status, status, written_at, now):
            later = write_later_at(session.status, status, written_at)
            return min((t for t in (plan.due, later) if t is not None), default=None)
        body = await self.client.apply(
            SESSIONS.status,
            {
                "apiVersion": API_VERSION,
                "kind": "HermesSession",
                "metadata": {"name": session.name, "namespace": session.namespace},
                "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
            },
        )
        self.shared.memories.change(session.uid, status_written_at=now)
        self.shared.cache.sessions.put(SessionView.read(body).record())
        for condition in turned_bad(session.status.conditions, status.conditions):
            if condition.type != "Hibernated" and condition.reason not in _QUIET_REASONS:
                await self.events.post(session, "Warning", condition.reason, condition.message or condition.type)
        if session.status.state != status.state:
            log.info(
                "session.state", sid=observed.sid, session=session.name, state=status.state, before=session.status.state
            )
        return plan.due
