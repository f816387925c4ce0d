"""Error codes that cross process borders, and the exception that carries one."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class ErrorCode(StrEnum):
    """What went wrong, as something a caller can act on."""

    INVALID = "invalid"
    """The request is malformed; the caller must change it."""
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    """A compare-and-set lost; read again and decide again."""
    FENCED = "fenced"
    """The caller's epoch is not the session's any more; it must stop."""
    TOO_LARGE = "too_large"
    UNAVAILABLE = "unavailable"
    """A dependency does not answer; try again later."""
    TIMEOUT = "timeout"
    INTERNAL = "internal"

    AUTH = "auth"
    """The provider refused the key."""
    BILLING = "billing"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    CONTEXT_OVERFLOW = "context_overflow"
    """More tokens than the model can read."""
    PAYLOAD_TOO_LARGE = "payload_too_large"
    """More bytes than the provider takes."""
    IMAGE_REFUSED = "image_refused"
    """The model or its provider does not take this picture."""
    BUDGET = "budget"
    """A spending limit of the session or the Profile is reached."""
    MODEL_NOT_FOUND = "model_not_found"
    CONTENT_REFUSED = "content_refused"
    PROVIDER_PROTOCOL = "provider_protocol"
    """The provider answered something that is not its own protocol, or cut the stream."""
    NOT_CONFIGURED = "not_configured"
    """A Profile, Secret or key that is needed is not there."""


class ErrorBody(BaseModel):
    """An error as it travels: never holds a secret or another person's data."""

    model_config = ConfigDict(frozen=True)

    code: ErrorCode
    message: str
    retryable: bool = False
    retry_after_seconds: float | None = None


class HermesError(Exception):
    """The one exception type between our modules; foreign exceptions are mapped to it where they enter."""

    def __init__(
        self, code: ErrorCode, message: str, *, retryable: bool = False, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.retry_after_seconds = retry_after_seconds

    def body(self) -> ErrorBody:
        """Return the error as it is sent to another process."""
        return ErrorBody(
            code=self.code,
            message=self.message,
            retryable=self.retryable,
            retry_after_seconds=self.retry_after_seconds,
        )

    @classmethod
    def from_body(cls, body: ErrorBody) -> HermesError:
        """Rebuild the exception from what another process sent."""
        return cls(body.code, body.message, retryable=body.retryable, retry_after_seconds=body.retry_after_seconds)
