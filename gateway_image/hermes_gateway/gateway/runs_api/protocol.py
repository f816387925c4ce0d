"""Bodies of the runs API and the list of what this server can do."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

from hermes_contracts.conversation import Usage
from hermes_contracts.store_api import Approval
from hermes_gateway.gateway.openai_api.reading import SESSION_HEADER, SESSION_KEY_HEADER
from hermes_gateway.gateway.spending import Spending

RunStatus = Literal["queued", "running", "waiting_for_approval", "completed", "failed", "cancelled"]


class RunRequest(BaseModel):
    """Body of `POST /v1/runs`."""

    model_config = ConfigDict(extra="ignore")

    input: str | list[dict[str, object]]
    """Text, or messages: the user's after the last one of the assistant are new."""
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """The Profile; may be left out by a key that has one only."""
    instructions: str | None = None
    session_id: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None
    """Conversation to go on with; without it a run has one of its own."""
    previous_response_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    conversation_history: list[object] | None = None


class RunStarted(BaseModel):
    """The run's message is on disk."""

    run_id: str
    status: Literal["started"] = "started"
    session_id: str


class RunUsage(BaseModel):
    """Tokens of the whole run; `hermes` says more, and what they cost."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    hermes: Spending

    @classmethod
    def of(cls, usage: Usage) -> RunUsage:
        """Count them."""
        total = usage.input_tokens + usage.output_tokens
        return cls(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=total,
            hermes=Spending.of(usage),
        )


class Run(BaseModel):
    """A run as it is now. `queued`: no agent has taken it yet."""

    object: Literal["hermes.run"] = "hermes.run"
    run_id: str
    status: RunStatus
    created_at: int
    model: str
    session_id: str
    """The conversation, as `X-Hermes-Session-Id` and `session_id` name it."""
    session: str
    """The session, as `/api/sessions/{id}` names it."""
    output: str | None = None
    error: str | None = None
    approvals: list[Approval] = []
    """What it waits for an answer to, oldest first."""
    usage: RunUsage | None = None


class RunTold(BaseModel):
    """A run was told to stop, or something that it should know."""

    run_id: str
    status: Literal["stopping", "steered"]
    result: str | None
    """What became of it, once the agent has carried it out."""


class Steering(BaseModel):
    """What a run is told while it goes on."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, StringConstraints(min_length=1, max_length=16_000, pattern=r"\S")]


class Auth(BaseModel):
    """How callers say who they are."""

    type: Literal["bearer"] = "bearer"
    required: Literal[True] = True


class Endpoint(BaseModel):
    """An address."""

    method: str
    path: str


class Capabilities(BaseModel):
    """What this server can do, for clients that ask before they call."""

    object: Literal["hermes.api_server.capabilities"] = "hermes.api_server.capabilities"
    platform: Literal["hermes-agent"] = "hermes-agent"
    model: str
    """The Profile that the key's calls use unless they name another."""
    models: list[str]
    auth: Auth = Auth()
    features: dict[str, bool | str]
    endpoints: dict[str, Endpoint]


FEATURES: dict[str, bool | str] = {
    "chat_completions": True,
    "chat_completions_streaming": True,
    "responses_api": True,
    "responses_streaming": True,
    "run_submission": True,
    "run_status": True,
    "run_events_sse": True,
    "run_stop": True,
    "run_steer": True,
    "run_approval_response": True,
    "approval_events": True,
    "tool_progress_events": True,
    "session_resources": True,
    "session_chat": False,
    "session_chat_streaming": False,
    "session_fork": False,
    "admin_config_rw": False,
    "memory_write_api": False,
    "audio_api": False,
    "realtime_voice": False,
    "session_continuity_header": SESSION_HEADER,
    "session_key_header": SESSION_KEY_HEADER,
}
"""What the original lists, with what is true here."""

ENDPOINTS: dict[str, Endpoint] = {
    name: Endpoint(method=method, path=path)
    for name, method, path in (
        ("health", "GET", "/health"),
        ("health_detailed", "GET", "/health/detailed"),
        ("models", "GET", "/v1/models"),
        ("chat_completions", "POST", "/v1/chat/completions"),
        ("responses", "POST", "/v1/responses"),
        ("runs", "POST", "/v1/runs"),
        ("run_status", "GET", "/v1/runs/{run_id}"),
        ("run_events", "GET", "/v1/runs/{run_id}/events"),
        ("run_stop", "POST", "/v1/runs/{run_id}/stop"),
        ("run_approval", "POST", "/v1/runs/{run_id}/approval"),
        ("run_steer", "POST", "/v1/runs/{run_id}/steer"),
        ("sessions", "GET", "/api/sessions"),
        ("session_create", "POST", "/api/sessions"),
        ("session", "GET", "/api/sessions/{id}"),
        ("session_delete", "DELETE", "/api/sessions/{id}"),
        ("session_messages", "GET", "/api/sessions/{id}/messages"),
        ("session_events", "GET", "/api/sessions/{id}/events"),
        ("session_approvals", "GET", "/api/sessions/{id}/approvals"),
        ("jobs", "GET", "/api/jobs"),
        ("job_create", "POST", "/api/jobs"),
    )
}
