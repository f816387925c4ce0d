"""The signature on webhooks, in both directions: HMAC-SHA256 over `<timestamp>.<body>`, with a replay window. Pure."""

from __future__ import annotations

import hashlib
import hmac

TIMESTAMP = "Hermes-Timestamp"
SIGNATURE = "Hermes-Signature"
_VERSION = "v1"


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """Return the value of the signature header."""
    digest = hmac.new(secret.encode(), str(timestamp).encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"{_VERSION}={digest}"


def problem_with(
    secret: str, timestamp: str | None, signature: str | None, body: bytes, *, now: float, window_seconds: float
) -> str | None:
    """Say what is wrong with a signed body; None when all is well. The signature is compared before the time is judged."""
    if timestamp is None or not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        return f"{TIMESTAMP} must be the time in seconds since 1970"
    if signature is None:
        return f"{SIGNATURE} is missing: send {_VERSION}=<hex of HMAC-SHA256 over '<timestamp>.<body>'>"
    expected = sign(secret, int(timestamp), body)
    given = signature.strip().encode("latin-1", "replace")
    if str(int(timestamp)) != timestamp or not hmac.compare_digest(expected.encode(), given):
        return "the signature does not match the body"
    if abs(now - int(timestamp)) > window_seconds:
        return f"{TIMESTAMP} is more than {window_seconds:g} s away from now: sign again with the current time"
    return None
