"""A HermesCronJob's pass: observe, decide, apply."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from hermes_contracts.crd.cron_job import CronJobStatus
from hermes_contracts.envelopes import EarlierAnswer, Route
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import API_VERSION
from hermes_contracts.store_api import PUT_COMMAND, CommandKind, PutCommandRequest
from hermes_operator import metrics
from hermes_operator.build.cron import build_run_message, build_run_session, run_route
from hermes_operator.bus import BusDoor
from hermes_operator.cluster.client import ClusterClient
from hermes_operator.cluster.errors import ClusterError
from hermes_operator.cluster.events import EventRecorder
from hermes_operator.cluster.resources import CRON_JOBS, SESSIONS
from hermes_operator.cluster.views import CronJobView, SessionView
from hermes_operator.cron.post import Post
from hermes_operator.cron.runs import Runs, observe_runs
from hermes_operator.launch import route_of
from hermes_operator.namespaces import Namespaces
from hermes_operator.reconcile.conditions import turned_bad
from hermes_operator.reconcile.cron import decide_cron
from hermes_operator.reconcile.cron_model import CronPlan, DropRun, ObservedCron, Outcome, Run, Slot, StartRun, StopRun
from hermes_operator.reconcile.model import ProfileVerdict, Unknown
from hermes_operator.state import Key, Shared
from hermes_service.rpc import StoreClient

log = structlog.get_logger()

SEND_AGAIN_SECONDS = 60.0
"""A run that nobody has opened, and whose message is not on the bus, gets its message again this often."""


@dataclass(frozen=True)
class CronPass:
    """Runs passes over HermesCronJobs. All collaborators are handed in."""

    client: ClusterClient
    bus: BusDoor
    store: StoreClient
    shared: Shared
    namespaces: Namespaces
    events: EventRecorder
    post: Post
    wake: Callable[[str], None]
    """Has a session looked at, by its id."""
    clock_skew: Callable[[], float | None]
    wall_clock: Callable[[], float] = time.time
    _runs: Runs = field(init=False)
    _sent: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look runs up with the same collaborators."""
        object.__setattr__(self, "_runs", Runs(self.store, self.shared, self.namespaces, self.wall_clock))

    async def run(self, key: Key) -> float | None:
        """Run one pass; returns when to look again, in wall-clock seconds. Raises HermesError to be tried again."""
        view = self.shared.cache.cron_jobs.get(key.namespace, key.name)
        if view is None:
            self._runs.keep({job.uid for job in self.shared.cache.cron_jobs.all()})
            return None
        observed = await self.observe(view)
        now = self.wall_clock()
        plan = decide_cron(observed, now)
        await self._apply(view, plan, now)
        if not isinstance(observed.runs, Unknown):
            await self._send_again(view, observed.runs, now)
        await self._say(view, plan)
        return plan.due

    async def observe(self, view: CronJobView) -> ObservedCron:
        """Read what a decision rests on; a part that cannot be read is Unknown."""
        cache, name = self.shared.cache, view.spec.profile_ref.name
        profile: ProfileVerdict | Unknown | None = self.shared.verdicts.get((view.namespace, name))
        if profile is None and (not cache.synced or cache.profiles.get(view.namespace, name) is not None):
            profile = Unknown(f"Profile {name} was not examined yet")
        session = self._session(view)
        runs, totals = await observe_runs(self._runs, view, session)
        if not cache.synced:
            runs = Unknown("the list of sessions is not complete yet")
        skew = self.clock_skew()
        metrics.CLOCK_SKEW.set(skew or 0.0)
        jobs = frozenset(job.name for job in cache.cron_jobs.all() if job.namespace == view.namespace)
        return ObservedCron(view, profile, runs, skew, totals, session, jobs)

    def _session(self, view: CronJobView) -> SessionView | Unknown | None:
        if view.spec.session_ref is None:
            return None
        record = self.shared.cache.sessions.get(view.namespace, view.spec.session_ref.name)
        if record is None:
            return None if self.shared.cache.synced else Unknown("the list of sessions is not complete yet")
        return record.view()

    async def _apply(self, view: CronJobView, plan: CronPlan, now: float) -> None:
        for action in plan.actions:
            match action:
                case StartRun(slot):
                    await self._start(view, slot, now)
                case StopRun(run):
                    await self._stop(view, run)
                case DropRun(run):
                    await self._drop(view, run)

    async def _start(self, view: CronJobView, slot: Slot, now: float) -> None:
        route = await self._route(view, slot.run)
        if view.spec.session_ref is None:
            await self._make_session(view, slot.run, route.sid)
        await self._send(view, slot, route, now)
        log.info("cron.started", namespace=view.namespace, job=view.name, run=slot.run, sid=route.sid)
        metrics.CRON_STARTED.labels("asked" if slot.is_manual else "clock").inc()
        if not slot.is_manual:
            metrics.CRON_SKEW_SECONDS.observe(max(0.0, self.wall_clock() - slot.at))
        await self.events.post(view, "Normal", "RunStarted", f"run {slot.run} started")

    async def _route(self, view: CronJobView, run: str) -> Route:
        uid = (await self.namespaces.get(view.namespace)).uid
        if view.spec.session_ref is None:
            return run_route(view, run, uid)
        session = self._session(view)
        if not isinstance(session, SessionView):
            raise HermesError(ErrorCode.NOT_FOUND, f"HermesSession {view.spec.session_ref.name} went at this moment")
        return route_of(session, session.sid(uid))

    async def _make_session(self, view: CronJobView, run: str, sid: str) -> None:
        manifest = build_run_session(view, run, sid)
        try:
            body = await self.client.create(SESSIONS, manifest)
        except ClusterError as error:
            if error.status == 409:
                return  # it was started before, by us or by whoever led then
            raise
        session = SessionView.read(body)
        self.shared.cache.sessions.put(session.record())
        self.shared.cache.bind(sid, session.namespace, session.name)

    async def _send(self, view: CronJobView, slot: Slot, route: Route, now: float) -> None:
        context = []
        for name in view.spec.context_from:
            job = self.shared.cache.cron_jobs.get(view.namespace, name)
            if job is not None and (answer := await self._runs.answer_of(job.uid)):
                context.append(EarlierAnswer(job=name, text=answer))
        await self.post.send(route, build_run_message(view, slot, route, tuple(context), now))
        self._sent[f"{view.uid}/{slot.run}"] = now
        self.wake(route.sid)

    async def _send_again(self, view: CronJobView, runs: tuple[Run, ...], now: float) -> None:
        """Send the messages of runs that no agent has opened and the bus does not hold (any more)."""
        waiting = [run for run in runs if run.outcome is Outcome.WAITING]
        for key in [key for key in self._sent if key.startswith(f"{view.uid}/")]:
            if key not in {f"{view.uid}/{run.run}" for run in waiting}:
                del self._sent[key]
        for run in waiting:
            last = self._sent.setdefault(f"{view.uid}/{run.run}", now)
            if now - last < SEND_AGAIN_SECONDS or await self.bus.pending(run.sid):
                continue
            log.warning("cron.sent_again", namespace=view.namespace, job=view.name, run=run.run)
            await self._send(view, Slot(run.run, run.at), await self._route(view, run.run), now)

    async def _stop(self, view: CronJobView, run: Run) -> None:
        request = PutCommandRequest(
            sid=run.sid,
            owner=(await self._route(view, run.run)).owner,
            account=view.uid,
            update_id=f"replace/{run.run}",
            kind=CommandKind.STOP,
        )
        try:
            await self.store.call(PUT_COMMAND, request, patience_seconds=2.0)
        except HermesError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
            # Its session has no row: no agent has begun, so there is nothing to stop yet; the next pass asks again.

    async def _drop(self, view: CronJobView, run: Run) -> None:
        log.info("cron.dropped", namespace=view.namespace, job=view.name, run=run.run)
        await self.client.delete(SESSIONS, view.namespace, run.session, uid=run.session_uid)

    async def _say(self, view: CronJobView, plan: CronPlan) -> None:
        for note in plan.notes:
            metrics.CRON_SKIPPED.inc(note.count if note.reason == "RunsSkipped" else 0)
            await self.events.post(view, "Warning" if note.warning else "Normal", note.reason, note.text)
        if plan.status is None or plan.status == view.status:
            return
        body = await self.client.apply(
            CRON_JOBS.status,
            {
                "apiVersion": API_VERSION,
                "kind": "HermesCronJob",
                "metadata": {"name": view.name, "namespace": view.namespace},
                "status": plan.status.model_dump(mode="json", by_alias=True, exclude_none=True),
            },
        )
        self.shared.cache.cron_jobs.put(CronJobView.read(body))
        for condition in turned_bad(view.status.conditions, plan.status.conditions):
            await self.events.post(view, "Warning", condition.reason, condition.message or condition.type)
        await self._tell_end(view, view.status, plan.status)

    async def _tell_end(self, view: CronJobView, before: CronJobStatus, after: CronJobStatus) -> None:
        old, new = before.last_run, after.last_run
        if new is None or (old is not None and (old.run, old.outcome) == (new.run, new.outcome)):
            return
        if new.outcome in (Outcome.WAITING, Outcome.RUNNING):
            return
        metrics.CRON_ENDED.labels(new.outcome).inc()
        good = new.outcome in (Outcome.SUCCEEDED, Outcome.SILENT)
        text = f"run {new.run} ended: {new.outcome}{f' ({new.reason})' if new.reason else ''}; session {new.session}"
        await self.events.post(view, "Normal" if good else "Warning", "RunEnded" if good else "RunFailed", text)
