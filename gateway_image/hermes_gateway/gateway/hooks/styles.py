"""Signatures of webhooks, in the styles that senders use. Compared in constant time, before anything else is judged. Pure.

| style | header | HMAC-SHA256 over | replay |
|---|---|---|---|
| hermes | Hermes-Signature, Hermes-Timestamp | `<timestamp>.<body>` | window |
| github | X-Hub-Signature-256 | the body | its delivery id only: no time is signed |
| stripe | Stripe-Signature | `<timestamp>.<body>` | window |
| slack | X-Slack-Signature, X-Slack-Request-Timestamp | `v0:<timestamp>:<body>` | window |
| standard | webhook-signature, -timestamp, -id | `<id>.<timestamp>.<body>`, the key in base64 | window, and a signed id |
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from hermes_contracts.access import WebhookRoute, standard_webhook_key
from hermes_gateway.gateway.channels import signatures

_MAX_SIGNATURES = 16
_MISMATCH = "the signature does not match the body"

Headers = Mapping[str, str]
"""Names in any case: Starlette's."""


@dataclass(frozen=True)
class _Signed:
    """What a request claims: the bytes that were signed, the signatures it carries, and when it says it was signed."""

    content: bytes
    given: tuple[str, ...]
    timestamp: str | None
    encode: Callable[[bytes], str]


def problem_with(route: WebhookRoute, headers: Headers, body: bytes, now: float) -> str | None:
    """Say what is wrong with a request's signature; None when it is the sender's, and recent."""
    secrets = (route.secret, *route.older_secrets)
    if route.style == "hermes":
        found = [
            signatures.problem_with(
                secret,
                headers.get(signatures.TIMESTAMP),
                headers.get(signatures.SIGNATURE),
                body,
                now=now,
                window_seconds=route.replay_window_seconds,
            )
            for secret in secrets
        ]
        return None if None in found else found[0]
    signed = _READERS[route.style](headers, body)
    if isinstance(signed, str):
        return signed
    keys = [standard_webhook_key(secret) if route.style == "standard" else secret.encode() for secret in secrets]
    if not _matches(signed, keys):
        return _MISMATCH
    if signed.timestamp is not None and abs(now - int(signed.timestamp)) > route.replay_window_seconds:
        return f"the request was signed more than {route.replay_window_seconds} s from now: sign it with the current time"
    return None


def _matches(signed: _Signed, keys: Iterable[bytes]) -> bool:
    found = False
    for key in keys:
        expected = signed.encode(hmac.digest(key, signed.content, hashlib.sha256)).encode()
        for given in signed.given:
            found |= hmac.compare_digest(expected, given.encode("utf-8", "replace"))
    return found


def _github(headers: Headers, body: bytes) -> _Signed | str:
    given = headers.get("X-Hub-Signature-256", "")
    if not given.startswith("sha256="):
        return "X-Hub-Signature-256 is missing: set a secret in the webhook's settings on the sender's side"
    return _Signed(body, (given,), None, lambda digest: "sha256=" + digest.hex())


def _stripe(headers: Headers, body: bytes) -> _Signed | str:
    pairs = [item.strip().partition("=") for item in headers.get("Stripe-Signature", "").split(",", _MAX_SIGNATURES * 2)]
    timestamp = next((value for name, _, value in pairs if name == "t"), "")
    given = tuple(value for name, _, value in pairs if name == "v1")[:_MAX_SIGNATURES]
    if not _is_time(timestamp) or not given:
        return "Stripe-Signature must be t=<seconds>,v1=<hex>"
    return _Signed(timestamp.encode() + b"." + body, given, timestamp, bytes.hex)


def _slack(headers: Headers, body: bytes) -> _Signed | str:
    timestamp, given = headers.get("X-Slack-Request-Timestamp", ""), headers.get("X-Slack-Signature", "")
    if not _is_time(timestamp) or not given.startswith("v0="):
        return "X-Slack-Request-Timestamp and X-Slack-Signature (v0=<hex>) are needed"
    return _Signed(b":".join((b"v0", timestamp.encode(), body)), (given,), timestamp, lambda digest: "v0=" + digest.hex())


def _standard(headers: Headers, body: bytes) -> _Signed | str:
    identity, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    given = tuple(headers.get("webhook-signature", "").split(" ", _MAX_SIGNATURES)[:_MAX_SIGNATURES])
    if not identity or not _is_time(timestamp) or not any(one.startswith("v1,") for one in given):
        return "webhook-id, webhook-timestamp and webhook-signature (v1,<base64>) are needed"
    content = b".".join((identity.encode("latin-1", "replace"), timestamp.encode(), body))
    return _Signed(content, given, timestamp, lambda digest: "v1," + base64.b64encode(digest).decode())


_READERS = {"github": _github, "stripe": _stripe, "slack": _slack, "standard": _standard}


def _is_time(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12
