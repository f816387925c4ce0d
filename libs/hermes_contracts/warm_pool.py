"""What a pod that waits for a session and the operator say to each other before it has one.

The pod makes two keys in memory and publishes their public halves: one that its identity is sealed to, one that will be its
session's bus credential. Neither private half ever leaves it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hermes_contracts import PROTOCOL_VERSION
from hermes_contracts.agent_config import AgentConfig

WARM_FILE = "warm.json"
"""In the session folder of a pod without an identity, beside its bootstrap credential; a session's folder has none."""

HELLO_SECONDS = 2.0
"""Between hellos: an operator that has just become the leader knows all waiting pods after this."""

PodUid = Annotated[str, StringConstraints(pattern=r"^[0-9a-f][-0-9a-f]{7,63}$")]
"""One token of a subject: a Kubernetes UID holds no dots."""
BusKey = Annotated[str, StringConstraints(pattern=r"^U[A-Z2-7]{55}$")]
"""Public nkey of type user."""
SealKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{43}=$")]
"""X25519 public key, base64."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True)

    version: int = PROTOCOL_VERSION


class Waiting(_Message):
    """`warm.json`: what a pod needs to know to wait. Holds no secret."""

    pod_uid: PodUid
    bus_url: str
    models_url: str
    """Asked once beforehand, without a token, so that nothing is left to load when the first turn asks."""


class Hello(_Message):
    """On `hermes.warm.hello.<uid>`: a pod that waits, again and again; once more when it has taken an identity."""

    seal_key: SealKey
    bus_key: BusKey
    accepted: bool = False


class Sealed(_Message):
    """On `hermes.warm.claim.<uid>`: an `Identity` that only the pod that made `seal_key` can open."""

    box: Annotated[str, StringConstraints(max_length=512 * 1024)]
    """libsodium's sealed box of the JSON, base64."""


class Identity(_Message):
    """Who a waiting pod is from now on; it takes one and no other."""

    config: AgentConfig
    bus_jwt: str = Field(repr=False)
    models_token: str = Field(repr=False)
