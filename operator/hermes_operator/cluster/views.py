"""Trimmed copies of objects: what decisions need and nothing else, so that a thousand of them stay small."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hermes_contracts.crd.cron_job import CronJobSpec, CronJobStatus
from hermes_contracts.crd.profile import ProfileSpec, ProfileStatus
from hermes_contracts.crd.session import SessionSpec, SessionStatus
from hermes_contracts.names import (
    ANNOTATION_BUS_KEY,
    ANNOTATION_RUN_NOW,
    FINALIZER_PURGE,
    LABEL_CRON,
    LABEL_EPOCH,
    LABEL_SID,
    RoutingKey,
    session_id,
    session_id_of_object,
)
from hermes_operator.build.meta import ANNOTATION_TEMPLATE, MANAGED_BY, OPERATOR
from hermes_operator.build.quantity import to_bytes

Manifest = dict[str, Any]
MAX_RUN_NOW = 256
"""Characters of the annotation that count."""


def timestamp(text: str | None) -> float:
    """Return a Kubernetes time in seconds since the epoch; 0 for none."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else 0.0


def _metadata(meta: Manifest) -> dict[str, Any]:
    """Return the fields that the views of all our kinds have in common."""
    return {
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
        "resource_version": meta.get("resourceVersion", ""),
        "generation": meta.get("generation", 0),
        "created_at": timestamp(meta.get("creationTimestamp")),
        "deleting": "deletionTimestamp" in meta,
    }


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A HermesSession as the cache keeps it: what is looked for in plain sight, the rest as JSON, a tenth as large."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created_at: float
    deleting: bool
    made_by_operator: bool
    finalized: bool
    profile: str
    owner: str
    cron: str
    state: str
    pod: str
    spec: bytes
    status: bytes

    def view(self) -> SessionView:
        """Return the whole object."""
        return SessionView(
            namespace=self.namespace,
            name=self.name,
            uid=self.uid,
            resource_version=self.resource_version,
            generation=self.generation,
            created_at=self.created_at,
            deleting=self.deleting,
            made_by_operator=self.made_by_operator,
            finalized=self.finalized,
            cron=self.cron,
            spec=SessionSpec.model_validate_json(self.spec),
            status=SessionStatus.model_validate_json(self.status),
        )


@dataclass(frozen=True, slots=True)
class SessionView:
    """A HermesSession."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created_at: float
    deleting: bool
    made_by_operator: bool
    spec: SessionSpec
    status: SessionStatus
    finalized: bool = False
    """It stays after its deletion until we have purged what it stands for."""
    cron: str = ""
    """UID of the HermesCronJob whose run it is."""

    @classmethod
    def read(cls, body: Manifest) -> SessionView:
        """Read an object as the API server gave it."""
        meta = body["metadata"]
        return cls(
            **_metadata(meta),
            made_by_operator=(meta.get("labels") or {}).get(MANAGED_BY) == OPERATOR,
            spec=SessionSpec.model_validate(body["spec"]),
            status=SessionStatus.model_validate(body.get("status") or {}),
            finalized=FINALIZER_PURGE in (meta.get("finalizers") or ()),
            cron=(meta.get("labels") or {}).get(LABEL_CRON, ""),
        )

    def record(self) -> SessionRecord:
        """Return what the cache keeps."""
        return SessionRecord(
            namespace=sys.intern(self.namespace),
            name=self.name,
            uid=self.uid,
            resource_version=self.resource_version,
            generation=self.generation,
            created_at=self.created_at,
            deleting=self.deleting,
            made_by_operator=self.made_by_operator,
            finalized=self.finalized,
            profile=sys.intern(self.spec.profile_ref.name),
            owner=sys.intern(self.spec.owner),
            cron=sys.intern(self.cron),
            state=sys.intern(self.status.state),
            pod=self.status.pod,
            spec=self.spec.model_dump_json(by_alias=True, exclude_defaults=True).encode(),
            status=self.status.model_dump_json(by_alias=True, exclude_defaults=True).encode(),
        )

    def sid(self, namespace_uid: str) -> str:
        """Return the session id: of the routing key, or of the object when a person made it without one."""
        if self.spec.key is None:
            return session_id_of_object(self.uid)
        return session_id(namespace_uid, self.spec.profile_ref.name, self.spec.key)

    def key(self) -> RoutingKey:
        """Return the routing key; an object without one gets its own, which no channel has."""
        return self.spec.key or RoutingKey(channel="object", chat=self.uid)


@dataclass(frozen=True, slots=True)
class ProfileView:
    """A Profile."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created_at: float
    deleting: bool
    spec: ProfileSpec
    status: ProfileStatus

    @classmethod
    def read(cls, body: Manifest) -> ProfileView:
        """Read an object as the API server gave it."""
        return cls(
            **_metadata(body["metadata"]),
            spec=ProfileSpec.model_validate(body["spec"]),
            status=ProfileStatus.model_validate(body.get("status") or {}),
        )


