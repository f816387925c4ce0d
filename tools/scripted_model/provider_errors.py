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
    "payload_too_large": ProviderError(413, "invalid_request_error", "Request entity too large.", None),
    "image_refused": ProviderError(
        400, "invalid_request_error", "Invalid content type. image_url is only supported by certain models.", "invalid_value"
    ),
    "output_allowance": ProviderError(
        400, "invalid_request_error",
        "max_tokens is too large: 200000. This model supports at most 16384 completion tokens, whereas you provided 200000.",
        "invalid_value",
    ),
    "reasoning_refused": ProviderError(
        400, "invalid_request_error", "The encrypted content gAAA for item rs_1 could not be verified.",
        "invalid_encrypted_content",
    ),
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
    "payload_too_large": ProviderError(413, "request_too_large", "Request exceeds the maximum size"),
    "image_refused": ProviderError(
        400, "invalid_request_error",
        "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
    ),
    "output_allowance": ProviderError(
        400, "invalid_request_error",
        "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5",
    ),
    "reasoning_refused": ProviderError(
        400, "invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block"
    ),
}  # fmt: skip

BEDROCK: Mapping[ErrorName, ProviderError] = {
    "auth": ProviderError(403, "UnrecognizedClientException", "The security token included in the request is invalid."),
    "billing": ProviderError(
        402, "ValidationException", "Your account has insufficient funds: payment required to invoke this model."
    ),
    "rate_limit": ProviderError(429, "ThrottlingException", "Too many requests, please wait before trying again."),
    "overloaded": ProviderError(503, "ServiceUnavailableException", "Bedrock is unable to process your request."),
    "server_error": ProviderError(500, "InternalServerException", "The system encountered an unexpected error."),
    "context_overflow": ProviderError(
        400, "ValidationException",
        "The model returned the following errors: prompt is too long: 210000 tokens > 200000 maximum",
    ),
    "model_not_found": ProviderError(400, "ValidationException", "The provided model identifier is invalid."),
    "content_refused": ProviderError(400, "ValidationException", "Output blocked by content filtering policy"),
    "invalid": ProviderError(
        400, "ValidationException", "A conversation must start with a user message. Try again with one."
    ),
    "payload_too_large": ProviderError(413, "ValidationException", "Request entity too large"),
    "image_refused": ProviderError(400, "ValidationException", "This model doesn't support the image content block."),
    "output_allowance": ProviderError(
        400, "ValidationException",
        "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is "
        "lower than 4096.",
    ),
    "reasoning_refused": ProviderError(
        400, "ValidationException",
        "The model returned the following errors: messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
}  # fmt: skip

_TABLES: Mapping[Format, Mapping[ErrorName, ProviderError]] = {
    "openai": OPENAI, "responses": OPENAI, "anthropic": ANTHROPIC, "bedrock": BEDROCK
}  # fmt: skip

_BY_STATUS: Mapping[int, ErrorName] = {
    400: "invalid", 401: "auth", 402: "billing", 403: "auth", 404: "model_not_found", 413: "payload_too_large",
    429: "rate_limit", 503: "overloaded", 529: "overloaded",
}  # fmt: skip


def error_of(step: Step, kind: Format) -> ProviderError | None:
    """Return the error that a step asks for, or None when it is an answer."""
    if step.error is None and (step.status is None or step.status < 400):
        return None
    name = step.error or _BY_STATUS.get(step.status or 500, "server_error")
    known = _TABLES[kind][name]
    return ProviderError(step.status or known.status, known.type, step.message or known.message, known.code)


def error_body(error: ProviderError, kind: Format, request_id: str) -> dict[str, object]:
    """Return the JSON body of an error."""
    if kind == "bedrock":
        return {"message": error.message}
    if kind == "anthropic":
        return {"type": "error", "error": {"type": error.type, "message": error.message}, "request_id": request_id}
    return {"error": {"message": error.message, "type": error.type, "param": None, "code": error.code}}


def error_headers(error: ProviderError, kind: Format) -> dict[str, str]:
    """Return the headers that tell an error's kind, where a format has them."""
    if kind != "bedrock":
        return {}
    return {"x-amzn-errortype": f"{error.type}:http://internal.amazon.com/coral/com.amazon.bedrock/"}
