"""Joins a text that was cut with its continuation, and tells a text from a stuck one. Pure."""

from __future__ import annotations

_LONGEST_OVERLAP = 2_000
_SHORTEST_OVERLAP = 12
"""Shorter ones are chance: two sentences may well share a word."""

_TAIL = 2_000
_LONGEST_PERIOD = 400
"""A text whose end repeats within so many characters is stuck."""


def stitch(before: str, after: str) -> str:
    """Return both, without what `after` repeats of the end of `before`."""
    if not before:
        return after
    begun = after.lstrip()
    for length in range(min(len(before), len(begun), _LONGEST_OVERLAP), _SHORTEST_OVERLAP - 1, -1):
        if before.endswith(begun[:length]):
            return before + begun[length:]
    return before + after


def is_repetition(text: str) -> bool:
    """Tell whether a long text is mostly the same words or the same lines again and again."""
    words = text.split()
    if len(words) >= 400 and len(set(words)) * 20 < len(words):
        return True
    tail = text[-_TAIL:]
    return len(tail) == _TAIL and any(tail[period:] == tail[:-period] for period in range(1, _LONGEST_PERIOD + 1))
