"""What the watches have shown: sessions, Profiles and pods, found by name and by session id."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from hermes_operator.cluster.views import CronJobView, PodView, ProfileView, SessionRecord
from hermes_operator.pool.warm import WarmPod

Name = tuple[str, str]
"""Namespace and name."""


class _Named(Protocol):
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


V = TypeVar("V", bound=_Named)


@dataclass(frozen=True)
class Change(Generic[V]):
    """What an update did to the cache; None on a side where there was nothing."""

    before: V | None
    after: V | None


class Shelf(Generic[V]):
    """Objects of one kind. Older versions of an object never replace newer ones."""

    def __init__(self) -> None:
        self._items: dict[Name, V] = {}

    def get(self, namespace: str, name: str) -> V | None:
        """Return an object, or None."""
        return self._items.get((namespace, name))

    def all(self) -> list[V]:
        """Return all objects."""
        return list(self._items.values())

    def put(self, item: V) -> Change[V] | None:
        """Store an object; None when what is stored is as new."""
        key = (item.namespace, item.name)
        before = self._items.get(key)
        if before is not None and before.uid == item.uid and not _newer(item, before):
            return None
        self._items[key] = item
        return Change(before, item)

    def drop(self, namespace: str, name: str, uid: str) -> Change[V] | None:
        """Forget an object, unless another one has taken its name."""
        before = self._items.get((namespace, name))
        if before is None or before.uid != uid:
            return None
        del self._items[(namespace, name)]
        return Change(before, None)


def _newer(item: _Named, than: _Named) -> bool:
    if item.resource_version.isdigit() and than.resource_version.isdigit():
        return int(item.resource_version) > int(than.resource_version)
    return item.resource_version != than.resource_version


class Cache:
    """All shelves and their indexes. `synced` is set after the first full list."""

    def __init__(self) -> None:
        self.sessions: Shelf[SessionRecord] = Shelf()
        self.profiles: Shelf[ProfileView] = Shelf()
        self.pods: Shelf[PodView] = Shelf()
        self.warm: Shelf[WarmPod] = Shelf()
        self.cron_jobs: Shelf[CronJobView] = Shelf()
        self.synced = False
        self._pods_by_sid: dict[str, set[Name]] = defaultdict(set)
        self._session_by_sid: dict[str, Name] = {}
        self._claimed: dict[str, PodView] = {}

    def bind(self, sid: str, namespace: str, name: str) -> None:
        """Remember which object a session id belongs to."""
        self._session_by_sid[sid] = (namespace, name)

    def unbind(self, sid: str, namespace: str, name: str) -> None:
        """Forget it."""
        if self._session_by_sid.get(sid) == (namespace, name):
            del self._session_by_sid[sid]

    def session_of(self, sid: str) -> SessionRecord | None:
        """Return the session of an id, if its object is there."""
        name = self._session_by_sid.get(sid)
        return self.sessions.get(*name) if name else None

    def put_pod(self, pod: PodView) -> Change[PodView] | None:
        """Store a pod. A deletion that was seen or ordered is never unseen: an older event may still be on its way."""
        before = self.pods.get(pod.namespace, pod.name)
        if before is not None and before.uid == pod.uid and before.deleting and not pod.deleting:
            pod = replace(pod, deleting=True)
        change = self.pods.put(pod)
        if change is not None:
            self._pods_by_sid[pod.sid].add((pod.namespace, pod.name))
            if pod.bus_key:
                self._claimed[pod.uid] = pod
        return change

    def put_warm(self, pod: WarmPod) -> bool:
        """Store a waiting pod; False when that is nothing new, or when it has a session already."""
        claimed, before = self.pods.get(pod.namespace, pod.name), self.warm.get(pod.namespace, pod.name)
        if claimed is not None and claimed.uid == pod.uid:
            return False
        if before is not None and before.uid == pod.uid and before.deleting and not pod.deleting:
            return False
        return self.warm.put(pod) is not None

    def waiting_pod(self, uid: str) -> WarmPod | None:
        """Return the waiting pod with a UID."""
        return next((pod for pod in self.warm.all() if pod.uid == uid), None)

    def claimed_pod(self, uid: str) -> PodView | None:
        """Return the pod with a UID that waited and has a session now."""
        return self._claimed.get(uid)

    def claim(self, pod: PodView) -> None:
        """Take that a waiting pod is a session's now."""
        self.warm.drop(pod.namespace, pod.name, pod.uid)
        self.put_pod(pod)

    def drop_pod(self, namespace: str, name: str, uid: str) -> Change[PodView] | None:
        """Forget a pod."""
        change = self.pods.drop(namespace, name, uid)
        if change is not None and change.before is not None:
            self._claimed.pop(uid, None)
            names = self._pods_by_sid[change.before.sid]
            names.discard((namespace, name))
            if not names:
                del self._pods_by_sid[change.before.sid]
        return change

    def pods_of(self, sid: str) -> tuple[PodView, ...]:
        """Return a session's pods, oldest epoch first."""
        found = (self.pods.get(*name) for name in self._pods_by_sid.get(sid, ()))
        return tuple(sorted((pod for pod in found if pod is not None), key=lambda pod: pod.epoch))

    def sessions_of(self, namespace: str, profile: str) -> list[SessionRecord]:
        """Return the sessions of a Profile."""
        return [s for s in self.sessions.all() if s.profile == profile and s.namespace == namespace]

    def runs_of(self, job: CronJobView) -> list[SessionRecord]:
        """Return the sessions of a job's runs."""
        return [s for s in self.sessions.all() if s.cron == job.uid and s.namespace == job.namespace]

    def cron_job_of(self, namespace: str, uid: str) -> CronJobView | None:
        """Return the job with a UID."""
        return next((job for job in self.cron_jobs.all() if job.uid == uid and job.namespace == namespace), None)
