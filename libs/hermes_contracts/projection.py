"""What the gateway may know of a Profile: written by the operator into a bucket, free of secrets."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from hermes_contracts import PROTOCOL_VERSION
from hermes_contracts.crd.channels import ChannelRules
from hermes_contracts.names import DnsLabel, ObjectName


class ProfileProjection(BaseModel):
    """One Profile. Stored under `key(namespace, name)`; a deleted Profile's entry is deleted."""

    model_config = ConfigDict(frozen=True)

    version: int = PROTOCOL_VERSION
    namespace: DnsLabel
    namespace_uid: str
    name: ObjectName
    model: str
    provider: str
    choices: tuple[str, ...] = ()
    """Other models that people may choose for a conversation, by name."""
    ready: bool
    message: str
    """Why it is not ready, in words for the person who asks."""
    channels: tuple[ChannelRules, ...] = ()
    """Who may use it where."""
    approvers: tuple[str, ...] = ()
    """People who may answer an agent's questions for others."""
    approvals: str = ""
    """`spec.approvals.mode`; empty from an operator that does not say."""
    created_at: float
    """Seconds since the epoch."""


def key(namespace: str, name: str) -> str:
    """Return the bucket key of a Profile; both parts are DNS labels, so the dot is unambiguous."""
    return f"{namespace}.{name}"
