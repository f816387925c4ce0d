"""What to do about a failed model call: wait and repeat, or end the turn with a sentence. Pure.

The models service waits, repeats and falls back by itself. What is repeated here is only what it cannot know of: that it
did not answer, fell silent, or was cut off.
"""

from __future__ import annotations

from dataclasses import dataclass

from hermes_agent.loop.limits import RetryPolicy
from hermes_agent.loop.outcome import EndReason
from hermes_agent.model.collect import ModelFailed
from hermes_contracts.errors import ErrorCode, HermesError

OVERFLOWS = frozenset({ErrorCode.CONTEXT_OVERFLOW, ErrorCode.PAYLOAD_TOO_LARGE})
TRY_AGAIN = "The connection to the model broke; trying again."


@dataclass(frozen=True)
class GiveUp:
    """End the turn."""

    reason: EndReason
    sentence: str


_TOO_LONG = "This conversation has become too long for the model. Start a new one with /new, or ask for less at once."
_ENDS: dict[ErrorCode, tuple[EndReason, str]] = {
    ErrorCode.CONTEXT_OVERFLOW: (EndReason.CONTEXT_OVERFLOW, _TOO_LONG),
    ErrorCode.PAYLOAD_TOO_LARGE: (
        EndReason.CONTEXT_OVERFLOW,
        "This conversation has become too large to send to the model. Start a new one with /new, or send smaller pictures.",
    ),
    ErrorCode.CONTENT_REFUSED: (EndReason.REFUSED, "The model's provider declined to answer this."),
}
_EXPLAINED: dict[ErrorCode, tuple[EndReason, str]] = {
    ErrorCode.BUDGET: (EndReason.BUDGET, "A spending limit is reached, so the model was not asked."),
    ErrorCode.AUTH: (EndReason.MODEL_ERROR, "The model's provider refused the configured key."),
    ErrorCode.BILLING: (EndReason.MODEL_ERROR, "The model's provider reports a problem with payment or credit."),
    ErrorCode.IMAGE_REFUSED: (EndReason.MODEL_ERROR, "The model does not take the picture in this conversation."),
    ErrorCode.MODEL_NOT_FOUND: (EndReason.MODEL_ERROR, "The configured model does not exist at its provider."),
    ErrorCode.NOT_CONFIGURED: (EndReason.MODEL_ERROR, "No model is configured for this agent."),
    ErrorCode.UNAUTHENTICATED: (EndReason.MODEL_ERROR, "The models service refused this session's token."),
    ErrorCode.FORBIDDEN: (EndReason.MODEL_ERROR, "This session may not use the configured model."),
}
_MAX_DETAIL = 300


def backoff_seconds(policy: RetryPolicy, failures: int, retry_after: float | None, random: float) -> float:
    """Return the pause before the next call. `failures` counts from 1, `random` is in 0..1.

    A Retry-After is honoured up to the cap, and never shortened by jitter.
    """
    if retry_after is not None and retry_after >= 0:
        return min(retry_after, policy.cap_seconds)
    pause = min(policy.base_seconds * 2.0 ** (failures - 1), policy.cap_seconds)
    return min(pause * (1 + policy.jitter * random), policy.cap_seconds)


def decide(policy: RetryPolicy, error: HermesError, failures: int, random: float) -> float | GiveUp:
    """Return seconds to wait before the next call, or how to end the turn after `failures` failed ones."""
    detail = _detail(error)
    if error.code in _ENDS:
        return GiveUp(*_ENDS[error.code])
    if error.code in _EXPLAINED:
        reason, sentence = _EXPLAINED[error.code]
        return GiveUp(reason, f"{sentence}{detail}")
    if isinstance(error, ModelFailed) or not error.retryable:
        return GiveUp(EndReason.MODEL_ERROR, f"The model could not answer.{detail}")
    most = policy.unreachable_attempts if error.code is ErrorCode.UNAVAILABLE else policy.attempts
    if failures >= most:
        return GiveUp(EndReason.MODEL_ERROR, f"The model could not answer after {failures} attempts.{detail}")
    return backoff_seconds(policy, failures, error.retry_after_seconds, random)


def keeps_partial(error: HermesError) -> bool:
    """Tell whether text that came before this error is worth showing: a refused or unpaid answer is not."""
    return error.code not in _ENDS and error.code not in _EXPLAINED and error.code is not ErrorCode.TOO_LARGE


def _detail(error: HermesError) -> str:
    text = " ".join(error.message.split())[:_MAX_DETAIL]
    return f" ({text})" if text else ""
