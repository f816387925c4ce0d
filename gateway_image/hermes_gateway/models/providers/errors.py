"""Why a provider's call fails, as one table: a reason, what helps against it, and what the person is told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import httpx2

from hermes_contracts.errors import ErrorCode, HermesError


class Reason(StrEnum):
    """What went wrong with one call."""

    AUTH = "auth"
    AUTH_PERMANENT = "auth_permanent"
    """The key was revoked or its account is closed: it will not come back."""
    BILLING = "billing"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    CUT = "cut"
    """The stream broke off, or was not the provider's own protocol."""
    NOT_A_PROVIDER = "not_a_provider"
    """Something else answers at the address: a redirect, a path that is not there."""
    ADDRESS_REFUSED = "address_refused"
    CONTEXT_OVERFLOW = "context_overflow"
    LONG_CONTEXT_TIER = "long_context_tier"
    """The model could read more, but this account may not."""
    PAYLOAD_TOO_LARGE = "payload_too_large"
    OUTPUT_ALLOWANCE = "output_allowance"
    """More tokens were asked for than one answer may have."""
    IMAGE_TOO_LARGE = "image_too_large"
    IMAGES_UNSUPPORTED = "images_unsupported"
    MODEL_NOT_FOUND = "model_not_found"
    PROVIDER_POLICY_BLOCKED = "provider_policy_blocked"
    """Settings of the provider's account leave nobody to serve this model."""
    CONTENT_POLICY_BLOCKED = "content_policy_blocked"
    THINKING_SIGNATURE = "thinking_signature"
    INVALID_ENCRYPTED_CONTENT = "invalid_encrypted_content"
    REASONING_MANDATORY = "reasoning_mandatory"
    """The model does not take the reasoning effort that the Profile names."""
    SCHEMA_PATTERN = "schema_pattern"
    """A local server cannot turn a tool's `pattern` or `format` into a grammar."""
    FORMAT_ERROR = "format_error"
    UNKNOWN = "unknown"


class Remedy(StrEnum):
    """A change of the request that is worth one more attempt (`remedies`)."""

    WITHOUT_REASONING = "without_reasoning"
    WITHOUT_IMAGES = "without_images"
    WITHOUT_EFFORT = "without_effort"
    WITHOUT_PATTERNS = "without_patterns"
    SHORTER_ANSWER = "shorter_answer"


@dataclass(frozen=True)
class Hints:
    """What a reason means for the next attempt, and what the person reads: one sentence."""

    code: ErrorCode
    message: str
    retryable: bool = False
    """The same call may succeed later."""
    should_compress: bool = False
    should_rotate_credential: bool = False
    should_fallback: bool = False
    remedy: Remedy | None = None


