"""What the operator remembers of waiting pods between passes; all of it may be lost, and is heard again within seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hermes_contracts.warm_pool import Hello
from hermes_operator.pool.decide import failure_delay

REST_SECONDS = 1.0
"""After a claim nothing is made for this long: the session that has just started goes first."""
_FORGET_SECONDS = 60.0
_MAX_HELLOS = 10_000


@dataclass
class Board:
    """Hellos by pod UID, claims that are being made, failures by namespace and class."""

    wall_clock: Callable[[], float] = time.time
    listening_since: float = 0.0
    reserved: set[str] = field(default_factory=set)
    _hellos: dict[str, tuple[Hello, float]] = field(default_factory=dict)
    _accepted: dict[str, float] = field(default_factory=dict)
    _first_sent: dict[str, float] = field(default_factory=dict)
    _failures: dict[tuple[str, str], int] = field(default_factory=dict)
    _not_before: dict[tuple[str, str], float] = field(default_factory=dict)

    def take(self, uid: str, hello: Hello) -> bool:
        """Take a hello; tells whether it says something new. The bus has made sure whose it is."""
        now = self.wall_clock()
        if hello.accepted:
            self._accepted[uid] = now
        before = self._hellos.get(uid)
        if before is None and len(self._hellos) >= _MAX_HELLOS:
            return False
        self._hellos[uid] = (hello, now)
        return before is None or before[0] != hello

    def hello(self, uid: str) -> Hello | None:
        """Return the last hello of a pod."""
        found = self._hellos.get(uid)
        return found[0] if found else None

    def heard(self) -> frozenset[str]:
        """Return the UIDs of pods that said hello."""
        return frozenset(self._hellos)

    def accepted(self, uid: str) -> bool:
        """Tell whether a pod said that it took its identity."""
        return uid in self._accepted

    def was_sent(self, uid: str) -> bool:
        """Tell whether an identity was sent to a pod."""
        return uid in self._first_sent

    def sent(self, uid: str) -> float:
        """Note that an identity is being sent; returns when that was done first."""
        return self._first_sent.setdefault(uid, self.wall_clock())

    def made(self, namespace: str, group: str) -> None:
        """A pod of a class is of use: failures before it do not count any more."""
        self._failures.pop((namespace, group), None)

    def failed(self, namespace: str, group: str) -> None:
        """A pod of a class came to nothing, or could not be made."""
        place = (namespace, group)
        self._failures[place] = self._failures.get(place, 0) + 1
        self._not_before[place] = self.wall_clock() + failure_delay(self._failures[place])

    def claimed(self, namespace: str, group: str) -> None:
        """A pod of a class has become a session's."""
        place = (namespace, group)
        self._not_before[place] = max(self._not_before.get(place, 0.0), self.wall_clock() + REST_SECONDS)

    def not_before(self, namespace: str) -> dict[str, float]:
        """Return until when each class of a namespace rests."""
        return {group: until for (where, group), until in self._not_before.items() if where == namespace}

    def prune(self, alive: set[str]) -> None:
        """Forget pods that are gone."""
        old = self.wall_clock() - _FORGET_SECONDS
        for uid, (_, at) in list(self._hellos.items()):
            if uid not in alive and at < old:
                del self._hellos[uid]
        for notes in (self._accepted, self._first_sent):
            for uid, at in list(notes.items()):
                if uid not in alive and at < old:
                    del notes[uid]

    def lead(self) -> None:
        """Begin to act: what was not heard before may still be said."""
        self.listening_since = self.wall_clock()
        self.reserved.clear()
