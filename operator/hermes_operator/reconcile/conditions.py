"""Conditions: set, keep their transition time, compare."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from hermes_contracts.crd.base import Condition

_MESSAGE = 1000
_BAD_WHEN_TRUE = frozenset({"DeliveryFailed", "DeadLetter", "ChannelConflict"})
_STATUS: dict[bool | None, Literal["True", "False", "Unknown"]] = {True: "True", False: "False", None: "Unknown"}


@dataclass(frozen=True)
class Finding:
    """What a condition should say now."""

    type: str
    status: bool | None
    reason: str
    message: str = ""


def rfc3339(seconds: float) -> str:
    """Return a time as Kubernetes writes it, to the second."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def settle(findings: Iterable[Finding], old: tuple[Condition, ...], generation: int, now: float) -> tuple[Condition, ...]:
    """Return the conditions for these findings; one whose status is as before keeps its transition time."""
    before = {condition.type: condition for condition in old}
    result = []
    for finding in findings:
        status = _STATUS[finding.status]
        previous = before.get(finding.type)
        since = previous.last_transition_time if previous is not None and previous.status == status else rfc3339(now)
        result.append(
            Condition(
                type=finding.type,
                status=status,
                reason=finding.reason,
                message=finding.message[:_MESSAGE],
                last_transition_time=since,
                observed_generation=generation,
            )
        )
    return tuple(sorted(result, key=lambda condition: condition.type))


def turned_bad(old: tuple[Condition, ...], new: tuple[Condition, ...]) -> list[Condition]:
    """Return the conditions that say now that something is wrong, for a reason they did not have before."""
    before = {condition.type: condition for condition in old}
    found = []
    for condition in new:
        previous = before.get(condition.type)
        bad = "True" if condition.type in _BAD_WHEN_TRUE else "False"
        if condition.status == bad and (previous is None or previous.status != bad or previous.reason != condition.reason):
            found.append(condition)
    return found
