"""The loop without compaction: a conversation that is too long ends with a sentence."""

from __future__ import annotations

from hermes_agent.loop.state import Turn
from hermes_contracts.errors import HermesError


class NoCompaction:
    """`loop.ports.Compaction` that leaves everything as it is."""

    async def before_call(self, turn: Turn) -> None:
        """Do nothing."""

    async def on_overflow(self, turn: Turn, error: HermesError) -> bool:
        """Say that nothing got smaller."""
        del turn, error
        return False

    def measured(self, turn: Turn, context_tokens: int, context_window: int) -> None:
        """Do nothing."""
