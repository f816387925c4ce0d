"""Settings of the operator, all from `HERMES_` variables; lists and maps are JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from hermes_contracts.crd.base import Quantity
from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.names import DnsLabel, ObjectName
from hermes_operator.build.quantity import to_bytes
from hermes_operator.reconcile.admission import Room
from hermes_service.settings import ProcessSettings


class NamespaceLimits(BaseModel):
    """What an administrator allows one namespace; null: no limit."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    max_live_sessions: int | None = Field(default=None, ge=1)
    """Sessions that may have a pod at once."""
    memory: Quantity | None = None
    """Memory that their pods may request together."""

    def room(self) -> Room:
        """Return it in numbers."""
        return Room(self.max_live_sessions, to_bytes(self.memory) if self.memory is not None else None)


class OperatorSettings(ProcessSettings):
    """What one operator needs to know."""

    release: DnsLabel = "hermes"
    namespace: DnsLabel
    """Namespace of the installation."""
    tenants: tuple[DnsLabel, ...] = Field(min_length=1)
    """Namespaces whose Profiles and sessions are served."""
    pod_name: str = "operator"
    """Identity in the Lease; two operators must not share it."""

    agent_image: str
    sandbox_image: str
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()

    models_url: str
    bus_selector: dict[str, str] = Field(default_factory=lambda: {"app.kubernetes.io/component": "bus"})
    """Labels of the bus's pods; empty when the bus is outside of the cluster, then its address counts."""
    bus_namespace: str = ""
    """Of those pods; empty: the release's."""
    models_selector: dict[str, str] = Field(default_factory=lambda: {"app.kubernetes.io/component": "models"})
    blocked_cidrs: tuple[str, ...] = ()
    """Addresses that egress class Internet excludes beside private and special ones: nodes, API server, pods, services."""

    limits: dict[DnsLabel, NamespaceLimits] = Field(default_factory=dict)
    """What the sessions of a tenant may have together, by namespace."""
    first_profile: str = ""
    """JSON of a Profile's spec; the operator makes it in the first tenant when no Profile of that name is there."""
    first_profile_name: ObjectName = "default"

    workers: int = Field(default=8, ge=1, le=64)
    sweep_seconds: float = Field(default=4.0, gt=0, le=5)
    resync_seconds: float = Field(default=600.0, ge=1)
    asleep_ttl_seconds: int = Field(default=604_800, ge=0)
    """A session that a message made is deleted after sleeping this long; the next message makes it again. 0: never."""
    bury_seconds: float = Field(default=600.0, ge=1)
    """A message waits this long for a Profile that is not there; then it is given up and its sender told."""
    bury_suspended_seconds: float = Field(default=604_800.0, ge=1)
    """The same for a session that is suspended."""
    gone_namespace_seconds: float = Field(default=604_800.0, ge=0)
    """What is left of a namespace's sessions is deleted when the namespace has been gone for this long."""
    gone_check_seconds: float = Field(default=3600.0, gt=0)
    renew_seconds: float = Field(default=1200.0, ge=1, le=1800)
    """Agents get fresh credentials this often; the token for the models service lives for an hour."""
    silence_seconds: float = Field(default=300.0, ge=1)
    """A pod that runs and whose agent has said nothing for this long is replaced."""
    lease_seconds: int = Field(default=10, ge=3)
    """A leader that dies is followed after this and a seventh of it: well within 15 s."""
    kubeconfig: Path | None = None
    """Outside of a cluster only."""

    @field_validator("first_profile")
    @classmethod
    def _is_a_profile(cls, value: str) -> str:
        if value:
            ProfileSpec.model_validate_json(value)
        return value
