"""Cuts a batch of calls into segments that may run together. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_agent.tools.base import Access

MAX_PARALLEL = 8


def segments(accesses: Sequence[Access]) -> list[list[int]]:
    """Return indices in call order: a barrier is alone, and nothing runs beside a writer of what it touches."""
    result: list[list[int]] = []
    current: list[int] = []
    for index, access in enumerate(accesses):
        alone = access.barrier or (bool(current) and accesses[current[0]].barrier)
        if current and (alone or len(current) >= MAX_PARALLEL or any(_conflict(accesses[i], access) for i in current)):
            result.append(current)
            current = []
        current.append(index)
    return [*result, current] if current else result


def _conflict(first: Access, second: Access) -> bool:
    touched = second.reads | second.writes
    return any(_overlap(path, other) for path in first.writes for other in touched) or any(
        _overlap(path, other) for path in second.writes for other in first.reads
    )


def _overlap(first: str, second: str) -> bool:
    if "." in (first, second) or "/" in (first, second) or first == second:
        return True
    return first.startswith(second + "/") or second.startswith(first + "/")
