"""From what a provider says to a reason: status, code words and phrases in, `ProviderError` out."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hermes_gateway.models.providers.errors import ProviderError, Reason
from hermes_gateway.models.providers.limits import answer_limit, parse_retry_after, window_limit

_MAX_QUOTE = 300
_MAX_WORDS = 4000


@dataclass(frozen=True)
class Rule:
    """A failure matches when its status is one of `statuses` (empty: any) and its words match `words` (None: any)."""

    reason: Reason
    statuses: frozenset[int] = frozenset()
    words: re.Pattern[str] | None = None

    def matches(self, status: int, words: str) -> bool:
        """Tell whether the rule is about this failure."""
        return (not self.statuses or status in self.statuses) and (self.words is None or bool(self.words.search(words)))


def _said(reason: Reason, *phrases: str, statuses: Iterable[int] = ()) -> Rule:
    return Rule(reason, frozenset(statuses), re.compile("|".join(phrases), re.IGNORECASE))


def _status(reason: Reason, *statuses: int) -> Rule:
    return Rule(reason, frozenset(statuses))


_STREAM = 200
"""Errors that come as an event of a stream that began well."""
_REQUEST = (_STREAM, 400, 422, 500, 502)
_3XX, _5XX = range(300, 400), range(500, 600)
_R = Reason

RULES: tuple[Rule, ...] = (
    # What one word decides, whatever the status: proxies and compatible servers send any.
    _said(_R.INVALID_ENCRYPTED_CONTENT, "invalid_encrypted_content", r"encrypted content .*could not be",
          r"without its required following item", r"items are not persisted"),
    _said(_R.REASONING_MANDATORY, r"reasoning is mandatory", r"must start with a thinking block",
          r"(reasoning[._]effort|thinking|budget_tokens)\W.{0,60}(not support|unsupported|not allowed|invalid value)",
          r"(not support|unsupported|unknown|unrecognized)\w*.{0,40}(reasoning|thinking)", r"output_config\W{1,3}effort",
          statuses=_REQUEST),
    _said(_R.THINKING_SIGNATURE, r"signature.{0,40}thinking", r"thinking.{0,80}(signature|cannot be modified)",
          r"thought.?signature", statuses=_REQUEST),
    _said(_R.LONG_CONTEXT_TIER, r"extra usage is required for long context", r"long context beta",
          r"request too large .*tokens per min", statuses=(_STREAM, 400, 403, 413, 429)),
    _said(_R.IMAGE_TOO_LARGE, r"image (exceeds|dimensions)", r"image_too_large", r"image .{0,40}too (large|big)",
          statuses=(*_REQUEST, 413)),
    _said(_R.IMAGES_UNSUPPORTED, r"(support|expects?|process|read|invalid|decode).{0,40}\bimage",
          r"\bimage\S* .{0,60}support", r"image_parse_error", r"unknown variant `?image", r"content must be a string",
          r"multimodal",
          statuses=(*_REQUEST, 404, 415)),
    _said(_R.SCHEMA_PATTERN, r"(pars\w+|generat\w+|compil\w+).{0,40}(grammar|parser for this template)",
          r"pattern must start", r"only 'enum' and 'date-time' are supported", statuses=_REQUEST),
    _said(_R.CONTEXT_OVERFLOW, "context_length_exceeded", r"maximum (context|prompt) length", r"maximum context",
          r"context (length|window|size|limit)", r"prompt is too long", r"input is too long", r"too many (input )?tokens in",
          r"exceeds? the (model's )?(maximum|max) (input|context|number of tokens)",
          r"reduce the length of the (messages|prompt|input)", r"input token count", r"too many total text bytes",
          r"tokens exceed the configured limit", r"must have less than \d+ tokens", r"exceeded model token limit",
          r"prompt exceeds max length", r"longer than the maximum model length", r"tokens in the prompt cannot exceed",
          statuses=(*_REQUEST, 413)),
    _said(_R.BILLING, "insufficient_quota", "billing_error", r"credit balance", "billing_not_active", r"payment required",
          r"insufficient (credits|balance|funds)", r"requires more credits"),
    _status(_R.BILLING, 402),
    _said(_R.CONTENT_POLICY_BLOCKED, "content_policy", "content_filter", r"content filtering", r"safety system",
          "responsibleai", "moderation", r"flagged for", "prohibited_content", statuses=(_STREAM, 400, 403, 422)),
    _said(_R.PROVIDER_POLICY_BLOCKED, r"data policy", r"no allowed providers", r"privacy settings"),
    _said(_R.AUTH_PERMANENT, "account_deactivated", "invalid_grant", r"(key|token|account|organization)\b.{0,20} has been "
          r"(revoked|disabled|deactivated|suspended|deleted)", statuses=(_STREAM, 400, 401, 403)),
    _status(_R.AUTH, 401),
    _said(_R.AUTH, "authentication_error", "invalid_api_key", "permission_error", "UnrecognizedClient", "ExpiredToken",
          "InvalidSignature", "AccessDenied", r"api key not valid"),
    _said(_R.OVERLOADED, "overloaded", "ModelNotReady", "ServiceUnavailable", r"at capacity",
          statuses=(_STREAM, 424, 429, 500, 502, 503, 529)),
    _status(_R.RATE_LIMIT, 429),
    _said(_R.RATE_LIMIT, r"rate.?limit", "throttling", "RESOURCE_EXHAUSTED"),
    _status(_R.OVERLOADED, 503, 529),
    _said(_R.MODEL_NOT_FOUND, "model_not_found", "not_found_error",
          r"\bmodel\b.*(does not exist|not found|not a valid|is invalid)",
          r"model identifier is invalid", r"(invalid|unknown|unsupported) model\b", "ResourceNotFound",
          statuses=(_STREAM, 400, 403, 404, 422)),
    _status(_R.AUTH, 403),
    _status(_R.MODEL_NOT_FOUND, 404),
    _status(_R.PAYLOAD_TOO_LARGE, 413),
    _said(_R.PAYLOAD_TOO_LARGE, "request_too_large", r"(request|payload|body) (entity )?(is )?too large"),
    _said(_R.TIMEOUT, "timeout", r"timed out", statuses=(_STREAM, *_5XX)),
    _status(_R.TIMEOUT, 408, 504),
    # A request that was understood and refused stays refused, though a proxy says 5xx.
    _said(_R.FORMAT_ERROR, "invalid_request_error", "ValidationException", statuses=(_STREAM, *_5XX)),
    _status(_R.SERVER_ERROR, 409, 424, 425, *_5XX),
    _said(_R.SERVER_ERROR, "server_?error", "api_error", r"internal.?(server|error)", "modelStreamError", "ModelError"),
    _status(_R.NOT_A_PROVIDER, *_3XX),
    _status(_R.FORMAT_ERROR, *range(400, 500)),
)  # fmt: skip


def from_answer(
    status: int,
    words: str,
    headers: Mapping[str, str],
    *,
    quote: str = "",
    secrets: Iterable[str] = (),
    now: float | None = None,
) -> ProviderError:
    """Map an error answer. `words` are its code, type and message; `quote` its message, told when nothing else fits.

    Secrets are taken out of what is quoted.
    """
    words = words[:_MAX_WORDS]
    if status in _REQUEST and (limit := answer_limit(words)) is not None:
        return ProviderError(Reason.OUTPUT_ALLOWANCE, max_output_tokens=limit)
    reason = next((rule.reason for rule in RULES if rule.matches(status, words)), Reason.UNKNOWN)
    message = f"The provider refused the request: {scrub(quote, secrets)}" if reason is _R.FORMAT_ERROR and quote else None
    return ProviderError(
        reason,
        message,
        retry_after_seconds=parse_retry_after(headers, words, time.time() if now is None else now),
        context_window=window_limit(words) if reason in (_R.CONTEXT_OVERFLOW, _R.LONG_CONTEXT_TIER) else 0,
    )


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Return a provider's words on one line, short, and without keys."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "…")
    text = " ".join(text.split())
    text = re.sub(r"\b(sk|key|pk|rk|gsk|xai)-[A-Za-z0-9_*.-]{6,}|\b(AKIA|ASIA|AIza)[A-Za-z0-9_-]{8,}", "…", text)
    return text[:_MAX_QUOTE] + ("…" if len(text) > _MAX_QUOTE else "")
