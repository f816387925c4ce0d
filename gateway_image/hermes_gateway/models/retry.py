"""What comes after a failed attempt: wait, another key, another model, or the end. Data and a pure function."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.models.providers.errors import HINTS, Hints, ProviderError, Reason

_SPREAD = 0.1
"""Of a wait the provider named: so that not everybody who was told comes back at the same moment."""


@dataclass(frozen=True)
class RetryPolicy:
    """How patient a call is. Times in seconds."""

    attempts: int = 3
    """Per model, waits between them included; other keys and repaired requests do not count."""
    base_seconds: float = 5.0
    cap_seconds: float = 120.0
    """Longest wait between two attempts; a provider that names a longer one is not waited for."""
    jitter: float = 0.5
    """Part of a wait that is added at random."""
    overload_seconds: tuple[float, ...] = (15.0, 30.0, 60.0, 120.0)
    """Waits for a provider that says it is overloaded."""
    patience_seconds: float = 10.0
    """Longest wait while another model could be asked instead."""


class Step(StrEnum):
    """What to do next."""

    WAIT = "wait"
    ROTATE = "rotate"
    FALL_BACK = "fall_back"
    END = "end"


@dataclass(frozen=True)
class Decision:
    """A step, and how long to wait before it, in seconds."""

    step: Step
    wait_seconds: float = 0.0


def hints_of(error: HermesError) -> Hints:
    """Return what a failure means; one that is not a provider's own is about the way there, so another model may help."""
    if isinstance(error, ProviderError):
        return error.hints
    return Hints(error.code, error.message, retryable=error.retryable, should_fallback=True)


def decide(
    error: HermesError, policy: RetryPolicy, *, attempts: int, other_keys: bool, other_models: bool, random: float
) -> Decision:
    """Decide after the `attempts`-th failure of a model. `random` is from 0 to 1."""
    hints = hints_of(error)
    if hints.should_compress:
        return Decision(Step.END)
    if hints.should_rotate_credential and other_keys:
        return Decision(Step.ROTATE)
    # A provider that was silent for minutes has had its chance while somebody waited.
    slow = hints.code is ErrorCode.TIMEOUT and other_models
    if hints.retryable and not slow:
        wait = _wait(error, policy, attempts, random)
        longest = policy.patience_seconds if other_models else policy.cap_seconds
        if wait is not None and wait <= longest:
            return Decision(Step.WAIT, wait)
    if other_models and (hints.should_fallback or hints.retryable):
        return Decision(Step.FALL_BACK)
    return Decision(Step.END)


def _wait(error: HermesError, policy: RetryPolicy, attempts: int, random: float) -> float | None:
    """Return the seconds until the next attempt, None when there is none."""
    overloaded = hints_of(error) is HINTS[Reason.OVERLOADED]
    if attempts >= (len(policy.overload_seconds) + 1 if overloaded else policy.attempts):
        return None
    if error.retry_after_seconds is not None:
        return error.retry_after_seconds * (1 + _SPREAD * random)
    wait = policy.overload_seconds[attempts - 1] if overloaded else policy.base_seconds * 2.0 ** (attempts - 1)
    return min(wait * (1 + policy.jitter * random), policy.cap_seconds)
