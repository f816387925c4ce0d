"""What the loop needs of others."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal, Protocol

from hermes_agent.store_port import Store as Store
from hermes_contracts.errors import HermesError

if TYPE_CHECKING:
    from hermes_agent.loop.liveness import Pulse
    from hermes_agent.loop.outcome import Outcome
    from hermes_agent.loop.turn import Turn
    from hermes_agent.tools.executor import Toolbox
    from hermes_contracts.conversation import Message
    from hermes_contracts.envelopes import Inbound

DeltaKind = Literal["text", "reasoning", "tool_started", "tool_finished", "notice", "restart"]


class DeltaSink(Protocol):
    """Where pieces of a running turn go; they may be lost."""

    def emit(self, kind: DeltaKind, *, text: str = "", tool: str = "", call_id: str = "") -> None:
        """Send a piece; never waits, never raises."""
        ...


class Turns(Protocol):
    """Does the work of a turn that `TurnRunner` opens and commits: our own loop, or a program that it is handed to."""

    @property
    def toolbox(self) -> Toolbox:
        """The session's tools, sandbox and gate."""
        ...

    @property
    def pulse(self) -> Pulse:
        """Signs of life of the turn."""
        ...

    def opening(self, inbound: Inbound) -> Message:
        """Return the row that begins a turn."""
        ...

    async def run(self, turn: Turn, inbound: Inbound) -> Outcome:
        """Run a turn to its end, which the caller commits. Raises TurnFailed, Stopped, HermesError (the store's)."""
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


class Notices(Protocol):
    """What the platform has to tell the model besides what people say."""

    def note(self) -> str:
        """Return what is to be told; empty when there is nothing."""
        ...

    def told(self) -> None:
        """What `note` returned last is in the transcript."""
        ...

    def with_next_command(self) -> None:
        """Nothing of this turn could carry it: the next command is answered with it instead."""
        ...


class Files(Notices, Protocol):
    """A workspace that is put back while the agent starts. Both raise SandboxError when it is not there in time."""

    async def arrived(self) -> str:
        """Wait for it; return what is to be told of it that no note told."""
        ...

    def using(self) -> AbstractAsyncContextManager[None]:
        """Surround what may change it."""
        ...
