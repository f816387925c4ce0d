"""Who gets a pod when not everybody may have one at once: pure functions over who holds a place and who wants one.

The order is fair between owners: the owner who holds least comes first, and of two who hold the same the one who has
waited longer. A wish that a namespace has no room for closes it for everybody behind, so that a small session never
keeps a large one waiting for ever; one that only its own Profile has no room for is passed by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

YIELD_SECONDS = 15.0
"""What a session is left in peace after its last activity, whoever waits."""


class Why(StrEnum):
    """What a session waits for; the reason of its condition."""

    PROFILE_FULL = "ProfileFull"
    NAMESPACE_FULL = "NamespaceFull"
    NAMESPACE_MEMORY = "NamespaceMemory"
    TOO_LARGE = "TooLarge"


@dataclass(frozen=True, slots=True)
class Room:
    """What the sessions of a namespace may have together: pods, and bytes of memory that these request. None: no limit."""

    sessions: int | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Claimant:
    """A session that holds a place or wants one: bytes of memory its pod requests, and since when it waits."""

    uid: str
    name: str
    owner: str
    profile: str
    memory: int
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session stands: 1 is next. 0: it can never be admitted."""

    position: int
    why: Why
    limit: int


@dataclass(frozen=True)
class Admission:
    """Who may start now, and who waits where, by UID."""

    admitted: frozenset[str]
    waiting: Mapping[str, Place]


def admit(
    holders: Iterable[Claimant], wishes: Iterable[Claimant], room: Room, profile_limits: Mapping[str, int]
) -> Admission:
    """Tell who of those who wish may start, and what place the others have."""
    held, live, memory = Counter[str](), Counter[str](), 0
    for holder in holders:
        held[holder.owner] += 1
        live[holder.profile] += 1
        memory += holder.memory
    sessions = live.total()
    admitted: set[str] = set()
    waiting: dict[str, Place] = {}
    position = 0
    closed: tuple[Why, int] | None = None
    for wish in _fair(wishes, held):
        if room.memory is not None and wish.memory > room.memory:
            waiting[wish.uid] = Place(0, Why.TOO_LARGE, room.memory)
            continue
        limit, why = profile_limits.get(wish.profile), None
        if limit is not None and live[wish.profile] >= limit:
            why = (Why.PROFILE_FULL, limit)
        else:
            why = closed = closed or _full(room, sessions, memory + wish.memory)
        if why is not None:
            position += 1
            waiting[wish.uid] = Place(position, *why)
            continue
        admitted.add(wish.uid)
        live[wish.profile] += 1
        sessions += 1
        memory += wish.memory
    return Admission(frozenset(admitted), waiting)


def _fair(wishes: Iterable[Claimant], held: Mapping[str, int]) -> list[Claimant]:
    """Return the wishes in order: an owner's second wish counts as if the first had been granted."""
    before: Counter[str] = Counter()
    ranked = []
    for wish in sorted(wishes, key=lambda wish: (wish.since, wish.uid)):
        ranked.append((held.get(wish.owner, 0) + before[wish.owner], wish.since, wish.uid, wish))
        before[wish.owner] += 1
    return [entry[3] for entry in sorted(ranked, key=lambda entry: entry[:3])]


def _full(room: Room, sessions: int, memory: int) -> tuple[Why, int] | None:
    if room.sessions is not None and sessions >= room.sessions:
        return Why.NAMESPACE_FULL, room.sessions
    if room.memory is not None and memory > room.memory:
        return Why.NAMESPACE_MEMORY, room.memory
    return None


def asked_to_yield(
    idle: Mapping[str, tuple[str, float]], draining: Mapping[str, int], waiting: Iterable[tuple[str, Why]]
) -> frozenset[str]:
    """Return the UIDs of sessions that go to sleep early, the longest idle first, no more than others wait for.

    `idle` is profile and last activity by UID, `draining` how many of each Profile are on their way already, `waiting` the
    Profile and the reason of each that waits.
    """
    of_profile, of_namespace = Counter[str](), 0
    for profile, why in waiting:
        if why is Why.PROFILE_FULL:
            of_profile[profile] += 1
        elif why is not Why.TOO_LARGE:
            of_namespace += 1
    of_namespace -= sum(max(0, count - of_profile[profile]) for profile, count in draining.items())
    of_profile.subtract(draining)
    chosen = set()
    for uid, (profile, _) in sorted(idle.items(), key=lambda item: (item[1][1], item[0])):
        if of_profile[profile] > 0:
            of_profile[profile] -= 1
            chosen.add(uid)
        elif of_namespace > 0:
            of_namespace -= 1
            chosen.add(uid)
    return frozenset(chosen)
