"""HermesSession: one isolated agent."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hermes_contracts.crd.base import ApiModel, Condition, ObjectRef
from hermes_contracts.names import RoutingKey


class SessionSpec(ApiModel):
    """What a session is. Only `suspend`, `idleTimeoutSeconds` and `deletionPolicy` may change after it was made."""

    profile_ref: ObjectRef = Field(description="Profile that the agent takes its settings from")
    key: RoutingKey | None = Field(
        default=None,
        description="Where the conversation lives; set for sessions made from a message. Cannot be changed",
    )
    owner: Annotated[str, StringConstraints(max_length=200)] = Field(
        default="", description="Who the session belongs to, as the gateway authorised them. Cannot be changed"
    )
    suspend: bool = Field(default=False, description="True: no pod, whatever waits; false: the next message wakes it")
    idle_timeout_seconds: int | None = Field(
        default=None, ge=5, le=604_800, description="Overrides the Profile's idle timeout"
    )
    deletion_policy: Literal["Keep", "Purge"] = Field(
        default="Keep",
        description="What deleting this object does to the conversation: Keep leaves it in the store, and the next message "
        "brings it back; Purge deletes it with everything it holds, and the object stays until that is done",
    )


class StartupBreakdown(ApiModel):
    """Milliseconds from the decision to start a pod to the agent's first word on the bus."""

    total: float = 0
    scheduled: float = 0
    started: float = 0
    imports: float = 0
    connected: float = 0


class SessionStatus(ApiModel):
    """What is true of the session. Written on transitions, otherwise at most once a minute."""

    observed_generation: int = 0
    id: str = Field(default="", description="Session id: keys its subjects and its rows")
    state: str = Field(default="", description="Asleep, Queued, Starting, Ready, Busy, Draining, Suspended or Failed")
    conditions: tuple[Condition, ...] = ()
    pod: str = Field(default="", description="Name of the pod, if there is one")
    epoch: int = Field(default=0, description="How often the session was started; a mirror of the store's")
    isolation: str = Field(default="", description="Container or VM: what stands between a command and the agent")
    last_activity: str | None = Field(default=None, description="When the last turn began or ended")
    pending: int = Field(default=0, description="Messages that wait")
    queue_position: int = Field(
        default=0, description="Place among the sessions that wait to be started; 0: it does not wait"
    )
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: str = Field(default="", description="US dollars spent, as far as prices are known")
    startup_milliseconds: StartupBreakdown | None = None


SESSION_RULES: tuple[tuple[str, str, str], ...] = (
    ("", "self.metadata.name.size() <= 52", "metadata.name must have at most 52 characters"),
    ("", "!self.metadata.name.contains('.')", "metadata.name must be one DNS label: no dots"),
    ("spec.profileRef", "self == oldSelf", "profileRef cannot be changed; make another session"),
    (
        "spec",
        "has(self.key) == has(oldSelf.key) && (!has(self.key) || self.key == oldSelf.key)",
        "key cannot be changed; make another session",
    ),
    ("spec", "self.owner == oldSelf.owner", "owner cannot be changed"),
)
"""CEL rules: (path below the root, expression, message)."""
