"""Where a turn stops by itself, and how often the loop forgives a model. Defaults follow docs/agent.md."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RetryPolicy:
    """Back-off when the models service itself cannot be used, in seconds: `base * 2^n`, at most `cap`, plus jitter.

    Failing providers are the models service's matter: it waits and tries others before an error reaches the agent.
    """

    attempts: int = 5
    """Calls in all, the first one included, of a service that falls silent or cuts its answers."""
    unreachable_attempts: int = 12
    """The same of a service that cannot be reached: about two minutes, enough for it to start anew on a busy node."""
    base_seconds: float = 0.5
    cap_seconds: float = 15.0
    jitter: float = 0.5


@dataclass(frozen=True)
class GuardrailLimits:
    """When repetition is noticed and when it ends a turn. Counts are of calls in one turn."""

    same_failure_warn: int = 2
    same_failure_stop: int = 5
    """The same call with the same arguments fails."""
    tool_failure_warn: int = 3
    tool_failure_stop: int = 8
    """The same tool fails, whatever its arguments, with no success in between."""
    no_progress_warn: int = 2
    no_progress_stop: int = 5
    """Calls that brought the very result they had brought before, beyond the first."""
    repeat_notice: int = 3
    """Identical calls in a row."""
    cycle_period: int = 4
    """Longest cycle of calls that is looked for."""
    history: int = 64
    """Calls that are remembered."""
    stub_characters: int = 512
    """Identical results from this length on are replaced by a short note."""


@dataclass(frozen=True)
class Limits:
    """Limits of one turn. Counts are per turn unless said otherwise."""

    max_iterations: int = 90
    """Model calls that brought an answer or tool calls."""
    max_turn_seconds: float = 1800.0
    max_turn_tokens: int | None = None
    """Input and output of all model calls of the turn."""
    max_turn_cost_nano_usd: int | None = None
    warning_share: float = 0.8
    """Share of a budget from which on the model is told, once."""
    last_word_seconds: float = 30.0
    """How long a turn whose time is over may still take to say what became of it."""
    max_output_tokens: int | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    max_continuations: int = 4
    """Times a text that was cut by the output limit is continued."""
    min_window_tokens: int = 512
    """A text is not continued when less than this is left of the model's window."""
    max_truncated_calls: int = 4
    """Times a tool call that was cut is asked for again, with the output limit doubled each time."""
    truncated_call_base_tokens: int = 4096
    max_silent_reasks: int = 3
    """Times broken arguments are asked for again before the model is told."""
    max_malformed_rounds: int = 2
    """Rounds in which the model is told of broken arguments before the turn ends."""
    max_unknown_tool_rounds: int = 3
    """Rounds in a row without any known tool before the turn ends."""
    max_thinking_only: int = 2
    """Times an answer that is nothing but thinking is carried on."""
    max_empty_retries: int = 3
    """Times an empty answer is asked for again without a word."""
    expensive_call_nano_usd: int = 250_000_000
    """An empty answer that cost this much is asked for again only once."""
    empty_pause_seconds: float = 5.0
    """Before the first such repeat; doubled each time, at most `empty_pause_cap_seconds`."""
    empty_pause_cap_seconds: float = 60.0
    max_stand_ins: int = 4
    """Other models of the Profile that are asked when one has nothing to say: as many as it may name."""
    max_intent_nudges: int = 2
    """Times a model that announces what it will do, and does nothing, is told to do it."""
    stall_seconds: float = 600.0
    """Without any sign of life the turn ends."""
    guardrails: GuardrailLimits = field(default_factory=GuardrailLimits)
