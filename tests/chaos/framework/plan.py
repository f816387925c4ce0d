"""Who is killed, when and how: a function of the seed, so that a run can be repeated."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

SESSIONS = ("agent", "sandbox")
"""Containers of sessions' pods."""
SERVICES = ("operator", "gateway", "store", "models", "bus", "database")
"""Components of the installation."""
TARGETS = (*SESSIONS, *SERVICES)

Way = Literal["process", "pod"]
"""`process`: SIGKILL to the container's first process. `pod`: the pod is deleted with no time to end."""


@dataclass(frozen=True)
class Kill:
    """One kill. `at`: seconds after the start; `pick`: from 0 to below 1, which of those that are there."""

    at: float
    target: str
    way: Way
    pick: float

    def of(self, candidates: Sequence[str]) -> str:
        """Return the victim among names, sorted."""
        return sorted(candidates)[int(self.pick * len(candidates))]


def plan(seed: int, each: int, seconds: float, targets: Sequence[str] = TARGETS) -> list[Kill]:
    """Return `each` kills of every target over so many seconds, in rounds whose orders the seed decides."""
    dice = random.Random(seed)
    order = [target for _ in range(each) for target in dice.sample(list(targets), len(targets))]
    gap = seconds / max(1, len(order))
    return [
        Kill(at=round(gap * (number + dice.random()), 1), target=target, way=_way(target, dice), pick=dice.random())
        for number, target in enumerate(order)
    ]


def _way(target: str, dice: random.Random) -> Way:
    """Return how: a sandbox has no pod of its own, and services are killed where no handler can soften it."""
    return dice.choice(("process", "pod")) if target == "agent" else "process"


def replay(seed: int, each: int, seconds: float) -> str:
    """Return the command that runs the same plan again."""
    return f"CHAOS_SEED={seed} CHAOS_KILLS={each} CHAOS_SECONDS={seconds:g} make chaos"
