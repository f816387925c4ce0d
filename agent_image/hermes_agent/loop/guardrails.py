"""Notices when a model repeats itself or gets nowhere: tells it, and where nobody watches, ends the turn.

All counts are of one turn. A change that succeeded sets them back: what failed before may work now.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

from hermes_agent.loop.limits import GuardrailLimits
from hermes_agent.loop.outcome import EndReason
from hermes_agent.tools.executor import CheckedCall
from hermes_contracts.conversation import ToolResultPart

_SECONDS = re.compile(r"(?<!\d)\d{1,9}\.\d{1,9} s\b")
"""Durations differ between calls that are otherwise the same."""

ATTENDED = frozenset({"api", "terminal"})
"""Channels whose person watches and can say stop: there the model is told, and the turn goes on."""

_REPEATED = "I stopped: the same call failed again and again ({tool}). The last error was: {error}"
_TOOL_FAILS = "I stopped: {tool} failed {count} times in a row, whatever was tried. The last error was: {error}"
_NO_PROGRESS = "I stopped: the same calls brought the same results again and again ({tool})."


@dataclass(frozen=True)
class Halt:
    """Why the turn has to end."""

    reason: EndReason
    sentence: str


@dataclass(frozen=True)
class _Seen:
    key: tuple[str, str]
    outcome: int
    """Hash of the result without durations."""


class Guardrails:
    """One turn's memory of its calls."""

    def __init__(self, limits: GuardrailLimits, *, hard_stops: bool) -> None:
        self._limits = limits
        self._hard_stops = hard_stops
        self._history: deque[_Seen] = deque(maxlen=limits.history)
        self._failures: dict[tuple[str, str], int] = {}
        self._tool_failures: dict[str, int] = {}
        self._same_results: dict[_Seen, int] = {}
        self._first_ids: dict[_Seen, str] = {}
        self.halt: Halt | None = None
        """Set when the turn has to end."""

    def forget_results(self) -> None:
        """The transcript was compacted: earlier results may be gone from it and cannot be pointed at."""
        self._first_ids.clear()

    def observe(self, call: CheckedCall, result: ToolResultPart) -> ToolResultPart:
        """Count a call; return its result, shortened when it is known, with a notice when the model should know better."""
        part = result
        seen = _Seen((call.part.name, call.part.arguments), hash(_SECONDS.sub("", result.text)))
        self._history.append(seen)
        lenient = call.tool is not None and call.tool.lenient
        notices = [
            self._count_failure(call, result, lenient),
            self._count_progress(seen, result, lenient),
            self._cycle(lenient),
        ]
        if not result.is_error and call.tool is not None and call.tool.access(call.arguments).writes:
            self._forget_counts()
        if len(result.text) >= self._limits.stub_characters and not result.is_error:
            first = self._first_ids.setdefault(seen, result.call_id)
            if first != result.call_id:
                stub = f"[Unchanged: the same result as that of call {first}, {len(result.text)} characters.]"
                part = result.model_copy(update={"text": stub})
        notice = next(filter(None, notices), "")
        return part.model_copy(update={"text": f"{part.text}\n\n[Notice: {notice}]"}) if notice else part

    def _forget_counts(self) -> None:
        self._failures.clear()
        self._tool_failures.clear()
        self._same_results.clear()
        self._history.clear()

    def _count_failure(self, call: CheckedCall, result: ToolResultPart, lenient: bool) -> str:
        name, key = call.part.name, (call.part.name, call.part.arguments)
        if not result.is_error:
            self._failures.pop(key, None)
            self._tool_failures.pop(name, None)
            return ""
        if lenient:
            return ""
        same = self._failures[key] = self._failures.get(key, 0) + 1
        tool = self._tool_failures[name] = self._tool_failures.get(name, 0) + 1
        error = " ".join(result.text.split())[:300]
        if same >= self._limits.same_failure_stop:
            self._stop(EndReason.REPEATED_FAILURES, _REPEATED.format(tool=name, error=error))
        elif tool >= self._limits.tool_failure_stop:
            self._stop(EndReason.REPEATED_FAILURES, _TOOL_FAILS.format(tool=name, count=tool, error=error))
        if same >= self._limits.same_failure_warn:
            return (
                f"this very call has failed {same} times. Change something before you try again, or tell the user what is "
                "in the way."
            )
        if tool >= self._limits.tool_failure_warn:
            return f"{name} has failed {tool} times in a row. Look at the errors and try another way."
        return ""

    def _count_progress(self, seen: _Seen, result: ToolResultPart, lenient: bool) -> str:
        repeats = self._same_results.get(seen, -1) + 1
        self._same_results[seen] = repeats
        if result.is_error and not lenient:
            return ""
        if repeats >= self._limits.no_progress_stop and not lenient:
            self._stop(EndReason.NO_PROGRESS, _NO_PROGRESS.format(tool=seen.key[0]))
        in_a_row = self._in_a_row(seen)
        if in_a_row >= self._limits.repeat_notice:
            return (
                f"this is call number {in_a_row} in a row with the same arguments and the same result. "
                "Do something different, or tell the user what is in the way."
            )
        if repeats >= self._limits.no_progress_warn and not lenient:
            return f"this call has brought the same result {repeats + 1} times. Use what you know already."
        return ""

    def _in_a_row(self, seen: _Seen) -> int:
        count = 0
        for earlier in reversed(self._history):
            if earlier != seen:
                break
            count += 1
        return count

    def _cycle(self, lenient: bool) -> str:
        history = list(self._history)
        for period in range(2, self._limits.cycle_period + 1):
            rounds = _rounds(history, period)
            if rounds < 3 or len(set(history[-period:])) == 1:
                continue
            if rounds > self._limits.no_progress_stop and not lenient:
                self._stop(EndReason.NO_PROGRESS, _NO_PROGRESS.format(tool=history[-1].key[0]))
            return f"your last {period} calls came {rounds} times over, with the same results. Break the circle."
        return ""

    def _stop(self, reason: EndReason, sentence: str) -> None:
        if self._hard_stops and self.halt is None:
            self.halt = Halt(reason, sentence)


def _rounds(history: list[_Seen], period: int) -> int:
    """Return how many times in a row the last `period` entries have come."""
    last, rounds, end = history[-period:], 0, len(history)
    while end >= period and history[end - period : end] == last:
        rounds += 1
        end -= period
    return rounds
