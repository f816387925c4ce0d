"""Decides what an answer is worth: take it, ask again, or end the turn. Pure but for the counters of its own ladder."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_agent.loop.limits import Limits
from hermes_agent.loop.outcome import EndReason, TurnFailed
from hermes_agent.model.collect import Answer
from hermes_agent.model.hygiene import ParsedCall, clean_text, parse_call
from hermes_contracts.conversation import Message, ReasoningPart
from hermes_contracts.model_api import FinishReason

NUDGE = "You ran tools but gave no answer. Answer the user now, from the results above."
CONTINUE = (
    "Your answer was cut off by the output limit. Continue exactly where it stopped; do not repeat anything, do not "
    "apologise."
)
_REFUSED = "The model declined to answer this."
_EMPTY = "The model gave an empty answer several times. Please try again or rephrase."
_THINKING = "The model used its whole output allowance for thinking and gave no answer. Please ask for less at once."
_CUT_CALL = (
    "The model tried to call a tool, but its call was cut off by the output limit every time. Ask for a smaller step."
)


@dataclass(frozen=True)
class Accepted:
    """A good answer."""

    text: str
    reasoning: tuple[ReasoningPart, ...]
    calls: tuple[ParsedCall, ...]
    cut: bool = False
    """The text is not complete."""


@dataclass(frozen=True)
class Again:
    """Ask again after a pause; `scaffold` goes to the end of this one request and is never stored."""

    scaffold: tuple[Message, ...] = ()
    pause_seconds: float = 0.0


class Ladder:
    """Counts what went wrong since the last good answer."""

    def __init__(self, limits: Limits, *, after_tools: bool) -> None:
        self._limits = limits
        self._after_tools = after_tools
        self._stitched = ""
        self._continuations = 0
        self._cut_calls = 0
        self._reasks = 0
        self._empties = 0
        self.max_output_tokens = limits.max_output_tokens

    def judge(self, answer: Answer) -> Accepted | Again:
        """Return what to do. Raises TurnFailed."""
        text = clean_text(answer.text)
        if answer.finish is FinishReason.REFUSED:
            raise TurnFailed(EndReason.REFUSED, f"{_REFUSED} {text}".strip())
        if answer.calls:
            return self._judge_calls(answer, text)
        if not text.strip():
            return self._judge_empty(answer)
        self._stitched += text
        if answer.finish is not FinishReason.LENGTH:
            return Accepted(self._stitched, answer.reasoning, ())
        if self._continuations >= self._limits.max_continuations or _is_repetition(text):
            return Accepted(self._stitched, answer.reasoning, (), cut=True)
        self._continuations += 1
        return self._continue()

    def _continue(self) -> Again:
        return Again((Message.assistant(self._stitched), Message.user(CONTINUE)))

    def _judge_calls(self, answer: Answer, text: str) -> Accepted | Again:
        calls = tuple(parse_call(call) for call in answer.calls)
        if answer.finish is FinishReason.LENGTH or any(call.problem == "truncated" for call in calls):
            self._cut_calls += 1
            if self._cut_calls > self._limits.max_truncated_calls:
                raise TurnFailed(EndReason.OUTPUT_LIMIT, _CUT_CALL)
            self.max_output_tokens = 2 * (self.max_output_tokens or self._limits.truncated_call_base_tokens)
            return self._continue() if self._stitched else Again()
        if any(call.problem for call in calls) and self._reasks < self._limits.max_silent_reasks:
            self._reasks += 1
            return self._continue() if self._stitched else Again()
        return Accepted(self._stitched + text, answer.reasoning, calls)

    def _judge_empty(self, answer: Answer) -> Accepted | Again:
        if answer.finish is FinishReason.LENGTH:
            if self._stitched:
                return Accepted(self._stitched, answer.reasoning, (), cut=True)
            raise TurnFailed(EndReason.OUTPUT_LIMIT, _THINKING)
        if self._stitched:
            return Accepted(self._stitched, answer.reasoning, ())
        self._empties += 1
        if self._empties >= self._limits.max_empty_answers:
            raise TurnFailed(EndReason.EMPTY_ANSWER, _EMPTY)
        if self._after_tools and self._empties == 1:
            return Again((Message.user(NUDGE),))
        return Again((), self._limits.empty_pause_seconds)


def _is_repetition(text: str) -> bool:
    words = text.split()
    return len(words) >= 400 and len(set(words)) * 20 < len(words)
