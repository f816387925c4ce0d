"""How many pods wait: `decide_pool` is a function of what was observed and of the time, and of nothing else."""

from __future__ import annotations

from hermes_operator.pool.warm import Discard, Group, ObservedPool, PoolPlan, WarmPod

STARTING_AT_ONCE = 2
"""Pods of one namespace that start at the same time: sessions that start need the node too."""
START_SECONDS = 120.0
"""A pod that has not said hello by then is replaced."""
MAX_AGE_SECONDS = 4 * 3600.0
"""Well below the life of a bootstrap credential."""
LOOK_AGAIN_SECONDS = 5.0


def failure_delay(failures: int) -> float:
    """Return the seconds to wait after this many pods in a row that came to nothing."""
    return 0.0 if failures <= 0 else min(300.0, 5.0 * 2.0 ** min(failures - 1, 10))


def decide_pool(observed: ObservedPool, now: float) -> PoolPlan:
    """Return which waiting pods of a namespace to delete and which to make. Pods that are being claimed are left alone."""
    pods = [pod for pod in observed.pods if not pod.deleting and pod.uid not in observed.reserved]
    discard = [found for pod in pods if (found := _useless(observed, pod, now)) is not None]
    gone = {found.pod.uid for found in discard}
    kept = [pod for pod in pods if pod.uid not in gone]
    discard += _surplus(observed, kept)
    gone = {found.pod.uid for found in discard}
    kept = [pod for pod in kept if pod.uid not in gone]
    starting = sum(1 for pod in kept if pod.uid not in observed.heard)
    make = list[str]()
    later = list[float]()
    for name, group in sorted(observed.groups.items()):
        missing = group.size - sum(1 for pod in kept if pod.group == name)
        if missing > 0 and group.not_before > now:
            later.append(group.not_before)
            continue
        make += [name] * min(missing, max(0, STARTING_AT_ONCE - starting - len(make)))
    if starting or discard or make:
        later.append(now + LOOK_AGAIN_SECONDS)
    later += [pod.created_at + MAX_AGE_SECONDS for pod in kept]
    return PoolPlan(tuple(discard), tuple(make), min(later, default=None))


def _useless(observed: ObservedPool, pod: WarmPod, now: float) -> Discard | None:
    if pod.broken:
        return Discard(pod, pod.broken, failed=True)
    if pod.group not in observed.groups:
        return Discard(pod, "Outdated", failed=False)
    if now - pod.created_at > MAX_AGE_SECONDS:
        return Discard(pod, "Old", failed=False)
    if pod.uid not in observed.heard and now - max(pod.created_at, observed.listening_since) > START_SECONDS:
        return Discard(pod, "Silent", failed=True)
    return None


def _surplus(observed: ObservedPool, pods: list[WarmPod]) -> list[Discard]:
    """Return the pods above a class's size: those that still start first, then the newest."""
    found = list[Discard]()
    for name, group in observed.groups.items():
        mine = [pod for pod in pods if pod.group == name]
        mine.sort(key=lambda pod: (pod.uid not in observed.heard, pod.created_at, pod.uid))
        found += [Discard(pod, "Surplus", failed=False) for pod in mine[max(0, group.size) :]]
    return found


def merge(groups: list[tuple[str, int]], not_before: dict[str, float]) -> dict[str, Group]:
    """Add up what each Profile wants of its class."""
    sizes = dict[str, int]()
    for name, size in groups:
        sizes[name] = sizes.get(name, 0) + size
    return {name: Group(size, not_before.get(name, 0.0)) for name, size in sizes.items() if size > 0}
