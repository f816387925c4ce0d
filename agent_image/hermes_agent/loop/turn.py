"""One turn: request, stream, tools, append, again.

Every step is written before the next one starts: the assistant's message with `started` for its calls before any of
them runs, the results with `finished` after the last of them ended. So whatever dies, what is written says what was done.
Nor is a model ever asked about what is not written: after a crash its request would begin with other bytes.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence

from hermes_agent.approvals.gate import Asked, sentence_of
from hermes_agent.loop.ask import Asker
from hermes_agent.loop.budget import Budget, budgets, warning
from hermes_agent.loop.guardrails import ATTENDED, Guardrails
from hermes_agent.loop.judge import Accepted
from hermes_agent.loop.limits import Limits
from hermes_agent.loop.liveness import Pulse
from hermes_agent.loop.outcome import EndReason, Outcome, TurnFailed, limit_reply
from hermes_agent.loop.ports import Compaction, DeltaSink, Notices, Store
from hermes_agent.loop.resume import interrupted_results
from hermes_agent.loop.sight import Sight
from hermes_agent.loop.state import Turn as Turn
from hermes_agent.loop.steering import answers_before, is_stored, new_goal, steering
from hermes_agent.loop.uncompacted import NoCompaction
from hermes_agent.model.base import ModelClient
from hermes_agent.model.collect import RawCall
from hermes_agent.model.hygiene import parse_call, unique_id
from hermes_agent.prompt.directory_hints import DirectoryHints
from hermes_agent.prompt.first_message import first_message
from hermes_agent.prompt.scheduled_message import scheduled_message
from hermes_agent.stop import Note, Stopped, StopReason
from hermes_agent.tools.executor import CheckedCall, Toolbox
from hermes_contracts.conversation import Message, Role, TextPart, ToolCallPart, ToolResultPart
from hermes_contracts.envelopes import Inbound
from hermes_contracts.store_api import APPEND, GET_APPROVAL, AppendRequest, ApprovalIdRequest, JournalEntry

_SUMMARISE = (
    "You have reached the limit of {limit} for this turn. Do not call tools. Tell the user in a few sentences what is "
    "done, what is not, and how to go on."
)
_UNKNOWN_TOOLS = "The model kept calling tools that do not exist, so I stopped. Please try again."
_MALFORMED = "The model kept sending tool calls that could not be read, so I stopped. Please try again."


class TurnLoop:
    """Runs turns with one session's model, tools and store."""

    def __init__(  # noqa: PLR0913 - all that a round needs meets here, named
        self,
        store: Store,
        model: ModelClient,
        toolbox: Toolbox,
        limits: Limits,
        deltas: DeltaSink,
        rng: random.Random,
        compaction: Compaction | None = None,
        hints: DirectoryHints | None = None,
        sight: Sight | None = None,
        notices: Notices | None = None,
    ) -> None:
        self._store = store
        self.toolbox = toolbox
        self._limits = limits
        self._deltas = deltas
        self._hints = hints
        self._notices = notices
        self._noted = (("", "", ""), "")
        """The message whose opening carries a note, and the note: it reads the same whenever it is asked for."""
        self._sight = sight
        self.pulse = Pulse()
        self._asker = Asker(model, limits, deltas, compaction or NoCompaction(), rng, self.pulse)

    def opening(self, inbound: Inbound) -> Message:
        """Return the row that begins a turn."""
        if inbound.run is not None:
            return scheduled_message(inbound, inbound.run)
        message = (inbound.channel, inbound.account, inbound.update_id)
        if self._notices is not None and self._noted[0] != message:
            self._noted = (message, self._notices.note())
        return first_message(inbound, stamp_time="terminal" not in self.toolbox.tools, note=self._noted[1])

    async def run(self, turn: Turn, inbound: Inbound) -> Outcome:
        """Run a turn to its end, which the caller commits. Raises TurnFailed, Stopped, HermesError (the store's)."""
        await self._begin(turn, inbound)
        guardrails = Guardrails(self._limits.guardrails, hard_stops=inbound.channel not in ATTENDED)
        if inbound.approval and turn.step == 1:
            await self._run_approved(turn, inbound.approval, guardrails)
        while True:
            try:
                outcome = await self._round(turn, guardrails)
            except Stopped as stopped:
                note = turn.stop.take_redirect()
                if note is not None:
                    await self._turn_to(turn, note)
                    continue
                if stopped.reason is not StopReason.TIME or turn.transcript.last_role is not Role.TOOL:
                    raise
                outcome = await self._last_word(turn, self._budgets(turn)[0])
            if outcome is not None:
                return outcome

    async def _begin(self, turn: Turn, inbound: Inbound) -> None:
        """Write down the message; or, in a turn that was begun before, results for the calls that were cut short."""
        if turn.step == 0:
            await self._append(turn, (self.opening(inbound),))
            self._told(turn, inbound)
            return
        if turn.resumed:
            turn.transcript.call_ids.update(entry.call_id for entry in turn.journal)
            turn.said = answers_before(turn.transcript)
        if turn.transcript.open_calls:
            note = self._notices.note() if self._notices is not None else ""
            results = interrupted_results(turn.transcript.open_calls, turn.journal, note)
            began = {entry.call_id: entry for entry in turn.journal}
            ended = tuple(
                JournalEntry(call_id=call.id, tool=call.name, state="finished")
                for call in turn.transcript.open_calls
                if call.id in began
            )
            await self._append(turn, (results,), ended)
            if self._notices is not None:
                self._notices.told()
        self._told(turn, inbound)

    def _told(self, turn: Turn, inbound: Inbound) -> None:
        """Settle the platform's note: a turn that this life began carries it; in another one the next command says it."""
        if self._notices is None:
            return
        if inbound.run is None and not turn.resumed:
            self._notices.told()
        else:
            self._notices.with_next_command()

    async def _append(self, turn: Turn, messages: tuple[Message, ...], journal: tuple[JournalEntry, ...] = ()) -> None:
        request = AppendRequest(
            turn_id=turn.turn_id,
            step=turn.step,
            messages=messages,
            journal=journal,
            usage=turn.usage,
            context_tokens=turn.context_tokens,
        )
        await self._store.call(APPEND, request)
        turn.written()
        for message in messages:
            turn.transcript.add(message)

    async def _round(self, turn: Turn, guardrails: Guardrails) -> Outcome | None:
        """Do one round; return how the turn ended, or None when it goes on."""
        turn.stop.check()
        most_used = self._budgets(turn)[0]
        if most_used.share >= 1:
            return await self._last_word(turn, most_used)
        turn.iterations += 1
        await self._look(turn)
        compactions = turn.transcript.compactions
        answer = await self._asker.ask(turn)
        if not answer.calls:
            return await self._answered(turn, answer)
        if turn.transcript.compactions != compactions:
            guardrails.forget_results()
        calls = self._check(turn, answer)
        await self._append(turn, (_assistant(answer, calls),), _journal(calls, "started"))
        results = await self._run_tools(turn, calls, guardrails)
        notes = self._steers(turn)
        steered = (steering(notes),) if notes else ()
        rows = (Message(role=Role.TOOL, parts=tuple(results)), *steered)
        await self._append(turn, rows, _journal(calls, "finished"))
        self._stored(turn, notes)
        turn.remember(answer.text, only_tidied=all(call.tidies for call in calls))
        asked = self.toolbox.gate.take_asked() if self.toolbox.gate is not None else ()
        if asked:
            return self._asked(turn, answer.text.strip(), asked)
        turn.stop.check()
        self._judge_round(turn, calls, guardrails)
        return None

    async def _look(self, turn: Turn) -> None:
        """See to the message's pictures before the model is first asked; what cannot be seen, the person is told."""
        if self._sight is None or turn.looked or turn.inbound is None or not turn.inbound.images:
            return
        with self.pulse.excused(self._sight.seconds):
            sentence = await turn.stop.race(self._sight.look(turn, turn.inbound))
        turn.looked = True
        if sentence:
            turn.said.append(sentence)

    async def _run_approved(self, turn: Turn, approval_id: str, guardrails: Guardrails) -> None:
        """Run the call that a person has approved, as if the model had sent it again."""
        gate = self.toolbox.gate
        approval = await self._store.call(GET_APPROVAL, ApprovalIdRequest(approval_id=approval_id))
        if gate is None or approval.kind != "call" or approval.state != "approved":
            return
        call = parse_call(RawCall(id=f"approved_{approval_id}", name=approval.tool, arguments=approval.arguments))
        calls = [self.toolbox.check(call, unique_id(call.id, turn.transcript.call_ids))]
        gate.approve(calls[0].part.name, calls[0].part.arguments)
        message = Message(role=Role.ASSISTANT, parts=(calls[0].part,))
        await self._append(turn, (message,), _journal(calls, "started"))
        results = await self._run_tools(turn, calls, guardrails)
        await self._append(turn, (Message(role=Role.TOOL, parts=tuple(results)),), _journal(calls, "finished"))

    def _asked(self, turn: Turn, text: str, asked: tuple[Asked, ...]) -> Outcome:
        """End the turn with what the person is asked: no pod waits for him, and his answer is the next turn."""
        question, choices = sentence_of(asked)
        reply = "\n\n".join(part for part in (*turn.said, text, question) if part)
        return Outcome("done", EndReason.ASKED, reply, question, choices=choices)

    async def _run_tools(self, turn: Turn, calls: Sequence[CheckedCall], guardrails: Guardrails) -> list[ToolResultPart]:
        with self.pulse.excused(sum(call.deadline_seconds for call in calls)):
            results = await self.toolbox.run(calls, turn.stop, self._progress)
        results = [guardrails.observe(call, result) for call, result in zip(calls, results, strict=True)]
        if self._hints is not None:
            results = await self._hints.add(turn.transcript, calls, results)
        most_used = self._budgets(turn)[0]
        if most_used.share >= self._limits.warning_share and not turn.warned:
            turn.warned = True
            results[-1] = results[-1].model_copy(update={"text": results[-1].text + warning(most_used)})
        return results

    async def _answered(self, turn: Turn, answer: Accepted) -> Outcome | None:
        """End the turn, unless the person has said something that this answer could not know of."""
        text = answer.text.strip()
        notes = self._steers(turn)
        if notes:
            await self._append(turn, (_assistant(answer, ()), steering(notes)))
            self._stored(turn, notes)
            turn.said.append(text)
            return None
        if turn.stop.reason is StopReason.REDIRECT:
            return None
        reason = EndReason.CUT_OFF if answer.note else EndReason.LENGTH if answer.cut else EndReason.STOP
        reply = f"{text}\n\n({answer.note})" if answer.note else text
        return Outcome("done", reason, "\n\n".join([*turn.said, reply]), reply)

    def _steers(self, turn: Turn) -> list[Note]:
        """Take what the person said; what an earlier life wrote down already is done."""
        notes = []
        for note in turn.stop.take_steers():
            if is_stored(turn.transcript, note):
                turn.stop.on_stored(note)
            else:
                notes.append(note)
        return notes

    def _stored(self, turn: Turn, notes: Sequence[Note]) -> None:
        for note in notes:
            turn.stop.on_stored(note)

    async def _turn_to(self, turn: Turn, note: Note) -> None:
        """Go on with a new goal; what was being said is void."""
        if turn.shown:
            turn.shown = False
            self._deltas.emit("restart")
        if not is_stored(turn.transcript, note):
            await self._append(turn, new_goal(note))
        turn.said.clear()
        turn.stop.on_stored(note)

    def _budgets(self, turn: Turn) -> list[Budget]:
        seconds = time.monotonic() - turn.started
        return budgets(self._limits, iterations=turn.iterations, seconds=seconds, spent=turn.spent)

    def _check(self, turn: Turn, answer: Accepted) -> list[CheckedCall]:
        taken = turn.transcript.call_ids
        return [self.toolbox.check(call, unique_id(call.id, taken)) for call in answer.calls]

    def _judge_round(self, turn: Turn, calls: Sequence[CheckedCall], guardrails: Guardrails) -> None:
        turn.unknown_rounds = turn.unknown_rounds + 1 if all(call.unknown for call in calls) else 0
        if turn.unknown_rounds >= self._limits.max_unknown_tool_rounds:
            raise TurnFailed(EndReason.UNKNOWN_TOOLS, _UNKNOWN_TOOLS)
        if any(call.malformed for call in calls):
            turn.malformed_rounds += 1
            if turn.malformed_rounds >= self._limits.max_malformed_rounds:
                raise TurnFailed(EndReason.MALFORMED_CALLS, _MALFORMED)
        if guardrails.halt is not None:
            raise TurnFailed(guardrails.halt.reason, guardrails.halt.sentence)

    async def _last_word(self, turn: Turn, budget: Budget) -> Outcome:
        """Let the model say what became of the work; whatever happens, say which limit it was."""
        sentence = limit_reply(budget.words)
        turn.stop.grant_last_word()
        timer = asyncio.get_running_loop().call_later(self._limits.last_word_seconds, turn.stop.set, StopReason.TIME)
        text = ""
        try:
            answer = await self._asker.ask(turn, (Message.user(_SUMMARISE.format(limit=budget.words)),))
            text = answer.text.strip()
        except TurnFailed:
            pass
        except Stopped as stopped:
            if stopped.reason is not StopReason.TIME:
                raise
        finally:
            timer.cancel()
        reply = f"{text}\n\n({sentence})" if text else sentence
        return Outcome("done", budget.reason, "\n\n".join([*turn.said, reply]), reply)

    def _progress(self, kind: str, call: ToolCallPart) -> None:
        self.pulse.beat()
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
