"""Decides what an answer is worth: take it, ask again, or end the turn. Pure but for the counters of its own ladder."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_agent.loop.intent import announces
from hermes_agent.loop.limits import Limits
from hermes_agent.loop.outcome import EndReason, TurnFailed
from hermes_agent.loop.stitch import is_repetition, stitch
from hermes_agent.model.collect import Answer
from hermes_agent.model.hygiene import ParsedCall, clean_text, parse_call
from hermes_contracts.conversation import Message, ReasoningPart, Role, TextPart
from hermes_contracts.model_api import FinishReason

NUDGE = "You ran tools but gave no answer. Answer the user now, from the results above."
CONTINUE = (
    "Your answer was cut off by the output limit. Continue exactly where it stopped; do not repeat anything, do not "
    "apologise."
)
ANSWER_NOW = "You thought, but gave no answer. Give the answer now."
DO_IT = "You said what you will do but did nothing. Do it now with your tools, or give the final answer."
ASK_ANOTHER = "The model gave no answer; another one is asked."
_REFUSED = "The model declined to answer this."
_EMPTY = "The model gave an empty answer several times. Please try again or rephrase."
_THINKING = "The model used its whole output allowance for thinking and gave no answer. Please ask for less at once."
_CUT_CALL = (
    "The model tried to call a tool, but its call was cut off by the output limit every time. Ask for a smaller step."
)
_KEPT_THOUGHT = 4_000


@dataclass(frozen=True)
class Accepted:
    """A good answer."""

    text: str
    reasoning: tuple[ReasoningPart, ...]
    calls: tuple[ParsedCall, ...]
    cut: bool = False
    """The text is not complete."""
    note: str = ""
    """A sentence for the person that follows the text, but is no word of the model's."""


@dataclass(frozen=True)
class Again:
    """Ask again after a pause; `scaffold` goes to the end of this one request and is never stored."""

    scaffold: tuple[Message, ...] = ()
    pause_seconds: float = 0.0
    keeps_text: bool = False
    """What was said so far stays part of the answer."""
    notice: str = ""
    """What the person who watches is told."""


@dataclass(frozen=True)
class Setting:
    """What is known before a model is asked."""

    after_tools: bool = False
    has_tools: bool = True
    fallback: str = ""
    """What the model had said before calls that only tidied up."""
    passed_over: tuple[str, ...] = ()
    """Places of models that had nothing to say in this turn."""


class Ladder:
    """Counts what went wrong since the last good answer."""

    def __init__(self, limits: Limits, setting: Setting) -> None:
        self._limits = limits
        self._setting = setting
        self._stitched = ""
        self._lead = ""
        self._continuations = 0
        self._cut_calls = 0
        self._reasks = 0
        self._nudged = False
        self._thoughts = 0
        self._empties = 0
        self._intents = 0
        self.max_output_tokens = limits.max_output_tokens
        self.passed_over = setting.passed_over

    def judge(self, answer: Answer) -> Accepted | Again:
        """Return what to do. Raises TurnFailed."""
        text = clean_text(answer.text)
        if answer.finish is FinishReason.REFUSED:
            raise TurnFailed(EndReason.REFUSED, f"{_REFUSED} {text}".strip())
        if answer.calls:
            return self._judge_calls(answer, text)
        if not text.strip():
            return self._judge_empty(answer)
        self._stitched = stitch(self._stitched, text)
        if answer.finish is not FinishReason.LENGTH:
            return self._judge_whole(answer)
        if self._continuations >= self._limits.max_continuations or is_repetition(text) or self._window_is_full(answer):
            return self._accept(answer, cut=True)
        self._continuations += 1
        return self._continue()

    def partial(self, text: str, sentence: str) -> Accepted | None:
        """Return what came before a stream broke for good as the answer, or None when there is nothing to use."""
        whole = stitch(self._stitched, clean_text(text))
        if not (self._lead + whole).strip():
            return None
        return Accepted(self._lead + whole, (), (), cut=True, note=sentence)

    def _accept(self, answer: Answer, calls: tuple[ParsedCall, ...] = (), *, cut: bool = False) -> Accepted:
        return Accepted(self._lead + self._stitched, answer.reasoning, calls, cut)

    def _continue(self) -> Again:
        return Again((Message.assistant(self._lead + self._stitched), Message.user(CONTINUE)), keeps_text=True)

    def _window_is_full(self, answer: Answer) -> bool:
        used = answer.usage.input_tokens + answer.usage.output_tokens
        return 0 < answer.context_window < used + self._limits.min_window_tokens

    def _judge_whole(self, answer: Answer) -> Accepted | Again:
        if not self._setting.has_tools or self._intents >= self._limits.max_intent_nudges or not announces(self._stitched):
            return self._accept(answer)
        self._intents += 1
        self._lead += self._stitched.rstrip() + "\n\n"
        self._stitched = ""
        return Again((Message.assistant(self._lead.rstrip()), Message.user(DO_IT)), keeps_text=True)

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
        self._stitched = stitch(self._stitched, text)
        return self._accept(answer, calls)

    def _judge_empty(self, answer: Answer) -> Accepted | Again:
        said = self._lead + self._stitched
        if said.strip():
            return self._accept(answer, cut=answer.finish is FinishReason.LENGTH)
        if answer.finish is FinishReason.LENGTH:
            raise TurnFailed(EndReason.OUTPUT_LIMIT, _THINKING)
        if self._setting.fallback:
            return Accepted(self._setting.fallback, answer.reasoning, ())
        if self._setting.after_tools and not self._nudged:
            self._nudged = True
            return Again((Message.user(NUDGE),))
        if answer.reasoning and self._thoughts < self._limits.max_thinking_only:
            self._thoughts += 1
            return Again((_thought(answer.reasoning), Message.user(ANSWER_NOW)))
        return self._retry_empty(answer)

    def _retry_empty(self, answer: Answer) -> Again:
        self._empties += 1
        expensive = answer.usage.cost_nano_usd >= self._limits.expensive_call_nano_usd
        if self.passed_over or self._empties > (1 if expensive else self._limits.max_empty_retries):
            return self._ask_another(answer)
        pause = self._limits.empty_pause_seconds * 2 ** (self._empties - 1)
        return Again((), min(pause, self._limits.empty_pause_cap_seconds))

    def _ask_another(self, answer: Answer) -> Again:
        """Ask the Profile's next model, once each and without a pause: the person has waited for the first one's repeats."""
        if not answer.place or answer.place in self.passed_over or len(self.passed_over) >= self._limits.max_stand_ins:
            raise empty_answer()
        self.passed_over = (*self.passed_over, answer.place)
        return Again(notice=ASK_ANOTHER)


def empty_answer() -> TurnFailed:
    """Return the end of a turn in which nobody had anything to say."""
    return TurnFailed(EndReason.EMPTY_ANSWER, _EMPTY)


def _thought(reasoning: tuple[ReasoningPart, ...]) -> Message:
    """Return thinking as something that every provider reads: the model finds its own thoughts again."""
    text = "\n".join(part.text for part in reasoning).strip()[-_KEPT_THOUGHT:]
    return Message(role=Role.ASSISTANT, parts=(*reasoning, TextPart(text=f"(My thoughts so far: {text or 'none kept'})")))
