"""Profile: who an agent is."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hermes_contracts.crd.base import ApiModel, Condition, Quantity, Resources, SecretRef

Provider = Literal["openai", "anthropic", "scripted"]
Toolset = Literal["terminal", "file"]


class ModelSettings(ApiModel):
    """Which model answers, and with whose key."""

    provider: Provider = Field(
        description="Wire format: openai (Chat Completions and everything compatible), anthropic (Messages), or scripted "
        "(the bundled model that answers by script, for a first look and for tests)"
    )
    name: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="Model name as the provider calls it"
    )
    base_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$", max_length=500)] | None = Field(
        default=None, description="Address of a compatible endpoint; default is the provider's own"
    )
    secret_ref: SecretRef | None = Field(
        default=None,
        description="Secret of type hermes.run/provider with keys `api-key` and `hosts` (comma-separated hosts the key may "
        "be sent to)",
    )
    max_output_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="Longest answer of one model call, in tokens; default is the provider's"
    )


class Budgets(ApiModel):
    """Where a turn stops by itself."""

    max_iterations: int = Field(default=90, ge=1, le=10_000, description="Model calls in one turn")
    max_turn_seconds: int = Field(default=1800, ge=10, le=86_400, description="Wall-clock seconds of one turn")


class Workspace(ApiModel):
    """Where a session's files live."""

    kind: Literal["Ephemeral", "PersistentVolumeClaim"] = Field(
        default="Ephemeral",
        description="Ephemeral is gone when the session sleeps; a claim stays until the session is deleted",
    )
    size: Quantity = Field(default="1Gi", description="Bytes the workspace may hold")
    storage_class_name: Annotated[str, StringConstraints(max_length=253)] | None = Field(
        default=None, description="StorageClass of the claim; default is the cluster's"
    )


class Sandbox(ApiModel):
    """The container that runs every command."""

    image: Annotated[str, StringConstraints(max_length=500)] | None = Field(
        default=None, description="Image that contains sandboxd; default is the installation's sandbox image"
    )
    resources: Resources = Field(default=Resources(cpu="100m", memory="512Mi"), description="What commands may use")
    runtime_class_name: Annotated[str, StringConstraints(max_length=253)] | None = Field(
        default=None, description="RuntimeClass of the session's pod, for example gvisor"
    )
    workspace: Workspace = Field(default=Workspace(), description="Where files live")
    egress: Literal["None", "Internet"] = Field(
        default="None",
        description="None: the platform's own services only, not even DNS; Internet: public addresses, no private ones",
    )


class Agent(ApiModel):
    """The container that runs the loop."""

    resources: Resources = Field(default=Resources(cpu="50m", memory="192Mi"), description="What the loop may use")


class ProfileSpec(ApiModel):
    """Who an agent is."""

    persona: Annotated[str, StringConstraints(max_length=16_384)] = Field(
        default="", description="Identity of the agent, first in its system prompt; default is the built-in one"
    )
    model: ModelSettings = Field(description="Which model answers")
    toolsets: tuple[Toolset, ...] = Field(
        default=("terminal", "file"), max_length=16, description="Groups of tools that the model may use"
    )
    idle_timeout_seconds: int = Field(
        default=900, ge=5, le=604_800, description="Seconds without activity after which a session's pod goes to sleep"
    )
    budgets: Budgets = Field(default=Budgets(), description="Where a turn stops by itself")
    sandbox: Sandbox = Field(default=Sandbox(), description="The container that runs every command")
    agent: Agent = Field(default=Agent(), description="The container that runs the loop")


class ProfileStatus(ApiModel):
    """What the operator found."""

    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    live_sessions: int = Field(default=0, description="Sessions with a pod")
    asleep_sessions: int = Field(default=0, description="Sessions without one")


PROFILE_RULES: tuple[tuple[str, str, str], ...] = (
    ("", "self.metadata.name.size() <= 52", "metadata.name must have at most 52 characters"),
    ("", "!self.metadata.name.contains('.')", "metadata.name must be one DNS label: no dots"),
    (
        "spec.model",
        "self.provider == 'scripted' || has(self.secretRef)",
        "model.secretRef is required: name a Secret of type hermes.run/provider that holds the provider's key",
    ),
    (
        "spec.model",
        "self.provider != 'scripted' || (!has(self.secretRef) && !has(self.baseUrl))",
        "provider scripted needs no key and has no address: remove model.secretRef and model.baseUrl",
    ),
)
"""CEL rules: (path below the root, expression, message)."""
