"""A turn in progress, as everything around the loop sees it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from hermes_agent.loop.transcript import Transcript
from hermes_agent.stop import StopSignal
from hermes_contracts.conversation import Usage
from hermes_contracts.envelopes import Inbound
from hermes_contracts.store_api import JournalEntry


@dataclass
class Turn:
    """A turn in progress. `step` is the number of the next write."""

    turn_id: str
    step: int
    transcript: Transcript
    stop: StopSignal
    journal: tuple[JournalEntry, ...] = ()
    inbound: Inbound | None = None
    """The message that the turn answers; None outside a person's turn."""
    resumed: bool = False
    """An earlier attempt of this turn got somewhere."""
    model: str = ""
    """Which of the Profile's models a person chose for this conversation; empty: the Profile's own."""
    usage: Usage = field(default_factory=Usage)
    """Of the model calls since the last written step."""
    context_tokens: int = 0
    """Input and output tokens of the last model call since the last written step; 0 when there was none."""
    spent: Usage = field(default_factory=Usage)
    """Of all model calls of this turn in this process."""
    started: float = field(default_factory=time.monotonic)
    iterations: int = 0
    malformed_rounds: int = 0
    unknown_rounds: int = 0
    warned: bool = False
    """The model was told that a budget is nearly used up."""
    shown: bool = False
    """Text of the answer that is coming in was streamed to the person."""
    fallback: str = ""
    """What the model had said before calls that only tidied up: the answer, if nothing follows."""
    said: list[str] = field(default_factory=list)
    """Whole answers of this turn that the person's further words came after."""
    provider: str = ""
    """Who served the last model call."""
    looked: bool = False
    """Its pictures were seen to."""
    passed_over: tuple[str, ...] = ()
    """Places of models that had nothing to say: the rest of the turn is left to others."""

    def spend(self, usage: Usage) -> None:
        """Count a model call beside the conversation."""
        self.usage += usage
        self.spent += usage

    def used(self, usage: Usage) -> None:
        """Count a model call that read the conversation."""
        self.spend(usage)
        self.context_tokens = usage.input_tokens + usage.output_tokens

    def written(self) -> None:
        """Count a write of the store's: what it carried is not carried again."""
        self.step += 1
        self.usage = Usage()
        self.context_tokens = 0

    def remember(self, text: str, *, only_tidied: bool) -> None:
        """Keep what was said beside calls that only tidied up; other calls make it old."""
        if not only_tidied:
            self.fallback = ""
        elif text.strip():
            self.fallback = text
