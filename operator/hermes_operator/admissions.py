"""Who holds a place among a namespace's live sessions and who waits for one.

All of it may be lost: pods say who is there, statuses since when others wait.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hermes_operator import metrics
from hermes_operator.build.quantity import to_bytes
from hermes_operator.cluster.cache import Cache
from hermes_operator.cluster.views import SessionRecord, timestamp
from hermes_operator.engine.queue import WorkQueue
from hermes_operator.reconcile.admission import Admission, Claimant, Place, Room, admit, asked_to_yield
from hermes_operator.reconcile.model import Observed, ProfileVerdict
from hermes_operator.reconcile.status import State
from hermes_operator.state import Key, session_key

_FRESH_SECONDS = 0.5
"""How long an answer stands while nothing was asked or given back: a thousand that wait ask every few seconds each."""


@dataclass
class _Hall:
    """One namespace."""

    granted: dict[str, Claimant] = field(default_factory=dict)
    wishes: dict[str, Claimant] = field(default_factory=dict)
    idle: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Profile and last activity of sessions with a pod and nothing to do, by UID."""
    profile_limits: dict[str, int] = field(default_factory=dict)
    answer: Admission | None = None
    answered_at: float = 0.0


@dataclass
class Admissions:
    """Gives places. A place is held from its grant on until its session sleeps, through replacements of its pod."""

    cache: Cache
    queue: WorkQueue[Key]
    rooms: Mapping[str, Room]
    wall_clock: Callable[[], float] = time.time
    _halls: dict[str, _Hall] = field(default_factory=lambda: defaultdict(_Hall))

    def ask(self, observed: Observed) -> Place | None:
        """Ask for a place for a session that is about to start; None: it has one."""
        session, verdict = observed.session, observed.profile
        assert isinstance(verdict, ProfileVerdict)
        hall, limit = self._halls[session.namespace], verdict.spec.max_live_sessions
        name = session.spec.profile_ref.name
        if hall.profile_limits.get(name) != limit:
            hall.answer = None
            hall.profile_limits.pop(name, None)
            if limit is not None:
                hall.profile_limits[name] = limit
        if limit is None and session.namespace not in self.rooms:
            self._withdraw(hall, session.uid)
            return None
        if session.uid in hall.granted:
            return None
        before = hall.wishes.get(session.uid)
        since = before.since if before is not None else self._since(observed)
        memory = sum(to_bytes(part.resources.memory) for part in (verdict.spec.agent, verdict.spec.sandbox))
        wish = Claimant(session.uid, session.name, session.spec.owner, name, memory, since)
        if wish != before:
            hall.wishes[session.uid] = wish
            hall.answer = None
        if before is None:
            self._look_at_idle(session.namespace)
        answer = self._answer(session.namespace, hall)
        if session.uid in answer.admitted:
            del hall.wishes[session.uid]
            hall.granted[session.uid] = wish
            metrics.ADMISSION_SECONDS.observe(max(0.0, self.wall_clock() - wish.since))
            return None
        return answer.waiting[session.uid]

    def withdraw(self, namespace: str, uid: str) -> None:
        """Give back the place, or the wish, of a session that needs no pod now; whoever is next is looked at."""
        hall = self._halls.get(namespace)
        if hall is None:
            return
        self._withdraw(hall, uid)
        if not hall.wishes:
            return
        answer = self._answer(namespace, hall)
        for admitted in answer.admitted:
            self.queue.add(session_key(namespace, hall.wishes[admitted].name))

    def forget_all(self) -> None:
        """Forget everything: another replica acted meanwhile."""
        self._halls.clear()

    def crowded(self, namespace: str) -> bool:
        """Tell whether anybody waits for a place."""
        hall = self._halls.get(namespace)
        return hall is not None and bool(hall.wishes)

    def yields(self, observed: Observed, idle_since: float | None) -> bool:
        """Tell whether a session with a pod goes to sleep early. `idle_since`: its last activity; None: it works."""
        session, hall = observed.session, self._halls[observed.session.namespace]
        profile = session.spec.profile_ref.name
        if idle_since is None:
            hall.idle.pop(session.uid, None)
            return False
        hall.idle[session.uid] = (profile, idle_since)
        answer = self._answer(session.namespace, hall)
        waiting = [(hall.wishes[uid].profile, place.why) for uid, place in answer.waiting.items() if uid in hall.wishes]
        draining = Counter(record.profile for record in self._live(session.namespace) if record.state == State.DRAINING)
        return session.uid in asked_to_yield(hall.idle, draining, waiting)

    def _look_at_idle(self, namespace: str) -> None:
        for record in self._live(namespace):
            if record.state == State.READY:
                self.queue.add(session_key(namespace, record.name))

    def _since(self, observed: Observed) -> float:
        """Return since when a session waits: after a change of operators its status remembers it."""
        if observed.session.status.state == State.QUEUED:
            for condition in observed.session.status.conditions:
                if condition.type == "Hibernated":
                    return timestamp(condition.last_transition_time)
        return self.wall_clock()

    def _withdraw(self, hall: _Hall, uid: str) -> None:
        hall.idle.pop(uid, None)
        known = hall.granted.pop(uid, None) or hall.wishes.pop(uid, None)
        if known is not None:
            hall.answer = None

    def _answer(self, namespace: str, hall: _Hall) -> Admission:
        now = self.wall_clock()
        if hall.answer is None or not 0 <= now - hall.answered_at < _FRESH_SECONDS:
            self._forget_deleted(namespace, hall)
            holders = {**hall.granted, **self._holders(namespace)}
            wishes = [wish for uid, wish in hall.wishes.items() if uid not in hall.granted]
            hall.answer = admit(holders.values(), wishes, self.rooms.get(namespace, Room()), hall.profile_limits)
            hall.answered_at = now
        return hall.answer

    def _forget_deleted(self, namespace: str, hall: _Hall) -> None:
        for book in (hall.granted, hall.wishes):
            for uid, claimant in list(book.items()):
                record = self.cache.sessions.get(namespace, claimant.name)
                if record is None or record.uid != uid:
                    del book[uid]
                    hall.idle.pop(uid, None)

    def _holders(self, namespace: str) -> dict[str, Claimant]:
        """Return who has a pod that is not on its way out, by UID; the pods say what they request."""
        found: dict[str, Claimant] = {}
        for pod in self.cache.pods.all():
            record = self.cache.session_of(pod.sid) if pod.namespace == namespace and not pod.deleting else None
            if record is not None:
                before = found[record.uid].memory if record.uid in found else 0
                claimant = Claimant(record.uid, record.name, record.owner, record.profile, before + pod.memory)
                found[record.uid] = claimant
        return found

    def _live(self, namespace: str) -> list[SessionRecord]:
        """Return the sessions of those."""
        names = (holder.name for holder in self._holders(namespace).values())
        return [record for name in names if (record := self.cache.sessions.get(namespace, name)) is not None]
