"""The kinds that are listed and watched, and who takes what is seen of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hermes_contracts.names import LABEL_COMPONENT, LABEL_PART_OF
from hermes_operator.build.meta import COMPONENT_AGENT, PART_OF
from hermes_operator.cluster.cache import Shelf
from hermes_operator.cluster.client import Manifest
from hermes_operator.cluster.resources import CRON_JOBS, PODS, PROFILES, SESSIONS, Resource
from hermes_operator.observer import Identity, Observer
from hermes_operator.state import Shared

POD_SELECTOR = f"{LABEL_PART_OF}={PART_OF},{LABEL_COMPONENT}={COMPONENT_AGENT}"
"""Only agents' pods, with a session or waiting for one, travel over the watch and into memory."""


@dataclass(frozen=True)
class Watched:
    """One kind. `take` and `drop` tell whether what they were given was news."""

    resource: Resource
    labels: str
    take: Callable[[str | None, Manifest], bool]
    drop: Callable[[Identity], bool]
    known: Callable[[str], list[Identity]]
    """What the cache holds of a namespace."""


def watched_kinds(shared: Shared, observer: Observer) -> tuple[Watched, ...]:
    """Return the kinds: Profiles first and sessions before pods, so that a pass finds what it refers to."""
    cache = shared.cache
    return (
        Watched(PROFILES, "", observer.take_profile, observer.drop_profile, _known(cache.profiles)),
        Watched(SESSIONS, "", observer.take_session, observer.drop_session, _known(cache.sessions)),
        Watched(CRON_JOBS, "", observer.take_cron_job, observer.drop_cron_job, _known(cache.cron_jobs)),
        Watched(PODS, POD_SELECTOR, observer.take_pod, observer.drop_pod, _known(cache.pods, cache.warm)),
    )


def _known(*shelves: Shelf[Any]) -> Callable[[str], list[Identity]]:
    return lambda namespace: [
        (i.namespace, i.name, i.uid) for shelf in shelves for i in shelf.all() if i.namespace == namespace
    ]