_R = Reason
_C = ErrorCode
_THOUGHTS = "The provider does not take back the model's earlier thoughts."
HINTS: Final[dict[Reason, Hints]] = {
    _R.AUTH: Hints(
        _C.AUTH, "The provider refused the key: check the Secret that the Profile names.",
        should_rotate_credential=True, should_fallback=True,
    ),
    _R.AUTH_PERMANENT: Hints(
        _C.AUTH, "The provider has closed this key or its account: put a new key into the Secret that the Profile names.",
        should_rotate_credential=True, should_fallback=True,
    ),
    _R.BILLING: Hints(
        _C.BILLING, "The provider's account is out of credit or quota.", should_rotate_credential=True, should_fallback=True
    ),
    _R.RATE_LIMIT: Hints(
        _C.RATE_LIMIT, "The provider's rate limit is reached.",
        retryable=True, should_rotate_credential=True, should_fallback=True,
    ),
    _R.OVERLOADED: Hints(_C.OVERLOADED, "The provider is overloaded.", retryable=True, should_fallback=True),
    _R.SERVER_ERROR: Hints(_C.SERVER_ERROR, "The provider had an internal error.", retryable=True, should_fallback=True),
    _R.TIMEOUT: Hints(_C.TIMEOUT, "The provider took too long.", retryable=True, should_fallback=True),
    _R.UNREACHABLE: Hints(_C.UNAVAILABLE, "The provider cannot be reached.", retryable=True, should_fallback=True),
    _R.CUT: Hints(_C.PROVIDER_PROTOCOL, "The provider's stream ended too early.", retryable=True, should_fallback=True),
    _R.NOT_A_PROVIDER: Hints(
        _C.PROVIDER_PROTOCOL, "The provider's address answers with a redirect, which is not followed: check model.baseUrl.",
        should_fallback=True,
    ),
    _R.ADDRESS_REFUSED: Hints(_C.FORBIDDEN, "The provider's host may not be connected to."),
    _R.CONTEXT_OVERFLOW: Hints(
        _C.CONTEXT_OVERFLOW, "The conversation is longer than the model can read.", should_compress=True
    ),
    _R.LONG_CONTEXT_TIER: Hints(
        _C.CONTEXT_OVERFLOW, "The conversation is longer than this account may send to the model.", should_compress=True
    ),
    _R.PAYLOAD_TOO_LARGE: Hints(
        _C.PAYLOAD_TOO_LARGE, "The conversation has more bytes than the provider takes.", should_compress=True
    ),
    _R.OUTPUT_ALLOWANCE: Hints(
        _C.INVALID, "The model cannot write an answer as long as the Profile's model.maxOutputTokens.",
        remedy=Remedy.SHORTER_ANSWER,
    ),
    _R.IMAGE_TOO_LARGE: Hints(
        _C.IMAGE_REFUSED, "A picture is larger than the provider takes.", remedy=Remedy.WITHOUT_IMAGES
    ),
    _R.IMAGES_UNSUPPORTED: Hints(_C.IMAGE_REFUSED, "The model does not take this picture.", remedy=Remedy.WITHOUT_IMAGES),
    _R.MODEL_NOT_FOUND: Hints(
        _C.MODEL_NOT_FOUND, "The provider does not know this model: check the Profile's model.name and model.baseUrl.",
        should_fallback=True,
    ),
    _R.PROVIDER_POLICY_BLOCKED: Hints(
        _C.MODEL_NOT_FOUND, "The settings of the provider's account leave nobody to serve this model.", should_fallback=True
    ),
    _R.CONTENT_POLICY_BLOCKED: Hints(
        _C.CONTENT_REFUSED, "The provider refused the content of this conversation.", should_fallback=True
    ),
    _R.THINKING_SIGNATURE: Hints(_C.INVALID, _THOUGHTS, should_fallback=True, remedy=Remedy.WITHOUT_REASONING),
    _R.INVALID_ENCRYPTED_CONTENT: Hints(_C.INVALID, _THOUGHTS, should_fallback=True, remedy=Remedy.WITHOUT_REASONING),
    _R.REASONING_MANDATORY: Hints(
        _C.INVALID, "The model does not take the Profile's model.reasoningEffort.", remedy=Remedy.WITHOUT_EFFORT
    ),
    _R.SCHEMA_PATTERN: Hints(
        _C.INVALID, "The model server cannot read the tools' parameters.", should_fallback=True,
        remedy=Remedy.WITHOUT_PATTERNS,
    ),
    _R.FORMAT_ERROR: Hints(_C.INVALID, "The provider refused the request.", should_fallback=True),
    _R.UNKNOWN: Hints(
        _C.PROVIDER_PROTOCOL, "The provider's answer is not its own protocol.", retryable=True, should_fallback=True
    ),
}  # fmt: skip


class ProviderError(HermesError):
    """A call that failed: adapters raise nothing else. Its message is fit for the person in the chat."""

    def __init__(
        self,
        reason: Reason,
        message: str | None = None,
        *,
        retry_after_seconds: float | None = None,
        context_window: int = 0,
        max_output_tokens: int = 0,
    ) -> None:
        hints = HINTS[reason]
        super().__init__(
            hints.code,
            message or hints.message,
            retryable=hints.retryable,
            retry_after_seconds=retry_after_seconds if hints.retryable or hints.should_rotate_credential else None,
        )
        self.reason = reason
        self.context_window = context_window
        """With CONTEXT_OVERFLOW and LONG_CONTEXT_TIER: the limit the provider named, in tokens; 0 when it named none."""
        self.max_output_tokens = max_output_tokens
        """With OUTPUT_ALLOWANCE: how long an answer may be, in tokens; 0 when the provider did not say."""

    @property
    def hints(self) -> Hints:
        """Return what the reason means for the next attempt."""
        return HINTS[self.reason]


def from_exception(error: BaseException) -> ProviderError:
    """Map a failure of the connection or of the protocol: the first cause that says something decides."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ProviderError):
            return seen
        if isinstance(seen, HermesError):
            return ProviderError(Reason.ADDRESS_REFUSED, seen.message)
        if isinstance(seen, (httpx2.ConnectTimeout, httpx2.PoolTimeout)):
            return ProviderError(Reason.TIMEOUT, "The provider could not be reached in time.")
        if isinstance(seen, (httpx2.TimeoutException, TimeoutError)):
            return ProviderError(Reason.TIMEOUT, "The provider fell silent.")
        if isinstance(seen, httpx2.ConnectError):
            return ProviderError(Reason.UNREACHABLE)
        if isinstance(seen, httpx2.TransportError):
            return ProviderError(Reason.CUT, "The provider cut the connection.")
        seen = seen.__cause__ or seen.__context__
    return ProviderError(Reason.UNKNOWN)
