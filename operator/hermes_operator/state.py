"""What the operator's parts share in one process. All of it can be rebuilt: a restart loses nothing that matters."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hermes_contracts.projection import ProfileProjection
from hermes_operator.cluster.cache import Cache, Name
from hermes_operator.engine.queue import WorkQueue
from hermes_operator.pending import PendingBoard
from hermes_operator.pool.board import Board
from hermes_operator.reconcile.model import Memory, ProfileVerdict


@dataclass(frozen=True, slots=True)
class Key:
    """What a pass is about: a `session` or `profile` by namespace and name, an `arrival` by session id."""

    kind: str
    namespace: str
    name: str


def session_key(namespace: str, name: str) -> Key:
    """Return the key of a session's pass."""
    return Key("session", namespace, name)


def profile_key(namespace: str, name: str) -> Key:
    """Return the key of a Profile's pass."""
    return Key("profile", namespace, name)


def cron_key(namespace: str, name: str) -> Key:
    """Return the key of a HermesCronJob's pass."""
    return Key("cron", namespace, name)


def pool_key(namespace: str) -> Key:
    """Return the key of the pass over a namespace's waiting pods."""
    return Key("pool", namespace, "")


def handover_key(namespace: str, pod: str) -> Key:
    """Return the key of the pass over a claimed pod that does not know yet who it is."""
    return Key("handover", namespace, pod)


def purge_key(sid: str) -> Key:
    """Return the key of the purge of a session whose object is gone already."""
    return Key("purge", "", sid)


def arrival_key(sid: str) -> Key:
    """Return the key of a pass for messages whose session has no object."""
    return Key("arrival", "", sid)


class Memories:
    """What is remembered of each session, by its object's UID."""

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._items: dict[str, Memory] = {}
        self._wall_clock = wall_clock
        self._blank = self._nothing_known()

    def get(self, uid: str) -> Memory:
        """Return what is remembered."""
        return self._items.get(uid, self._blank)

    def _nothing_known(self) -> Memory:
        """A status may have been written a moment ago, by whoever acted before: counters wait their minute."""
        return Memory(status_written_at=self._wall_clock())

    def change(self, uid: str, **fields: Any) -> Memory:
        """Remember something else."""
        self._items[uid] = replace(self.get(uid), **fields)
        return self._items[uid]

    def forget(self, uid: str) -> None:
        """Forget a session."""
        self._items.pop(uid, None)

    def forget_all(self) -> None:
        """Forget everything: another replica acted meanwhile."""
        self._items.clear()
        self._blank = self._nothing_known()


@dataclass
class Shared:
    """Caches, boards and the queue."""

    queue: WorkQueue[Key]
    cache: Cache
    pending: PendingBoard
    memories: Memories = field(default_factory=Memories)
    verdicts: dict[Name, ProfileVerdict] = field(default_factory=dict)
    """What each Profile's pass found."""
    dead: dict[str, int] = field(default_factory=dict)
    """Dead letters by session id, as the last look at their stream showed."""
    commanded: frozenset[str] = frozenset()
    """Ids of sessions that a command should wake, as the last look at the store showed."""
    leading: bool = False
    """This replica acts. What a standby sees go is the leader's to clean up."""
    to_purge: set[str] = field(default_factory=set)
    """Ids of sessions whose objects went without our finalizer and were to leave nothing."""
    warm: Board = field(default_factory=Board)
    """What is known of pods that wait for a session."""
    projections: dict[str, ProfileProjection] = field(default_factory=dict)
    """What is known to be in the bucket, by its key."""
