"""One turn: request, stream, tools, append, again.

Every step is written before the next one starts: the assistant's message with `started` for its calls before any of
them runs, the results with `finished` after the last of them ended. So whatever dies, what is written says what was done.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from hermes_agent.loop.guardrails import Guardrails
from hermes_agent.loop.judge import Accepted, Ladder
from hermes_agent.loop.limits import Limits
from hermes_agent.loop.outcome import EndReason, Outcome, TurnFailed, iteration_limit_reply
from hermes_agent.loop.ports import DeltaSink, Store
from hermes_agent.loop.resume import interrupted_results
from hermes_agent.loop.retry import GiveUp, decide
from hermes_agent.loop.transcript import Transcript, encode
from hermes_agent.model.base import ModelCall, ModelClient
from hermes_agent.model.collect import Answer, collect
from hermes_agent.model.hygiene import clean_text, unique_id
from hermes_agent.stop import StopSignal
from hermes_agent.tools.executor import CheckedCall, Toolbox
from hermes_contracts.conversation import Message, Role, TextPart, ToolCallPart, ToolResultPart, Usage
from hermes_contracts.envelopes import Inbound
from hermes_contracts.errors import HermesError
from hermes_contracts.store_api import APPEND, AppendRequest, JournalEntry

_SUMMARISE = (
    "You have reached the limit of steps for this turn. Do not call tools. Tell the user in a few sentences what is "
    "done, what is not, and how to go on."
)
_UNKNOWN_TOOLS = "The model kept calling tools that do not exist, so I stopped. Please try again."
_MALFORMED = "The model kept sending tool calls that could not be read, so I stopped. Please try again."
_REPEATED = "I stopped: the same call failed again and again ({tool}). The last error was: {error}"


@dataclass
class Turn:
    """A turn in progress."""

    turn_id: str
    step: int
    transcript: Transcript
    stop: StopSignal
    journal: tuple[JournalEntry, ...] = ()
    usage: Usage = field(default_factory=Usage)
    """Of the model calls since the last written step."""
    iterations: int = 0
    malformed_rounds: int = 0
    unknown_rounds: int = 0


class TurnLoop:
    """Runs turns with one session's model, tools and store."""

    def __init__(
        self, store: Store, model: ModelClient, toolbox: Toolbox, limits: Limits, deltas: DeltaSink, rng: random.Random
    ) -> None:
        self._store = store
        self._model = model
        self._toolbox = toolbox
        self._limits = limits
        self._deltas = deltas
        self._rng = rng

    async def run(self, turn: Turn, inbound: Inbound) -> Outcome:
        """Run a turn to its end, which the caller commits. Raises TurnFailed, Stopped, HermesError (the store's)."""
        await self._begin(turn, inbound)
        guardrails = Guardrails(self._limits)
        while turn.iterations < self._limits.max_iterations:
            turn.iterations += 1
            answer = await self._ask(turn)
            if not answer.calls:
                return Outcome("done", EndReason.LENGTH if answer.cut else EndReason.STOP, answer.text.strip())
            calls = self._check(turn, answer)
            await self._append(turn, _assistant(answer, calls), _journal(calls, "started"))
            results = await self._toolbox.run(calls, turn.stop, self._progress)
            results = [guardrails.observe(call.part, result) for call, result in zip(calls, results, strict=True)]
            await self._append(turn, Message(role=Role.TOOL, parts=tuple(results)), _journal(calls, "finished"))
            turn.stop.check()
            self._judge_round(turn, calls, results, guardrails)
        return await self._summarise(turn)

    async def _begin(self, turn: Turn, inbound: Inbound) -> None:
        if turn.step == 0:
            await self._append(turn, Message.user(clean_text(inbound.text)))
        elif turn.transcript.open_calls:
            results = interrupted_results(turn.transcript.open_calls, turn.journal)
            began = {entry.call_id: entry for entry in turn.journal}
            ended = tuple(
                JournalEntry(call_id=call.id, tool=call.name, state="finished")
                for call in turn.transcript.open_calls
                if call.id in began
            )
            await self._append(turn, results, ended)
        turn.stop.check()

    async def _append(self, turn: Turn, message: Message, journal: tuple[JournalEntry, ...] = ()) -> None:
        await self._store.call(
            APPEND,
            AppendRequest(turn_id=turn.turn_id, step=turn.step, messages=(message,), journal=journal, usage=turn.usage),
        )
        turn.step += 1
        turn.usage = Usage()
        turn.transcript.add(message)

    async def _ask(self, turn: Turn, scaffold: Sequence[Message] = ()) -> Accepted:
        ladder = Ladder(self._limits, after_tools=turn.transcript.last_role is Role.TOOL)
        extra: Sequence[Message] = scaffold
        while True:
            answer = await self._call_model(turn, extra, ladder.max_output_tokens)
            turn.usage += answer.usage
            verdict = ladder.judge(answer)
            if isinstance(verdict, Accepted):
                return verdict
            extra = (*scaffold, *verdict.scaffold)
            if verdict.pause_seconds:
                await turn.stop.race(asyncio.sleep(verdict.pause_seconds))

    async def _call_model(self, turn: Turn, extra: Sequence[Message], max_output_tokens: int | None) -> Answer:
        transcript = turn.transcript
        messages = [*transcript.messages, *map(encode, extra)] if extra else transcript.messages
        call = ModelCall(turn.turn_id, turn.step, transcript.system, transcript.tools, messages, max_output_tokens)
        failures = 0
        while True:
            try:
                return await turn.stop.race(collect(self._model.stream(call), self._piece))
            except HermesError as error:
                failures += 1
                verdict = decide(self._limits.retry, error, failures, self._rng.random())
                if isinstance(verdict, GiveUp):
                    raise TurnFailed(verdict.reason, verdict.sentence) from error
            await turn.stop.race(asyncio.sleep(verdict))

    def _check(self, turn: Turn, answer: Accepted) -> list[CheckedCall]:
        taken = turn.transcript.call_ids
        return [self._toolbox.check(call, unique_id(call.id, taken)) for call in answer.calls]

    def _judge_round(
        self, turn: Turn, calls: Sequence[CheckedCall], results: Sequence[ToolResultPart], guardrails: Guardrails
    ) -> None:
        turn.unknown_rounds = turn.unknown_rounds + 1 if all(call.unknown for call in calls) else 0
        if turn.unknown_rounds >= self._limits.max_unknown_tool_rounds:
            raise TurnFailed(EndReason.UNKNOWN_TOOLS, _UNKNOWN_TOOLS)
        if any(call.malformed for call in calls):
            turn.malformed_rounds += 1
            if turn.malformed_rounds >= self._limits.max_malformed_rounds:
                raise TurnFailed(EndReason.MALFORMED_CALLS, _MALFORMED)
        if guardrails.must_stop:
            error = " ".join(results[-1].text.split())[:300]
            raise TurnFailed(EndReason.REPEATED_FAILURES, _REPEATED.format(tool=calls[-1].part.name, error=error))

    async def _summarise(self, turn: Turn) -> Outcome:
        sentence = iteration_limit_reply(self._limits.max_iterations)
        try:
            answer = await self._ask(turn, (Message.user(_SUMMARISE),))
        except TurnFailed:
            return Outcome("done", EndReason.ITERATION_LIMIT, sentence)
        text = answer.text.strip()
        return Outcome("done", EndReason.ITERATION_LIMIT, f"{text}\n\n({sentence})" if text else sentence)

    def _piece(self, kind: str, text: str) -> None:
        self._deltas.emit("reasoning" if kind == "reasoning" else "text", text=text)

    def _progress(self, kind: str, call: ToolCallPart) -> None:
        self._deltas.emit("tool_started" if kind == "tool_started" else "tool_finished", tool=call.name, call_id=call.id)


def _assistant(answer: Accepted, calls: Sequence[CheckedCall]) -> Message:
    text = (TextPart(text=answer.text),) if answer.text else ()
    return Message(role=Role.ASSISTANT, parts=(*answer.reasoning, *text, *(call.part for call in calls)))


def _journal(calls: Sequence[CheckedCall], state: str) -> tuple[JournalEntry, ...]:
    return tuple(
        JournalEntry(call_id=call.part.id, tool=call.part.name, state="started" if state == "started" else "finished")
        for call in calls
        if call.tool is not None
    )
