"""Where a turn stops by itself, and how often the loop forgives a model. Defaults follow docs/agent.md."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RetryPolicy:
    """Back-off of failed model calls, in seconds: `base * 2^n`, at most `cap`, plus up to half of it as jitter."""

    attempts: int = 4
    """Calls in all, the first one included."""
    base_seconds: float = 5.0
    cap_seconds: float = 120.0
    jitter: float = 0.5


@dataclass(frozen=True)
class Limits:
    """Limits of one turn. Counts are per turn unless said otherwise."""

    max_iterations: int = 90
    """Model calls that brought an answer or tool calls."""
    max_turn_seconds: float = 1800.0
    max_output_tokens: int | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    max_continuations: int = 4
    """Times a text that was cut by the output limit is continued."""
    max_truncated_calls: int = 4
    """Times a tool call that was cut is asked for again, with the output limit doubled each time."""
    truncated_call_base_tokens: int = 4096
    max_silent_reasks: int = 3
    """Times broken arguments are asked for again before the model is told."""
    max_malformed_rounds: int = 2
    """Rounds in which the model is told of broken arguments before the turn ends."""
    max_unknown_tool_rounds: int = 3
    """Rounds in a row without any known tool before the turn ends."""
    max_empty_answers: int = 4
    """Empty answers in a row before the turn ends; the first of them after tools is nudged."""
    empty_pause_seconds: float = 1.0
    repeat_notice: int = 3
    """Identical calls in a row after which the model is told."""
    max_identical_failures: int = 5
    """Identical failing calls in a row after which the turn ends."""
