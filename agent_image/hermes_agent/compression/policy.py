"""When a conversation is compacted, and when it is left alone. Pure: values in, decisions out."""

from __future__ import annotations

from dataclasses import dataclass

COOL_DOWN_SECONDS = (60.0, 300.0, 900.0)
"""After the first, second and every further pass in a row that failed."""
MAX_INEFFECTIVE = 2
"""Passes in a row that gained nothing, after which nothing is tried until the conversation has grown."""
GROWTH_TO_RESUME = 1.2
URGENT_SHARE = 0.85
"""Part of the window from which a worse summary now beats a good one later."""
UNEXPLAINED_SHARE = 0.5
"""A provider that refuses less than this part of its window refuses for another reason than length."""
MAX_PASSES = 3
"""In one turn."""


@dataclass
class History:
    """What passes over one conversation came to, in this process."""

    failures: int = 0
    cool_until: float = 0.0
    """Seconds on the event loop's clock."""
    ineffective: int = 0
    given_up_at: int = 0
    """Tokens at which it was given up; 0: it was not."""
    awaiting_proof: bool = False
    """A pass was written and no provider has counted since."""
    forced: str | None = None
    """Focus of a `/compress` that waits for the next turn; empty text is a focus too."""
    turn_id: str = ""
    passes: int = 0
    """In turn `turn_id`."""
    unexplained: bool = False
    """Turn `turn_id` had a refusal that length does not explain."""

    def in_turn(self, turn_id: str) -> History:
        """Begin to count anew when this is another turn."""
        if turn_id != self.turn_id:
            self.turn_id, self.passes, self.unexplained = turn_id, 0, False
        return self

    def rests(self, now: float, tokens: int, *, urgent: bool) -> bool:
        """Tell whether automatic passes are to be left out for now."""
        if self.passes >= MAX_PASSES:
            return True
        if self.given_up_at and tokens < self.given_up_at * GROWTH_TO_RESUME:
            return True
        return now < self.cool_until and not urgent

    def failed(self, now: float) -> None:
        """The summary could not be written."""
        self.cool_until = now + COOL_DOWN_SECONDS[min(self.failures, len(COOL_DOWN_SECONDS) - 1)]
        self.failures += 1

    def gained_nothing(self, tokens: int) -> None:
        """A pass was not worth it."""
        self.ineffective += 1
        if self.ineffective >= MAX_INEFFECTIVE:
            self.given_up_at = max(tokens, 1)

    def proved(self, tokens: int, threshold: int) -> None:
        """A provider counted after a pass: the pass has worked if it is below the threshold now."""
        self.awaiting_proof = False
        if tokens >= threshold:
            self.gained_nothing(tokens)
        else:
            self.ineffective = self.given_up_at = self.passes = 0


@dataclass(frozen=True)
class Size:
    """How long a transcript is, in tokens. `counted`: by a provider, but for what came since."""

    tokens: int
    counted: bool


def is_due(size: Size, threshold: int, window: int) -> bool:
    """Tell whether to compact before a call: an estimate alone waits for one real call, unless it is over the window."""
    return size.tokens >= threshold and (size.counted or size.tokens >= window)


def is_urgent(size: Size, window: int) -> bool:
    """Tell whether a pass cannot wait."""
    return size.tokens >= window * URGENT_SHARE
