"""The one table from a provider's failure to our error: status, code words and phrases in, code and plain words out."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import httpx2

from hermes_contracts.errors import ErrorCode, HermesError

MAX_RETRY_AFTER_SECONDS = 86_400.0
_MAX_QUOTE = 300


@dataclass(frozen=True)
class Rule:
    """A failure matches when its status is one of `statuses` (empty: any) and its words match `words` (None: any)."""

    code: ErrorCode
    message: str
    retryable: bool
    statuses: frozenset[int] = frozenset()
    words: re.Pattern[str] | None = None

    def matches(self, status: int, words: str) -> bool:
        """Tell whether the rule is about this failure."""
        return (not self.statuses or status in self.statuses) and (self.words is None or bool(self.words.search(words)))


def _words(*phrases: str) -> re.Pattern[str]:
    return re.compile("|".join(phrases), re.IGNORECASE)


_CONTEXT = _words(
    "context_length_exceeded", "maximum context length", "context length", "context window", "prompt is too long",
    "input is too long", "too many tokens", "exceeds? the (model's )?(maximum|max) (input|context|number of tokens)",
    "reduce the length of the (messages|prompt|input)", "input token count", "request_too_large",
)  # fmt: skip
_BILLING = _words(
    "insufficient_quota", "billing_error", "credit balance", "billing_not_active", "payment required", "insufficient credits"
)
_CONTENT = _words(
    "content_policy", "content_filter", "content filtering", "safety system", "responsibleai", "moderation_blocked"
)
_MODEL = _words("model_not_found", "not_found_error", "model .*(does not exist|not found)")
_4XX = frozenset(range(400, 500))
_5XX = frozenset(range(500, 600))

RULES: tuple[Rule, ...] = (
    Rule(
        ErrorCode.CONTEXT_OVERFLOW, "The conversation is longer than the model can read.", False,
        frozenset({200, 400, 413, 422, 500}), _CONTEXT,
    ),
    Rule(ErrorCode.BILLING, "The provider's account is out of credit or quota.", False, words=_BILLING),
    Rule(ErrorCode.BILLING, "The provider asks for payment.", False, frozenset({402})),
    Rule(
        ErrorCode.CONTENT_REFUSED, "The provider refused the content of this conversation.", False,
        frozenset({200, 400, 403, 422}), _CONTENT,
    ),
    Rule(
        ErrorCode.AUTH, "The provider refused the key: check the Secret that the Profile names.", False, frozenset({401})
    ),
    Rule(ErrorCode.AUTH, "The provider refused the key.", False, words=_words("authentication_error", "invalid_api_key")),
    Rule(ErrorCode.AUTH, "The provider does not let this key do that.", False, frozenset({403})),
    Rule(
        ErrorCode.OVERLOADED, "The provider is overloaded.", True, frozenset({200, 429, 500, 502, 503, 529}),
        _words("overloaded"),
    ),
    Rule(ErrorCode.RATE_LIMIT, "The provider's rate limit is reached.", True, frozenset({429})),
    Rule(ErrorCode.RATE_LIMIT, "The provider's rate limit is reached.", True, words=_words("rate_limit")),
    Rule(ErrorCode.OVERLOADED, "The provider is overloaded.", True, frozenset({503, 529})),
    Rule(
        ErrorCode.MODEL_NOT_FOUND, "The provider does not know this model: check the Profile's model.name.", False,
        frozenset({404}),
    ),
    Rule(
        ErrorCode.MODEL_NOT_FOUND, "The provider does not know this model: check the Profile's model.name.", False,
        frozenset({200, 400}), _MODEL,
    ),
    Rule(ErrorCode.TIMEOUT, "The provider took too long.", True, frozenset({408, 504})),
    Rule(ErrorCode.SERVER_ERROR, "The provider had an internal error.", True, _5XX | {409, 425}),
    Rule(ErrorCode.SERVER_ERROR, "The provider had an internal error.", True, words=_words("server_error", "api_error")),
    Rule(
        ErrorCode.PROVIDER_PROTOCOL, "The provider's address answers with a redirect, which is not followed: check "
        "model.baseUrl.", False, frozenset(range(300, 400)),
    ),
)  # fmt: skip


def from_answer(
    status: int, words: str, headers: Mapping[str, str], *, quote: str = "", secret: str = "", now: float | None = None
) -> HermesError:
    """Map an error answer. `words` are its code, type and message; `quote` its message, told when nothing else fits.

    The secret is taken out of what is quoted.
    """
    retry_after = parse_retry_after(headers, time.time() if now is None else now)
    for rule in RULES:
        if rule.matches(status, words):
            return HermesError(
                rule.code,
                rule.message,
                retryable=rule.retryable,
                retry_after_seconds=retry_after if rule.retryable else None,
            )
    if status in _4XX:
        said = f": {_scrub(quote, secret)}" if quote else "."
        return HermesError(ErrorCode.INVALID, f"The provider refused the request{said}")
    return protocol_error("The provider's answer is not its own protocol.")


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds to wait that a provider names: milliseconds, seconds or a date. Never below 0 or above a day."""
    seconds: float | None = None
    try:
        if (value := headers.get("retry-after-ms")) is not None:
            seconds = float(value) / 1000
        elif (value := headers.get("retry-after")) is not None:
            try:
                seconds = float(value)
            except ValueError:
                seconds = parsedate_to_datetime(value).timestamp() - now
    except (ValueError, TypeError, OverflowError):
        return None
    if seconds is None or math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def from_exception(error: BaseException) -> HermesError:
    """Map a failure of the connection or of the protocol: the first cause that says something decides."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, HermesError):
            return seen
        if isinstance(seen, (httpx2.ConnectTimeout, httpx2.PoolTimeout)):
            return HermesError(ErrorCode.TIMEOUT, "The provider could not be reached in time.", retryable=True)
        if isinstance(seen, (httpx2.TimeoutException, TimeoutError)):
            return HermesError(ErrorCode.TIMEOUT, "The provider fell silent.", retryable=True)
        if isinstance(seen, httpx2.ConnectError):
            return HermesError(ErrorCode.UNAVAILABLE, "The provider cannot be reached.", retryable=True)
        if isinstance(seen, httpx2.TransportError):
            return protocol_error("The provider cut the connection.")
        seen = seen.__cause__ or seen.__context__
    return protocol_error("The provider's answer is not its own protocol.")


def protocol_error(message: str) -> HermesError:
    """Make the error for an answer that breaks the provider's own protocol."""
    return HermesError(ErrorCode.PROVIDER_PROTOCOL, message, retryable=True)


def _scrub(text: str, secret: str) -> str:
    text = " ".join(text.split())
    if secret:
        text = text.replace(secret, "…")
    text = re.sub(r"\b(sk|key|pk|rk)-[A-Za-z0-9_*.-]{6,}", "…", text)
    return text[:_MAX_QUOTE] + ("…" if len(text) > _MAX_QUOTE else "")
