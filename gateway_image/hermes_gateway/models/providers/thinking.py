"""How hard a Claude thinks, as its API wants to be told: newer models take an effort, older ones a budget of tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hermes_contracts.conversation import Message, Role
from hermes_contracts.crd.profile import Effort
from hermes_gateway.models.providers.parts import thoughts_of
from hermes_gateway.models.providers.shapes import Json

_VERSION = re.compile(r"claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?!\d)")
_ADAPTIVE = (4, 6)
_BUDGETS: dict[str, int] = {
    "Minimal": 1024, "Low": 4000, "Medium": 8000, "High": 16_000, "XHigh": 32_000, "Max": 64_000
}  # fmt: skip
"""Tokens."""
_SMALLEST_BUDGET = 1024


def claude_thinking(
    model: str, effort: Effort, max_tokens: int, messages: Sequence[Message], origin: str
) -> tuple[Json, Json]:
    """Return the fields `thinking` and `output_config`; both are empty when nothing is to be said.

    A model with a budget that is in the middle of a round of tools must see the thought that began it. When that was another
    model's, it does not think until the person speaks again.
    """
    if effort in ("Default", "None"):
        return {}, {}
    found = _VERSION.search(model)
    if found and (int(found[1]), int(found[2] or 0)) >= _ADAPTIVE:
        return {"type": "adaptive"}, {"effort": "low" if effort == "Minimal" else effort.lower()}
    budget = min(_BUDGETS[effort], max_tokens // 2)
    if budget < _SMALLEST_BUDGET or not _may_think(messages, origin):
        return {}, {}
    return {"type": "enabled", "budget_tokens": budget}, {}


def _may_think(messages: Sequence[Message], origin: str) -> bool:
    round_start = None
    for message in reversed(messages):
        if message.role is Role.USER:
            break
        if message.role is Role.ASSISTANT:
            round_start = message
    if round_start is None:
        return True
    return any((t := thoughts_of(part, origin)) is not None and (t.signature or t.data) for part in round_start.parts)
