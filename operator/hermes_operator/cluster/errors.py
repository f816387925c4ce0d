"""What the API server refuses, as one exception; and what a refusal means for a session."""

from __future__ import annotations

from hermes_contracts.errors import ErrorCode, HermesError

_CODES = {
    400: ErrorCode.INVALID,
    401: ErrorCode.UNAUTHENTICATED,
    403: ErrorCode.FORBIDDEN,
    404: ErrorCode.NOT_FOUND,
    409: ErrorCode.CONFLICT,
    413: ErrorCode.TOO_LARGE,
    422: ErrorCode.INVALID,
}


class ClusterError(HermesError):
    """An answer of the API server that is not a success. `status` 0: it did not answer."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        code = _CODES.get(status, ErrorCode.UNAVAILABLE)
        super().__init__(code, message, retryable=code is ErrorCode.UNAVAILABLE)
        self.status = status
        self.reason = reason


def start_reason(error: ClusterError) -> str:
    """Name why a pod could not be made, as the reason of a condition."""
    text = error.message
    if "exceeded quota" in text or "must specify" in text:
        return "QuotaExceeded"
    if "violates PodSecurity" in text:
        return "PodSecurityRefused"
    if error.status == 403 and "is being terminated" in text:
        return "NamespaceTerminating"
    if error.status == 403 and "service account" in text.lower():
        return "ServiceAccountMissing"
    return {403: "Forbidden", 422: "PodInvalid", 400: "PodInvalid"}.get(error.status, "ClusterUnavailable")
