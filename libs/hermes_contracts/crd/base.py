"""What every kind is built from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from hermes_contracts.names import ObjectName

QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"
Quantity = Annotated[str, StringConstraints(pattern=QUANTITY, max_length=20)]
"""A Kubernetes quantity: 500m, 256Mi, 2Gi."""


class ApiModel(BaseModel):
    """A piece of a resource: camelCase in Kubernetes, and extra fields ignored when we read (the API server is strict)."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)


class ObjectRef(ApiModel):
    """A reference to an object in the same namespace."""

    name: ObjectName = Field(description="Name of the object, in the same namespace")


class SecretRef(ApiModel):
    """A reference to a Secret in the same namespace."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=253)] = Field(
        description="Name of the Secret, in the same namespace"
    )


class Condition(ApiModel):
    """A condition as Kubernetes' conventions have it."""

    type: Annotated[str, StringConstraints(max_length=64)]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, StringConstraints(max_length=128)]
    message: Annotated[str, StringConstraints(max_length=1024)] = ""
    last_transition_time: str
    observed_generation: int = 0


class Resources(ApiModel):
    """What a container may use: memory is requested whole, disk to an eighth; CPU is requested and not capped."""

    cpu: Quantity = Field(default="100m", description="CPU requested; idle CPU of the node may be used beyond it")
    memory: Quantity = Field(default="256Mi", description="Memory requested and allowed")
    ephemeral_storage: Quantity = Field(default="1Gi", description="Disk of the node that may be used")
