"""The streaming protocol between agents and the models service (docs/model-protocol.md).

`POST /v1/stream` with a bearer token and a `ModelRequest` as JSON; the answer is `application/x-ndjson`, one `ModelEvent` a
line, ended by exactly one `finish` or `error` event. A stream that ends otherwise was cut.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from hermes_contracts import PROTOCOL_VERSION
from hermes_contracts.conversation import Message, ToolSpec, Usage
from hermes_contracts.errors import ErrorCode

STREAM_PATH = "/v1/stream"
CONTENT_TYPE = "application/x-ndjson"


class ModelRequest(BaseModel):
    """One model call. The token says whose it is; which provider and key serve it is the models service's matter."""

    version: int = PROTOCOL_VERSION
    turn_id: str = Field(max_length=64)
    step: int = Field(ge=0)
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = Field(default=None, ge=1)


class FinishReason(StrEnum):
    """Why a model stopped."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSED = "refused"


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True)


class TextDelta(_Event):
    """A piece of the answer."""

    type: Literal["text"] = "text"
    text: str


class ReasoningDelta(_Event):
    """A piece of thinking; a signature comes with the last piece of a block."""

    type: Literal["reasoning"] = "reasoning"
    text: str = ""
    signature: str | None = None


class ToolCallStart(_Event):
    """A call begins; `index` orders calls and ties pieces to it."""

    type: Literal["tool_call_start"] = "tool_call_start"
    index: int
    id: str
    name: str


class ToolCallDelta(_Event):
    """A piece of a call's arguments, as JSON text."""

    type: Literal["tool_call_delta"] = "tool_call_delta"
    index: int
    arguments: str


class Heartbeat(_Event):
    """Sent while the provider is silent, so that a dead connection can be told from a thinking model."""

    type: Literal["heartbeat"] = "heartbeat"


class Finish(_Event):
    """The end of a good stream."""

    type: Literal["finish"] = "finish"
    reason: FinishReason
    usage: Usage = Usage()
    model: str = ""


class ModelError(_Event):
    """The end of a bad stream; `message` is fit for the person in the chat."""

    type: Literal["error"] = "error"
    code: ErrorCode
    message: str
    retryable: bool = False
    retry_after_seconds: float | None = None


ModelEvent = Annotated[
    TextDelta | ReasoningDelta | ToolCallStart | ToolCallDelta | Heartbeat | Finish | ModelError,
    Field(discriminator="type"),
]
MODEL_EVENT: TypeAdapter[ModelEvent] = TypeAdapter(ModelEvent)
"""Reads one line of the stream."""


class SessionClaims(BaseModel):
    """Claims of the token an agent shows the models service: a JWT signed with ed25519 by the operator.

    `iss` "hermes-operator", `aud` "hermes-models", `sub` is the sid; lives one hour.
    """

    iss: str
    aud: str
    sub: str
    exp: int
    namespace: str
    profile: str
    epoch: int


TOKEN_ISSUER = "hermes-operator"
TOKEN_AUDIENCE = "hermes-models"
TOKEN_SECONDS = 3600
