"""Turns what is seen and heard into cache entries, memories and keys in the queue. Decides nothing, writes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from pydantic import ValidationError

from hermes_contracts import subjects
from hermes_contracts.crd.session import StartupBreakdown
from hermes_contracts.envelopes import HEADER_TRACE, Wake
from hermes_contracts.names import LABEL_POOL
from hermes_contracts.store_api import AgentState, ReportRequest
from hermes_operator import metrics
from hermes_operator.cluster.client import Manifest
from hermes_operator.cluster.views import CronJobView, PodView, ProfileView, SessionView
from hermes_operator.namespaces import Namespaces
from hermes_operator.pool.observer import WarmObserver
from hermes_operator.reconcile.model import AgentWord, Memory
from hermes_operator.state import Key, Shared, arrival_key, cron_key, profile_key, purge_key, session_key
from hermes_service.tracing import span

log = structlog.get_logger()

_SOON_SECONDS = 0.5
_COUNT_SECONDS = 5.0
_YOUNG_SECONDS = 60.0
Identity = tuple[str, str, str]
"""Namespace, name and UID."""
REPORTS = "hermes.store.*.*.report"


def gone_key(sid: str, epoch: int) -> Key:
    """Return the key of the clean-up after a session whose object was deleted."""
    return Key("gone", sid, str(epoch))


@dataclass(frozen=True)
class Observer:
    """Takes events of watches and messages of the bus."""

    shared: Shared
    namespaces: Namespaces
    wall_clock: Callable[[], float] = time.time

    def take_session(self, event: str | None, body: Manifest) -> bool:
        """Take an event about a HermesSession; tells whether it was news."""
        try:
            view = SessionView.read(body)
        except (ValidationError, KeyError) as error:
            log.warning("session.unreadable", name=body.get("metadata", {}).get("name"), error=type(error).__name__)
            return False
        if event == "DELETED":
            return self.drop_session((view.namespace, view.name, view.uid), view)
        record = view.record()
        if self.shared.cache.sessions.put(record) is None:
            return False
        sid = self._sid(view)
        if sid is not None:
            self.shared.cache.bind(sid, record.namespace, record.name)
        self.shared.queue.add(session_key(view.namespace, view.name))
        self._look_at_job(view.namespace, view.cron, self.wall_clock())
        self._count(view)
        return True

    def drop_session(self, identity: Identity, last: SessionView | None = None) -> bool:
        """Take the deletion of a HermesSession, and its last state where it is known; tells whether it was news."""
        change = self.shared.cache.sessions.drop(*identity)
        if change is None or change.before is None:
            return False
        view = change.before.view()
        self.shared.memories.forget(view.uid)
        sid = self._sid(view)
        if sid is not None:
            self.shared.cache.unbind(sid, view.namespace, view.name)
            if view.status.epoch:
                self.shared.queue.add(gone_key(sid, view.status.epoch))
            if self.shared.leading and _left_unpurged(view, last or view):
                self.shared.to_purge.add(sid)
                self.shared.queue.add(purge_key(sid))
        self._look_at_job(view.namespace, view.cron, self.wall_clock())
        self._count(view)
        return True

    def _sid(self, view: SessionView) -> str | None:
        uid = self.namespaces.uid(view.namespace)
        return view.sid(uid) if uid is not None else None

    def _count(self, view: SessionView) -> None:
        """Have the Profile's counts looked at."""
        key = profile_key(view.namespace, view.spec.profile_ref.name)
        self.shared.queue.add_at(key, self.wall_clock() + _COUNT_SECONDS)

    def take_profile(self, event: str | None, body: Manifest) -> bool:
        """Take an event about a Profile; tells whether it was news."""
        try:
            view = ProfileView.read(body)
        except (ValidationError, KeyError) as error:
            log.warning("profile.unreadable", name=body.get("metadata", {}).get("name"), error=type(error).__name__)
            return False
        if event == "DELETED":
            return self.drop_profile((view.namespace, view.name, view.uid))
        if self.shared.cache.profiles.put(view) is None:
            return False
        self.shared.queue.add(profile_key(view.namespace, view.name))
        return True

    def drop_profile(self, identity: Identity) -> bool:
        """Take the deletion of a Profile; tells whether it was news."""
        if self.shared.cache.profiles.drop(*identity) is None:
            return False
        self.shared.queue.add(profile_key(identity[0], identity[1]))
        return True

    def take_cron_job(self, event: str | None, body: Manifest) -> bool:
        """Take an event about a HermesCronJob; tells whether it was news."""
        try:
            view = CronJobView.read(body)
        except (ValidationError, KeyError) as error:
            log.warning("cron_job.unreadable", name=body.get("metadata", {}).get("name"), error=type(error).__name__)
            return False
        if event == "DELETED":
            return self.drop_cron_job((view.namespace, view.name, view.uid))
        if self.shared.cache.cron_jobs.put(view) is None:
            return False
        self.shared.queue.add(cron_key(view.namespace, view.name))
        return True

    def drop_cron_job(self, identity: Identity) -> bool:
        """Take the deletion of a HermesCronJob; tells whether it was news."""
        if self.shared.cache.cron_jobs.drop(*identity) is None:
            return False
        self.shared.queue.add(cron_key(identity[0], identity[1]))
        return True

    def _look_at_job(self, namespace: str, job_uid: str, when: float) -> None:
        """Have the job looked at whose run has got somewhere."""
        job = self.shared.cache.cron_job_of(namespace, job_uid) if job_uid else None
        if job is not None:
            self.shared.queue.add_at(cron_key(job.namespace, job.name), when)

    def take_pod(self, event: str | None, body: Manifest) -> bool:
        """Take an event about a pod that carries our labels; tells whether it was news."""
        if LABEL_POOL in (body["metadata"].get("labels") or {}):
            return WarmObserver(self.shared).take(event, body)
        try:
            pod = PodView.read(body)
        except (KeyError, ValueError):
            return False
        if event == "DELETED":
            return self.drop_pod((pod.namespace, pod.name, pod.uid))
        change = self.shared.cache.put_pod(pod)
        if change is None:
            return False
        if pod.bus_key:
            WarmObserver(self.shared).drop(pod.namespace, pod.name, pod.uid)
        session = self.shared.cache.session_of(pod.sid)
        if session is not None:
            if pod.scheduled and (change.before is None or not change.before.scheduled):
                self._scheduled(session.uid, pod.epoch)
            self.shared.queue.add(session_key(session.namespace, session.name))
        return True

    def drop_pod(self, identity: Identity) -> bool:
        """Take the deletion of a pod; tells whether it was news."""
        WarmObserver(self.shared).drop(*identity)
        change = self.shared.cache.drop_pod(*identity)
        if change is None or change.before is None:
            return False
        session = self.shared.cache.session_of(change.before.sid)
        if session is not None:
            self.shared.queue.add(session_key(session.namespace, session.name))
        return True

    def _scheduled(self, uid: str, epoch: int) -> None:
        memory = self.shared.memories.get(uid)
        if memory.started is not None and memory.started[0] == epoch and memory.scheduled_at is None:
            self.shared.memories.change(uid, scheduled_at=self.wall_clock())

    async def listen(self, bus: Client) -> None:
        """Subscribe to wakes and to what agents say of themselves. Every operator hears all of it."""
        await bus.subscribe(subjects.WAKE, cb=self._take_wake)
        await bus.subscribe(REPORTS, cb=self._take_report)
        await WarmObserver(self.shared).listen(bus)

    async def _take_wake(self, message: Msg) -> None:
        try:
            sid = Wake.model_validate_json(message.data).route.sid
        except ValidationError:
            log.warning("wake.unreadable")
            return
        with span("operator.wake", (message.headers or {}).get(HEADER_TRACE, ""), sid=sid):
            log.info("wake.heard", sid=sid)
            self.wake(sid)

    def wake(self, sid: str) -> None:
        """Mark a session as having something to do. Ignored for nobody, a session with a working pod included."""
        self.shared.pending.woken(sid)
        self.look_at(sid)

    def look_at(self, sid: str) -> None:
        """Queue the pass for a session id: at once when no pod works, soon when one does."""
        session = self.shared.cache.session_of(sid)
        if session is None:
            self.shared.queue.add(arrival_key(sid))
        elif any(not pod.deleting for pod in self.shared.cache.pods_of(sid)):
            key = session_key(session.namespace, session.name)
            self.shared.queue.add_at(key, self.wall_clock() + _SOON_SECONDS)
        else:
            self.shared.queue.add(session_key(session.namespace, session.name))

    async def _take_report(self, message: Msg) -> None:
        _, _, sid, epoch, _ = message.subject.split(".")
        try:
            report = ReportRequest.model_validate_json(message.data)
        except ValidationError:
            log.warning("report.unreadable", sid=sid)
            return
        self.report(sid, int(epoch), report)

    def report(self, sid: str, epoch: int, report: ReportRequest) -> None:
        """Take an agent's word on itself; the bus has made sure whose it is."""
        session = self.shared.cache.session_of(sid)
        if session is None:
            return
        now, memory = self.wall_clock(), self.shared.memories.get(session.uid)
        if memory.word is not None and memory.word.epoch > epoch:
            return
        self.shared.memories.change(session.uid, word=AgentWord(epoch, report.state, now))
        key = session_key(session.namespace, session.name)
        self._look_at_job(session.namespace, session.cron, now)
        if report.state is AgentState.READY:
            self._ready(session.uid, epoch, report, memory, now)
            self.shared.queue.add(key)
        elif report.state is AgentState.DRAINED:
            self.shared.queue.add(key)
        else:
            self.shared.queue.add_at(key, now + _SOON_SECONDS)

    def _ready(self, uid: str, epoch: int, report: ReportRequest, memory: Memory, now: float) -> None:
        self.shared.memories.change(uid, wants_start=False, failure=None, crash="")
        if memory.started is None or memory.started[0] != epoch or now - memory.started[1] > _YOUNG_SECONDS:
            # An agent that starts again has read its Secret, whose credentials may be old by now.
            self.shared.memories.change(uid, renewed_at=None)
            return
        if memory.startup is not None and memory.startup[0] == epoch:
            return
        began = memory.started[1]
        said = report.startup_milliseconds
        metrics.STARTUP_SECONDS.observe(now - began)
        breakdown = StartupBreakdown(
            total=round((now - began) * 1000, 1),
            scheduled=round(((memory.scheduled_at or began) - began) * 1000, 1),
            started=round(said.get("started", 0.0), 1),
            imports=round(said.get("imports", 0.0), 1),
            connected=round(said.get("connected", 0.0), 1),
        )
        self.shared.memories.change(uid, startup=(epoch, breakdown))


def _left_unpurged(known: SessionView, last: SessionView) -> bool:
    """Tell whether a session went that was to leave nothing, and not by way of our finalizer.

    A change just before the deletion may be in its event alone: kopf shows of several events in a moment the last one. And
    the API server may delete an object to which a finalizer is added while it does: that one was never marked as ending.
    """
    return last.spec.deletion_policy == "Purge" and not (known.finalized and last.deleting)
