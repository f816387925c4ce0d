"""Error bodies in each provider's own words, as their public documentation and servers give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scripted_model.asked import Format
from scripted_model.script import ErrorName, Step


@dataclass(frozen=True)
class ProviderError:
    """An error as a provider sends it. `code` is OpenAI's only."""

    status: int
    type: str
    message: str
    code: str | None = None


OPENAI: Mapping[ErrorName, ProviderError] = {
    "auth": ProviderError(
        401, "invalid_request_error", "Incorrect API key provided. You can find your API key in your account settings.",
        "invalid_api_key",
    ),
    "billing": ProviderError(
        429, "insufficient_quota", "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
    ),
    "rate_limit": ProviderError(
        429, "requests",
        "Rate limit reached for requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s.",
        "rate_limit_exceeded",
    ),
    "overloaded": ProviderError(
        503, "server_error", "That model is currently overloaded with other requests. You can retry your request.", None
    ),
    "server_error": ProviderError(
        500, "server_error", "The server had an error while processing your request. Sorry about that!", None
    ),
    "context_overflow": ProviderError(
        400, "invalid_request_error",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. "
        "Please reduce the length of the messages.",
        "context_length_exceeded",
    ),
    "model_not_found": ProviderError(
        404, "invalid_request_error", "The model does not exist or you do not have access to it.", "model_not_found"
    ),
    "content_refused": ProviderError(
        400, "invalid_request_error", "Your request was rejected as a result of our safety system.",
        "content_policy_violation",
    ),
    "invalid": ProviderError(400, "invalid_request_error", "Invalid value for 'messages'.", "invalid_value"),
}  # fmt: skip

ANTHROPIC: Mapping[ErrorName, ProviderError] = {
    "auth": ProviderError(401, "authentication_error", "invalid x-api-key"),
    "billing": ProviderError(
        400, "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase "
        "credits.",
    ),
    "rate_limit": ProviderError(
        429, "rate_limit_error", "This request would exceed your organization's rate limit of 50 requests per minute."
    ),
    "overloaded": ProviderError(529, "overloaded_error", "Overloaded"),
    "server_error": ProviderError(500, "api_error", "Internal server error"),
    "context_overflow": ProviderError(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    "model_not_found": ProviderError(404, "not_found_error", "model: no-such-model"),
    "content_refused": ProviderError(400, "invalid_request_error", "Output blocked by content filtering policy"),
    "invalid": ProviderError(400, "invalid_request_error", "messages: Field required"),
}  # fmt: skip

_BY_STATUS: Mapping[int, ErrorName] = {
    400: "invalid", 401: "auth", 402: "billing", 404: "model_not_found", 429: "rate_limit", 503: "overloaded",
    529: "overloaded",
}  # fmt: skip


def error_of(step: Step, kind: Format) -> ProviderError | None:
    """Return the error that a step asks for, or None when it is an answer."""
    if step.error is None and (step.status is None or step.status < 400):
        return None
    name = step.error or _BY_STATUS.get(step.status or 500, "server_error")
    known = (OPENAI if kind == "openai" else ANTHROPIC)[name]
    return ProviderError(step.status or known.status, known.type, step.message or known.message, known.code)


def error_body(error: ProviderError, kind: Format, request_id: str) -> dict[str, object]:
    """Return the JSON body of an error."""
    if kind == "openai":
        return {"error": {"message": error.message, "type": error.type, "param": None, "code": error.code}}
    return {"type": "error", "error": {"type": error.type, "message": error.message}, "request_id": request_id}
