"""Notices when a model repeats itself. Counts calls in a row that are identical, and those that also fail."""

from __future__ import annotations

import re

from hermes_agent.loop.limits import Limits
from hermes_contracts.conversation import ToolCallPart, ToolResultPart

_SECONDS = re.compile(r"\d+\.\d+ s\b")
"""Durations differ between calls that are otherwise the same."""


class Guardrails:
    """One turn's memory of its last call."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._last: tuple[str, str] | None = None
        self._last_result = ""
        self._repeats = 0
        self._failures = 0

    def observe(self, call: ToolCallPart, result: ToolResultPart) -> ToolResultPart:
        """Count a call; return its result, with a notice when it brings nothing new for the third time."""
        key = (call.name, call.arguments)
        same = key == self._last
        self._failures = (self._failures + 1 if same else 1) if result.is_error else 0
        outcome = _SECONDS.sub("", result.text)
        self._repeats = self._repeats + 1 if same and outcome == self._last_result else 1
        self._last, self._last_result = key, outcome
        if self._repeats < self._limits.repeat_notice:
            return result
        notice = (
            f"\n\n[Notice: this is call number {self._repeats} in a row with the same arguments and the same result. "
            "Do something different, or tell the user what is in the way.]"
        )
        return result.model_copy(update={"text": result.text + notice})

    @property
    def must_stop(self) -> bool:
        """Tell whether the same call has failed too often in a row."""
        return self._failures >= self._limits.max_identical_failures
