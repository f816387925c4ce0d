"""The bodies of OpenAI's protocol, as far as we read and write them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hermes_contracts.conversation import Usage
from hermes_gateway.gateway.spending import Spending


class ChatMessage(BaseModel):
    """One message of the history a front end sends. Only the last one and the system messages are read."""

    model_config = ConfigDict(extra="ignore")

    role: Annotated[str, StringConstraints(max_length=32)]
    content: str | list[dict[str, object]] | None = None


class StreamOptions(BaseModel):
    """What a stream carries besides text."""

    model_config = ConfigDict(extra="ignore")

    include_usage: bool = False


class ResponseFormat(BaseModel):
    """The form of the answer; only text is possible."""

    model_config = ConfigDict(extra="ignore")

    type: str = "text"


class ChatRequest(BaseModel):
    """Body of `POST /v1/chat/completions`. Settings of the model (temperature and the like) are the Profile's: ignored."""

    model_config = ConfigDict(extra="ignore")

    model: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    messages: list[ChatMessage] = Field(min_length=1)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: int | None = None
    user: Annotated[str, StringConstraints(max_length=256)] | None = None
    tools: list[object] | None = None
    functions: list[object] | None = None
    response_format: ResponseFormat | None = None


class HermesExtension(BaseModel):
    """What OpenAI's protocol has no place for; clients that do not know it skip it."""

    session: str
    """Session id, as in `/api/sessions/{id}`."""
    message_id: str
    turn: str = ""
    outcome: Literal["done", "failed", "dead", "merged"] = "done"
    reason: str = ""


class PromptTokensDetails(BaseModel):
    """Which of the prompt's tokens were cheap."""

    cached_tokens: int


class CompletionTokensDetails(BaseModel):
    """Which of the answer's tokens were thinking."""

    reasoning_tokens: int


class CompletionUsage(BaseModel):
    """Tokens of the whole turn, all of its model calls together; `hermes` says more, and what they cost."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails
    hermes: Spending

    @classmethod
    def of(cls, usage: Usage) -> CompletionUsage:
        """Count as OpenAI does."""
        return cls(
            prompt_tokens=usage.input_tokens,
            completion_tokens=usage.output_tokens,
            total_tokens=usage.input_tokens + usage.output_tokens,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=usage.cached_input_tokens),
            completion_tokens_details=CompletionTokensDetails(reasoning_tokens=usage.reasoning_tokens),
            hermes=Spending.of(usage),
        )


class AnswerMessage(BaseModel):
    """The assistant's message."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: str | None = None


class Choice(BaseModel):
    """The one answer."""

    index: int = 0
    message: AnswerMessage
    logprobs: None = None
    finish_reason: Literal["stop"] = "stop"


class ChatCompletion(BaseModel):
    """Body of the answer without streaming."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: CompletionUsage
    hermes: HermesExtension


class ModelCard(BaseModel):
    """A Profile, as a model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ModelList(BaseModel):
    """Body of `GET /v1/models`."""

    object: Literal["list"] = "list"
    data: list[ModelCard]
