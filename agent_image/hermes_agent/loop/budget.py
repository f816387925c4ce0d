"""A turn's budgets: steps, seconds, tokens, money. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_agent.loop.limits import Limits
from hermes_agent.loop.outcome import EndReason
from hermes_contracts.conversation import Usage


@dataclass(frozen=True)
class Budget:
    """How much of one budget is used."""

    reason: EndReason
    used: float
    limit: float
    words: str
    """The limit as a person reads it."""

    @property
    def share(self) -> float:
        """Return what part is used; 1 or more: all of it."""
        return self.used / self.limit


def budgets(limits: Limits, *, iterations: int, seconds: float, spent: Usage) -> list[Budget]:
    """Return the turn's budgets, the most used one first."""
    found = [
        Budget(EndReason.ITERATION_LIMIT, iterations, limits.max_iterations, f"{limits.max_iterations} steps"),
        Budget(EndReason.TIME_LIMIT, seconds, limits.max_turn_seconds, f"{limits.max_turn_seconds:g} seconds"),
    ]
    if limits.max_turn_tokens:
        tokens = spent.input_tokens + spent.output_tokens
        found.append(Budget(EndReason.TOKEN_LIMIT, tokens, limits.max_turn_tokens, f"{limits.max_turn_tokens:,} tokens"))
    if limits.max_turn_cost_nano_usd:
        words = f"{limits.max_turn_cost_nano_usd / 1e9:.2f} US dollars"
        found.append(Budget(EndReason.COST_LIMIT, spent.cost_nano_usd, limits.max_turn_cost_nano_usd, words))
    return sorted(found, key=lambda budget: budget.share, reverse=True)


def warning(budget: Budget) -> str:
    """Return the note that goes to the end of the newest tool result."""
    return (
        f"\n\n[Note: {int(min(budget.share, 1) * 100)} % of this turn's limit of {budget.words} is used. "
        "Finish what matters most and answer.]"
    )
