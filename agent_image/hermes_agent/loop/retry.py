"""What to do about a failed model call: wait and repeat, or end the turn with a sentence. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_agent.loop.limits import RetryPolicy
from hermes_agent.loop.outcome import EndReason
from hermes_contracts.errors import ErrorCode, HermesError


@dataclass(frozen=True)
class GiveUp:
    """End the turn."""

    reason: EndReason
    sentence: str


_NEVER = {
    ErrorCode.AUTH: "The model's provider refused the configured key.",
    ErrorCode.BILLING: "The model's provider reports a problem with payment or credit.",
    ErrorCode.MODEL_NOT_FOUND: "The configured model does not exist at its provider.",
    ErrorCode.NOT_CONFIGURED: "No model is configured for this agent.",
    ErrorCode.UNAUTHENTICATED: "The models service refused this session's token.",
    ErrorCode.FORBIDDEN: "This session may not use the configured model.",
}
_MAX_DETAIL = 300


def backoff_seconds(policy: RetryPolicy, failures: int, retry_after: float | None, random: float) -> float:
    """Return the pause before the next call. `failures` counts from 1, `random` is in 0..1.

    A provider's Retry-After is honoured up to the cap, and never shortened by jitter.
    """
    if retry_after is not None and retry_after >= 0:
        return min(retry_after, policy.cap_seconds)
    pause = min(policy.base_seconds * 2.0 ** (failures - 1), policy.cap_seconds)
    return min(pause * (1 + policy.jitter * random), policy.cap_seconds)


def decide(policy: RetryPolicy, error: HermesError, failures: int, random: float) -> float | GiveUp:
    """Return seconds to wait before the next call, or how to end the turn after `failures` failed ones."""
    detail = _detail(error)
    if error.code is ErrorCode.CONTEXT_OVERFLOW:
        return GiveUp(
            EndReason.CONTEXT_OVERFLOW,
            "This conversation has become too long for the model. Start a new one with /new, or ask for less at once.",
        )
    if error.code is ErrorCode.CONTENT_REFUSED:
        return GiveUp(EndReason.REFUSED, "The model's provider declined to answer this.")
    if error.code in _NEVER and not error.retryable:
        return GiveUp(EndReason.MODEL_ERROR, f"{_NEVER[error.code]}{detail}")
    if not error.retryable:
        return GiveUp(EndReason.MODEL_ERROR, f"The model could not answer.{detail}")
    if failures >= policy.attempts:
        return GiveUp(EndReason.MODEL_ERROR, f"The model could not answer after {failures} attempts.{detail}")
    return backoff_seconds(policy, failures, error.retry_after_seconds, random)


def _detail(error: HermesError) -> str:
    text = " ".join(error.message.split())[:_MAX_DETAIL]
    return f" ({text})" if text else ""
