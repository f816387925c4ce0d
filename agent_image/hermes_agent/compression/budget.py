"""How long each part of a compacted conversation may be. Pure.

Everything that is carried from one summary into the next has a bound of its own: a summary that may only grow reaches a
size that no further pass can shrink.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from hermes_contracts.agent_config import CompressionConfig
from hermes_contracts.store_api import MAX_COMPACTED_BYTES

BIG_WINDOW = 512_000
"""Tokens from which half of a window is reason enough."""
BYTES_HEADROOM = 10_000
LEVELS = 3
_ROW_FLOORS = (8, 4, 1)


@dataclass(frozen=True)
class Budget:
    """Bounds of one pass; `_tokens` are rough tokens, `_characters` are characters."""

    head_rows: int
    head_tokens: int
    tail_rows: int
    tail_floor: int
    """Rows at the end that stay even when they are over `tail_tokens`."""
    tail_tokens: int
    newest_tokens: int
    """Of the last round of tool results, which the model has not answered yet."""
    summary_tokens: int
    said_characters: int
    done_characters: int
    names_characters: int
    material_characters: int
    """What the summariser reads at most."""
    max_bytes: int
    now: datetime

    @classmethod
    def of(cls, window: int, config: CompressionConfig, *, level: int = 0, now: datetime | None = None) -> Budget:
        """Return the bounds for a context window; each level halves what may stay as it is."""
        level = min(level, LEVELS - 1)
        tail = min(max(10_000, min(25_000, window // 40)), window // 5) >> level
        summary = max(256, min(window // 20, 12_000))
        extra = max(1_200, min(window // 5, 24_000))
        return cls(
            head_rows=config.protect_first if level < LEVELS - 1 else 0,
            head_tokens=tail // 2,
            tail_rows=max(config.protect_last >> level, _ROW_FLOORS[level]),
            tail_floor=min(_ROW_FLOORS[level], config.protect_last),
            tail_tokens=tail,
            newest_tokens=max(window // 4 >> level, 256),
            summary_tokens=summary,
            said_characters=extra // 3,
            done_characters=max(2_400, extra // 2),
            names_characters=extra // 6,
            material_characters=max(8_000, min(160_000, window)),
            max_bytes=MAX_COMPACTED_BYTES - BYTES_HEADROOM,
            now=now or datetime.now(UTC),
        )


def threshold_tokens(window: int, config: CompressionConfig) -> int:
    """Return the size from which a conversation is compacted, in tokens."""
    percent = config.threshold_percent or (50 if window >= BIG_WINDOW else 75)
    return window * percent // 100


def summary_tokens(material_tokens: int, budget: Budget) -> int:
    """Return how long the written part of a summary may be: a fifth of what it replaces, at least 2,000 if that fits."""
    return min(max(2_000, material_tokens // 5), budget.summary_tokens)
