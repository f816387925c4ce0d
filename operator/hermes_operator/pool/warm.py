"""The nouns of the warm pool: a pod that waits, what is known of it, what is planned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hermes_contracts.names import LABEL_POOL
from hermes_operator.build.pod import AGENT
from hermes_operator.cluster.views import timestamp

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WarmPod:
    """A pod without a session."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    group: str
    """Its class: what it was made from."""
    created_at: float
    deleting: bool
    broken: str = ""
    """Why it can be nobody's, or empty."""
    profiles: tuple[str, ...] = field(default=())
    """Names of the Profiles that own it."""

    @classmethod
    def read(cls, body: Manifest) -> WarmPod:
        """Read an object as the API server gave it. Raises KeyError for a pod that does not wait."""
        meta, status = body["metadata"], body.get("status") or {}
        return cls(
            namespace=meta["namespace"],
            name=meta["name"],
            uid=meta["uid"],
            resource_version=meta.get("resourceVersion", ""),
            group=meta["labels"][LABEL_POOL],
            created_at=timestamp(meta.get("creationTimestamp")),
            deleting="deletionTimestamp" in meta,
            broken=_broken(status),
            profiles=tuple(owner["name"] for owner in meta.get("ownerReferences") or []),
        )


def _broken(status: Manifest) -> str:
    if status.get("phase") in ("Failed", "Succeeded"):
        return str(status.get("reason") or "PodEnded")
    for entry in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        if entry.get("restartCount", 0) > 0:
            return "AgentRestarted" if entry["name"] == AGENT else "SandboxRestarted"
    return ""


@dataclass(frozen=True)
class Group:
    """One class of a namespace: how many pods of it shall wait."""

    size: int
    not_before: float = 0.0
    """Nothing is made before this: what was made last broke, or a session has just started."""


@dataclass(frozen=True)
class ObservedPool:
    """Everything that a decision about one namespace's warm pods rests on."""

    groups: dict[str, Group]
    pods: tuple[WarmPod, ...]
    heard: frozenset[str]
    """UIDs of the pods that said hello."""
    reserved: frozenset[str]
    """UIDs of pods that are being claimed at this moment."""
    listening_since: float
    """A hello that was said before was not heard."""


@dataclass(frozen=True)
class Discard:
    """Delete a pod; one that failed delays the next."""

    pod: WarmPod
    reason: str
    failed: bool


@dataclass(frozen=True)
class PoolPlan:
    """What to do now, and when to look again."""

    discard: tuple[Discard, ...] = ()
    make: tuple[str, ...] = ()
    """Classes of the pods to make, one entry each."""
    due: float | None = None
