"""What the loop needs of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from hermes_agent.store_port import Store as Store
from hermes_contracts.errors import HermesError

if TYPE_CHECKING:
    from hermes_agent.loop.turn import Turn

DeltaKind = Literal["text", "reasoning", "tool_started", "tool_finished", "notice", "restart"]


class DeltaSink(Protocol):
    """Where pieces of a running turn go; they may be lost."""

    def emit(self, kind: DeltaKind, *, text: str = "", tool: str = "", call_id: str = "") -> None:
        """Send a piece; never waits, never raises."""
        ...


class Compaction(Protocol):
    """Keeps a turn's transcript within what the model reads. `TurnLoop` asks before every model call and on overflow."""

    async def before_call(self, turn: Turn) -> None:
        """Compact `turn.transcript` if it has grown too long; a failure leaves it as it is and never ends the turn."""
        ...

    async def on_overflow(self, turn: Turn, error: HermesError) -> bool:
        """After CONTEXT_OVERFLOW or PAYLOAD_TOO_LARGE: True when the transcript got smaller and the call may be repeated."""
        ...

    def measured(self, turn: Turn, context_tokens: int, context_window: int) -> None:
        """Take what a provider counted for the call that just ended: tokens in and out, and its window; 0 is unknown."""
        ...


class HandCompaction(Protocol):
    """Compaction that a person asks for, between turns."""

    async def by_hand(self, turn: Turn, focus: str) -> str:
        """Compact `turn.transcript` now; `turn.turn_id` is the command's id. Return what became of it, for the person."""
        ...
