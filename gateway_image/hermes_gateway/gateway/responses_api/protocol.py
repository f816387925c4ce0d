"""The bodies of the Responses protocol, as far as we read and write them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hermes_contracts.conversation import Usage
from hermes_gateway.gateway.openai_api.protocol import HermesExtension
from hermes_gateway.gateway.spending import Spending

Metadata = Annotated[
    dict[Annotated[str, StringConstraints(min_length=1, max_length=64)], Annotated[str, StringConstraints(max_length=512)]],
    Field(max_length=16),
]
"""The caller's own notes on a response: at most 16."""

Status = Literal["completed", "failed", "in_progress", "queued"]


class _Read(BaseModel):
    model_config = ConfigDict(extra="ignore")


class NamedConversation(_Read):
    """A conversation by its id."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=128)]


class TextFormat(_Read):
    """The form of the answer; only text is possible."""

    type: str = "text"


class TextSettings(_Read):
    """Settings of the answer's text."""

    format: TextFormat | None = None


class ResponsesRequest(_Read):
    """Body of `POST /v1/responses`. Settings of the model (temperature and the like) are the Profile's: ignored."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    input: str | list[dict[str, object]]
    instructions: str | None = None
    previous_response_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    conversation: Annotated[str, StringConstraints(min_length=1, max_length=128)] | NamedConversation | None = None
    stream: bool | None = False
    background: bool | None = False
    store: bool | None = True
    metadata: Metadata | None = None
    user: Annotated[str, StringConstraints(max_length=256)] | None = None
    tools: list[object] | None = None
    text: TextSettings | None = None
    prompt: object | None = None


class OutputText(BaseModel):
    """Text of the answer."""

    type: Literal["output_text"] = "output_text"
    text: str
    annotations: list[object] = Field(default_factory=list)
    logprobs: list[object] = Field(default_factory=list)


class OutputMessage(BaseModel):
    """The assistant's message."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    status: Literal["in_progress", "completed"] = "completed"
    content: list[OutputText]


class InputTokensDetails(BaseModel):
    """Which input tokens were cheap."""

    cached_tokens: int


class OutputTokensDetails(BaseModel):
    """Which output tokens were thinking."""

    reasoning_tokens: int


class ResponseUsage(BaseModel):
    """Tokens of the whole turn, all of its model calls together; `hermes` says more, and what they cost."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int
    hermes: Spending

    @classmethod
    def of(cls, usage: Usage) -> ResponseUsage:
        """Count as OpenAI does."""
        return cls(
            input_tokens=usage.input_tokens,
            input_tokens_details=InputTokensDetails(cached_tokens=usage.cached_input_tokens),
            output_tokens=usage.output_tokens,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=usage.reasoning_tokens),
            total_tokens=usage.input_tokens + usage.output_tokens,
            hermes=Spending.of(usage),
        )


class ResponseProblem(BaseModel):
    """Why a response failed."""

    code: Literal["server_error"] = "server_error"
    message: str


class NamedBack(BaseModel):
    """The conversation that a response belongs to."""

    id: str


class ResponseObject(BaseModel):
    """A response. What OpenAI's object has beyond it and we decide nothing about, is there with its plain value."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Status
    background: bool
    error: ResponseProblem | None = None
    incomplete_details: None = None
    instructions: None = None
    metadata: dict[str, str]
    model: str
    output: list[OutputMessage]
    parallel_tool_calls: bool = True
    previous_response_id: str | None
    conversation: NamedBack
    store: bool
    temperature: None = None
    text: dict[str, dict[str, str]] = Field(default_factory=lambda: {"format": {"type": "text"}})
    tool_choice: Literal["auto"] = "auto"
    tools: list[str] = Field(default_factory=list)
    top_p: None = None
    truncation: Literal["disabled"] = "disabled"
    usage: ResponseUsage | None = None
    user: str | None = None
    hermes: HermesExtension | None = None


class DeletedResponse(BaseModel):
    """Body of the answer to a deletion."""

    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True
