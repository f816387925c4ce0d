"""Tokens and money as callers read them. Pure."""

from __future__ import annotations

from pydantic import BaseModel

from hermes_contracts.conversation import Usage

_DIGITS = 9


class Spending(BaseModel):
    """What model calls used and cost. `input_tokens` counts cached ones, too."""

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    model_calls: int
    unpriced_calls: int
    """Calls of models whose price nobody knows."""
    cost_usd: str
    """US dollars as a decimal number; a string, because sums of money are no floats."""
    cost_note: str | None = None
    """Why the cost is not the whole cost."""

    @classmethod
    def of(cls, usage: Usage) -> Spending:
        """Show what was counted."""
        counted = usage.model_dump(exclude={"cost_nano_usd"})
        return cls(**counted, cost_usd=render_dollars(usage.cost_nano_usd), cost_note=_note(usage))


def render_dollars(nano_usd: int) -> str:
    """Return billionths of a dollar as dollars: all digits that count, two places at least."""
    whole, rest = divmod(abs(nano_usd), 10**_DIGITS)
    places = f"{rest:0{_DIGITS}d}".rstrip("0").ljust(2, "0")
    return f"{'-' if nano_usd < 0 else ''}{whole}.{places}"


def _note(usage: Usage) -> str | None:
    if not usage.unpriced_calls:
        return None
    of_all = f"{usage.unpriced_calls} of {usage.model_calls} model calls"
    return f"{of_all} were of models without a known price: the cost is at least this"
