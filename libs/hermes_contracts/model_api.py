"""The streaming protocol between agents and the models service (docs/model-protocol.md).

`POST /v1/stream` with a bearer token and a `ModelRequest` as JSON; the answer is `application/x-ndjson`, one `ModelEvent` a
line, ended by exactly one `finish` or `error` event. A stream that ends otherwise was cut.
`GET /v1/model?purpose=...&model=...` with the same token answers with a `ModelInfo`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter

from hermes_contracts import PROTOCOL_VERSION
from hermes_contracts.conversation import Message, ToolSpec, Usage
from hermes_contracts.errors import ErrorCode

STREAM_PATH = "/v1/stream"
MODEL_PATH = "/v1/model"
CONTENT_TYPE = "application/x-ndjson"


PlaceName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
"""Where in a Profile a model stands: `model`, `model.fallbacks[0]`."""


class Purpose(StrEnum):
    """What a call is for: side jobs may have a model of their own in the Profile, and fall back to the main one."""

    TURN = "turn"
    COMPRESSION = "compression"
    TITLE = "title"
    VISION = "vision"
    APPROVAL = "approval"


class ModelRequest(BaseModel):
    """One model call. The token says whose it is; which provider and key serve it is the models service's matter."""

    version: int = PROTOCOL_VERSION
    turn_id: str = Field(max_length=64)
    step: int = Field(ge=0)
    conversation: str = Field(default="", max_length=64)
    """Names the prefix that providers cache."""
    purpose: Purpose = Purpose.TURN
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = Field(default=None, ge=1)
    model: str = Field(default="", max_length=200)
    """One of the Profile's `model.choices` by name, asked instead of its own; one that it does not offer is not asked."""
    passed_over: tuple[PlaceName, ...] = Field(default=(), max_length=8)
    """Models of the Profile that answered this with nothing, by `Finish.place`: somebody else is asked, or nobody."""


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
    """A piece of thinking. A piece with `signature`, `data` or `item_id` is the last one of its block."""

    type: Literal["reasoning"] = "reasoning"
    text: str = ""
    signature: str | None = None
    data: str | None = None
    item_id: str | None = None
    origin: str = ""


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


class Restart(_Event):
    """Another attempt begins, after a pause or with another provider: what came of this answer so far is void."""

    type: Literal["restart"] = "restart"
    code: ErrorCode
    """Why the attempt before failed."""
    message: str
    """Fit for the person in the chat."""
    attempt: int = Field(ge=2)
    wait_seconds: float = 0.0
    provider: str
    model: str
    """Who is asked next."""


class Heartbeat(_Event):
    """Sent while the provider is silent, so that a dead connection can be told from a thinking model."""

    type: Literal["heartbeat"] = "heartbeat"


class Finish(_Event):
    """The end of a good stream."""

    type: Literal["finish"] = "finish"
    reason: FinishReason
    usage: Usage = Usage()
    provider: str = ""
    model: str = ""
    context_window: int = 0
    """Tokens that this model can read; 0 when nobody knows."""
    place: str = ""
    """Where in the Profile this model stands."""


class ModelError(_Event):
    """The end of a bad stream; `message` is fit for the person in the chat."""

    type: Literal["error"] = "error"
    code: ErrorCode
    message: str
    retryable: bool = False
    retry_after_seconds: float | None = None
    context_window: int = 0
    """With CONTEXT_OVERFLOW: the limit that the provider named, in tokens; 0 when it named none."""


ModelEvent = Annotated[
    TextDelta | ReasoningDelta | ToolCallStart | ToolCallDelta | Restart | Heartbeat | Finish | ModelError,
    Field(discriminator="type"),
]
MODEL_EVENT: TypeAdapter[ModelEvent] = TypeAdapter(ModelEvent)
"""Reads one line of the stream."""


class ModelInfo(BaseModel):
    """What is known of the model that serves a purpose."""

    model_config = ConfigDict(frozen=True)

    version: int = PROTOCOL_VERSION
    provider: str
    model: str
    api_mode: str
    context_window: int
    """Tokens."""
    max_output_tokens: int
    vision: bool
    reasoning: bool
    prompt_cache: bool


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
