"""What has become of a turn so far: what the program said, what it has begun, and the steps that are written."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Sequence

from hermes_agent.approvals.decide import Verdict, decide
from hermes_agent.codex.app_server import Notice
from hermes_agent.codex.door import Spending
from hermes_agent.codex.items import broken_off, call_of, result_of
from hermes_agent.loop.outcome import EndReason, Outcome, TurnFailed
from hermes_agent.loop.ports import DeltaSink, Store
from hermes_agent.loop.state import Turn
from hermes_agent.loop.steering import is_stored, steering
from hermes_agent.model.hygiene import clean_id, clean_text, unique_id
from hermes_agent.stop import Note
from hermes_agent.tools.text import window
from hermes_contracts.agent_config import ApprovalsConfig
from hermes_contracts.conversation import Message, Role, TextPart, ToolCallPart, ToolResultPart
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import APPEND, AppendRequest, JournalEntry

EMPTY = "(no text)"
NO_ANSWER = "Codex ended its work without an answer. Please ask again."
MAX_OPEN = 64
SURE_SECONDS = 2.0
"""How long a turn that is cut waits for the store to say that a step is written; else its next attempt finds out."""
MAX_STEPS = 2_000
"""Commands and changes of one turn."""
MAX_SAID_BYTES = 100_000
HISTORY_CHARACTERS = 20_000
_HISTORY = (
    "[What was said in this conversation before, oldest first; you have no other memory of it]\n\n{}\n\n[The message]\n\n"
)


class Work:
    """One turn's rows. Everything in it is the program's word and bounded."""

    def __init__(
        self, store: Store, turn: Turn, spending: Spending, deltas: DeltaSink, rules: ApprovalsConfig, *, attended: bool
    ) -> None:
        self.turn = turn
        self.spending = spending
        self._store = store
        self._deltas = deltas
        self._rules = rules
        self._attended = attended
        self._said: list[str] = []
        self._last = ""
        self._steps = 0
        self._unsure = False
        self._open: dict[str, ToolCallPart] = {}
        self._refused: dict[str, str] = {}
        self._later: list[Note] = []

    @property
    def is_running(self) -> bool:
        """Tell whether a command or change was begun and has not ended."""
        return bool(self._open)

    async def append(self, messages: tuple[Message, ...], journal: tuple[JournalEntry, ...] = ()) -> None:
        """Write one step; who cancels it waits until it is known whether it was written. Raises HermesError."""
        writing = asyncio.ensure_future(self._append(messages, journal))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait({writing}, timeout=SURE_SECONDS)
            self._unsure = not writing.done()
            writing.cancel()
            raise

    async def _append(self, messages: tuple[Message, ...], journal: tuple[JournalEntry, ...]) -> None:
        turn = self.turn
        request = AppendRequest(
            turn_id=turn.turn_id, step=turn.step, messages=messages, journal=journal, usage=self.spending.take()
        )
        await self._store.call(APPEND, request)
        turn.step += 1
        for message in messages:
            turn.transcript.add(message)

    async def take(self, notice: Notice) -> None:
        """Take a notification in."""
        item = notice.params.get("item")
        if not isinstance(item, dict) or not isinstance(item.get("id"), str):
            return
        if notice.method == "item/started":
            await self._started(item["id"], item)
        elif notice.method == "item/completed":
            await self._completed(item["id"], item)

    async def _started(self, item_id: str, item: dict[str, object]) -> None:
        if item_id in self._open or call_of(item, "") is None:
            return
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise TurnFailed(
                EndReason.PROGRAM_FAILED, f"Codex did more than {MAX_STEPS} things in one turn, so I stopped it."
            )
        if len(self._open) >= MAX_OPEN:
            raise TurnFailed(EndReason.PROGRAM_FAILED, f"Codex began more than {MAX_OPEN} things at once, so I stopped it.")
        call = call_of(item, unique_id(clean_id(item_id), self.turn.transcript.call_ids))
        assert call is not None
        self._open[item_id] = call
        await self.append((), (JournalEntry(call_id=call.id, tool=call.name, state="started"),))
        self._deltas.emit("tool_started", tool=call.name, call_id=call.id)

    async def _completed(self, item_id: str, item: dict[str, object]) -> None:
        if item.get("type") == "agentMessage":
            text = item.get("text")
            if isinstance(text, str) and text.strip() and len(self._said) < MAX_OPEN:
                self._said.append(clean_text(text[:MAX_SAID_BYTES]).strip())
            return
        if item_id not in self._open:
            await self._started(item_id, item)
        begun = self._open.pop(item_id, None)
        if begun is None:
            return
        call = call_of(item, begun.id) or begun
        await self._write(call, result_of(item, call, self._refused.pop(item_id, "")))

    async def _write(self, call: ToolCallPart, result: ToolResultPart) -> None:
        words = self._words()
        self._last = words or self._last
        text = (TextPart(text=words),) if words else ()
        self._said.clear()
        rows = (
            Message(role=Role.ASSISTANT, parts=(*text, call)),
            Message(role=Role.TOOL, parts=(result,)),
        )
        await self.append(rows, (JournalEntry(call_id=call.id, tool=call.name, state="finished"),))
        self._deltas.emit("tool_finished", tool=call.name, call_id=call.id)

    async def close_open(self, why: str) -> None:
        """Write down what was begun and whose end is not known. Raises HermesError when the last step is unknown too."""
        if self._unsure:
            raise HermesError(ErrorCode.UNAVAILABLE, "the store did not say whether a step was written", retryable=True)
        while self._open:
            _, call = self._open.popitem()
            await self._write(call, broken_off(call, why))

    def approve(self, notice: Notice) -> dict[str, object] | None:
        """Return the answer to a request of the program's; None where this agent serves none."""
        if notice.method == "item/fileChange/requestApproval":
            return {"decision": "accept"}
        if notice.method != "item/commandExecution/requestApproval":
            return None
        command = notice.params.get("command")
        if not isinstance(command, str):
            return {"decision": "decline"}
        decision = decide(script_of(command), self._rules, attended=self._attended)
        if decision.verdict is Verdict.RUN:
            return {"decision": "accept"}
        why = "this " + (", ".join(decision.reasons) or "is dangerous")
        if decision.verdict is not Verdict.REFUSE:
            why += ", and nobody can be asked while Codex works"
        self._refused[str(notice.params.get("itemId"))] = why
        self._deltas.emit("notice", text=f"A command was not run: {why}.")
        return {"decision": "decline"}

    def completed(self, params: dict[str, object]) -> None:
        """Read how the program's turn ended. Raises TurnFailed when it did not end well."""
        turn = params.get("turn")
        told = turn if isinstance(turn, dict) else {}
        if told.get("status") == "completed":
            return
        error = told.get("error")
        message = error.get("message") if isinstance(error, dict) else None
        detail = clean_text(message)[:300] if isinstance(message, str) else str(told.get("status"))[:40]
        raise TurnFailed(EndReason.PROGRAM_FAILED, f"Codex could not go on: {detail}")

    def steers(self) -> list[Note]:
        """Take what the person said; what an earlier life wrote down already is done."""
        notes, self._later = [*self._later, *self.turn.stop.take_steers()], []
        fresh = []
        for note in notes:
            if is_stored(self.turn.transcript, note):
                self.turn.stop.on_stored(note)
            else:
                fresh.append(note)
        return fresh

    def later(self, notes: Sequence[Note]) -> None:
        """Keep words that the program could not take; they follow its answer."""
        self._later.extend(notes)

    async def answered(self, notes: Sequence[Note]) -> None:
        """Write the answer that is there and the words that came after it."""
        text = self._words() or NO_ANSWER
        await self.append((Message.assistant(text), steering(notes)))
        for note in notes:
            self.turn.stop.on_stored(note)
        self.turn.said.append(text)
        self.forget_words()

    def _words(self) -> str:
        return window("\n\n".join(self._said), max_bytes=MAX_SAID_BYTES, max_lines=MAX_SAID_BYTES)

    def forget_words(self) -> None:
        """Begin a new answer."""
        self._said.clear()
        self._last = ""

    def outcome(self) -> Outcome:
        """Return the turn's good end."""
        text = self._words() or self._last
        if not text:
            return Outcome("failed", EndReason.EMPTY_ANSWER, "\n\n".join([*self.turn.said, NO_ANSWER]), NO_ANSWER)
        return Outcome("done", EndReason.STOP, "\n\n".join([*self.turn.said, text]), text)

    def after_words(self, outcome: Outcome) -> Outcome:
        """Put what was said before a bad end in front of it."""
        if not self._said:
            return outcome
        text = f"{self._words()}\n\n({outcome.reply})"
        return Outcome(outcome.outcome, outcome.reason, text)


def script_of(command: str) -> str:
    """Return what the program wants to run, without the shell that it puts around everything."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    wrapped = len(words) == 3 and words[1] in ("-c", "-lc") and words[0].rsplit("/", 1)[-1] in ("bash", "sh", "zsh")
    return words[2] if wrapped else command


def words_before(rows: Sequence[bytes]) -> str:
    """Return the conversation before its last row, shortened, for a program that does not know it; empty for the first."""
    lines: list[str] = []
    left = HISTORY_CHARACTERS
    for row in reversed(rows[:-1]):
        message = Message.model_validate(json.loads(row))
        text = message.text().strip()
        if not text:
            continue
        line = f"{message.role.value}: {text}"[:left]
        lines.append(line)
        left -= len(line)
        if left <= 0:
            break
    return _HISTORY.format("\n\n".join(reversed(lines))) if lines else ""