@dataclass(frozen=True, slots=True)
class CronJobView:
    """A HermesCronJob. `run_now` is the annotation that asks for a run."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created_at: float
    deleting: bool
    run_now: str
    spec: CronJobSpec
    status: CronJobStatus

    @classmethod
    def read(cls, body: Manifest) -> CronJobView:
        """Read an object as the API server gave it."""
        meta = body["metadata"]
        return cls(
            **_metadata(meta),
            run_now=(meta.get("annotations") or {}).get(ANNOTATION_RUN_NOW, "")[:MAX_RUN_NOW],
            spec=CronJobSpec.model_validate(body["spec"]),
            status=CronJobStatus.model_validate(body.get("status") or {}),
        )


@dataclass(frozen=True, slots=True)
class ContainerView:
    """How a container does. `started` is the kubelet's word that it runs."""

    started: bool = False
    restarts: int = 0
    waiting_reason: str = ""
    waiting_message: str = ""
    ended_reason: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class PodView:
    """An agent's pod."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    sid: str
    epoch: int
    created_at: float
    deleting: bool
    phase: str
    reason: str
    message: str
    scheduled: bool
    schedule_message: str
    template: str
    containers: dict[str, ContainerView] = field(default_factory=dict)
    host_aliases: frozenset[str] = frozenset()
    """Addresses that its /etc/hosts names, fixed when it was made."""
    bus_key: str = ""
    """It waited for its session: public key of a credential that only its agent's memory holds."""
    memory: int = 0
    """Bytes that its containers request together."""
    gone_by: float = 0.0
    """When it was deleted: until when its containers may take to end, in seconds since the epoch; 0 otherwise."""

    @classmethod
    def read(cls, body: Manifest) -> PodView:
        """Read an object as the API server gave it. Raises KeyError or ValueError for a pod that is not ours."""
        meta, status = body["metadata"], body.get("status") or {}
        conditions = {c["type"]: c for c in status.get("conditions") or []}
        scheduled = conditions.get("PodScheduled", {})
        statuses = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
        return cls(
            namespace=meta["namespace"],
            name=meta["name"],
            uid=meta["uid"],
            resource_version=meta.get("resourceVersion", ""),
            sid=meta["labels"][LABEL_SID],
            epoch=int(meta["labels"][LABEL_EPOCH]),
            created_at=timestamp(meta.get("creationTimestamp")),
            deleting="deletionTimestamp" in meta,
            phase=status.get("phase", "Pending"),
            reason=status.get("reason", ""),
            message=(status.get("message") or "")[:500],
            scheduled=scheduled.get("status") == "True",
            schedule_message=(scheduled.get("message") or "")[:500] if scheduled.get("status") == "False" else "",
            template=(meta.get("annotations") or {}).get(ANNOTATION_TEMPLATE, ""),
            containers={entry["name"]: _container(entry) for entry in statuses},
            host_aliases=frozenset(alias["ip"] for alias in body.get("spec", {}).get("hostAliases") or []),
            bus_key=(meta.get("annotations") or {}).get(ANNOTATION_BUS_KEY, ""),
            memory=_memory(body.get("spec") or {}),
            gone_by=timestamp(meta.get("deletionTimestamp")),
        )


def _memory(spec: Manifest) -> int:
    """Sum what containers that stay request; what somebody's webhook added in a notation of its own is left out."""
    total = 0
    sidecars = (c for c in spec.get("initContainers") or [] if c.get("restartPolicy") == "Always")
    for container in (*sidecars, *(spec.get("containers") or [])):
        with contextlib.suppress(ValueError):
            total += to_bytes(((container.get("resources") or {}).get("requests") or {}).get("memory", "0"))
    return total


def _container(status: Manifest) -> ContainerView:
    state = status.get("state") or {}
    waiting = state.get("waiting") or {}
    ended = state.get("terminated") or (status.get("lastState") or {}).get("terminated") or {}
    return ContainerView(
        started="running" in state,
        restarts=status.get("restartCount", 0),
        waiting_reason=waiting.get("reason", ""),
        waiting_message=(waiting.get("message") or "")[:500],
        ended_reason=ended.get("reason", ""),
        exit_code=ended.get("exitCode"),
    )
