"""A store in memory, with the real one's epochs, idempotency, attempts and commands."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from pydantic import BaseModel

from hermes_agent.loop.ports import Rep, Req
from hermes_contracts.conversation import Message
from hermes_contracts.envelopes import Inbound
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    SETTLED,
    AgentState,
    AppendReply,
    AppendRequest,
    Command,
    CommandKind,
    CommitRequest,
    Empty,
    FinishCommandRequest,
    FreezePromptReply,
    FreezePromptRequest,
    FrozenPrompt,
    JournalEntry,
    LoadReply,
    LoadRequest,
    Method,
    OpenTurnReply,
    OpenTurnRequest,
    ReportReply,
    ReportRequest,
    StoredMessage,
    TakeCommandsReply,
    TurnState,
)

Hook = Callable[[str, str], None]
"""Called with the method's name and "before" or "after"; what it raises goes to the caller."""


@dataclass
class FakeTurn:
    """A row of turns."""

    turn_id: str
    inbound: Inbound
    state: TurnState = TurnState.RUNNING
    attempt: int = 1
    ack_subject: str = ""
    epoch: int = 0
    steps: dict[int, AppendReply] = field(default_factory=dict)
    journal: list[JournalEntry] = field(default_factory=list)
    commits: list[CommitRequest] = field(default_factory=list)
    resent: int = 0


class FakeStore:
    """All of a session's rows. `client(epoch)` is the store as one epoch's agent sees it."""

    def __init__(self, *, epoch: int = 1, page: int = 200) -> None:
        self.epoch = epoch
        self.page = page
        self.turns: dict[tuple[str, str, str], FakeTurn] = {}
        self.messages: dict[str, list[StoredMessage]] = {}
        self.prompts: dict[str, FrozenPrompt] = {}
        self.commands: dict[str, Command] = {}
        self.results: dict[str, str] = {}
        self.reports: list[ReportRequest] = []
        self.calls: list[str] = []
        self.hook: Hook = lambda _name, _when: None
        self._sequence = itertools.count(1)

    def client(self, epoch: int) -> FakeStoreClient:
        """Return the store as one epoch's agent calls it."""
        return FakeStoreClient(self, epoch)

    def put_stop(self, command_id: str, *, created_at: float | None = None) -> None:
        """Keep a /stop."""
        at = time.time() if created_at is None else created_at
        self.commands[command_id] = Command(command_id=command_id, kind=CommandKind.STOP, created_at=at)

    def turn(self, update_id: str) -> FakeTurn:
        """Return a turn by its message's id."""
        return next(turn for turn in self.turns.values() if turn.inbound.update_id == update_id)

    def transcript(self, conversation: str) -> list[Message]:
        """Return a conversation's messages."""
        return [stored.message for stored in self.messages.get(conversation, [])]

    def states(self) -> list[AgentState]:
        """Return what agents said of themselves."""
        return [report.state for report in self.reports]

    def handle(self, epoch: int, name: str, request: BaseModel) -> BaseModel:
        """Do a method's work. Raises HermesError."""
        if epoch != self.epoch:
            raise HermesError(ErrorCode.FENCED, f"epoch {epoch} is over")
        self.calls.append(name)
        handler = cast("Callable[[int, BaseModel], BaseModel]", getattr(self, f"_{name}"))
        return handler(epoch, request)

    def _report(self, epoch: int, request: ReportRequest) -> ReportReply:
        self.reports.append(request)
        if request.state is not AgentState.READY:
            return ReportReply()
        running = [t for t in self.turns.values() if t.state is TurnState.RUNNING and t.epoch == epoch]
        return ReportReply(interrupted_acks=tuple(turn.ack_subject for turn in running))

    def _open_turn(self, epoch: int, request: OpenTurnRequest) -> OpenTurnReply:
        inbound = request.inbound
        key = (inbound.channel, inbound.account, inbound.update_id)
        turn = self.turns.get(key)
        if turn is None:
            turn = self.turns[key] = FakeTurn(f"t{len(self.turns) + 1}", inbound)
        elif turn.state in SETTLED:
            turn.resent += 1
        else:
            turn.attempt += 1
        turn.epoch, turn.ack_subject = epoch, request.ack_subject
        return OpenTurnReply(
            turn_id=turn.turn_id,
            state=turn.state,
            attempt=turn.attempt,
            next_step=max(turn.steps, default=-1) + 1,
            journal=tuple({e.call_id: e for e in turn.journal}.values()),
        )

    def _load(self, _: int, request: LoadRequest) -> LoadReply:
        after = [m for m in self.messages.get(request.conversation, []) if m.sequence > request.after]
        page = after[: min(self.page, request.limit)]
        return LoadReply(prompt=self.prompts.get(request.conversation), messages=tuple(page), more=len(after) > len(page))

    def _freeze_prompt(self, _: int, request: FreezePromptRequest) -> FreezePromptReply:
        return FreezePromptReply(prompt=self.prompts.setdefault(request.conversation, request.prompt))

    def _by_id(self, turn_id: str) -> FakeTurn:
        return next(turn for turn in self.turns.values() if turn.turn_id == turn_id)

    def _write(self, turn: FakeTurn, step: int, messages: tuple[Message, ...]) -> AppendReply:
        if step in turn.steps:
            return turn.steps[step]
        if turn.state in SETTLED or step != max(turn.steps, default=-1) + 1:
            raise HermesError(ErrorCode.INVALID, f"step {step} is not the next one")
        rows = self.messages.setdefault(turn.inbound.conversation, [])
        for message in messages:
            stored = StoredMessage(sequence=next(self._sequence), turn_id=turn.turn_id, step=step, message=message)
            rows.append(stored)
        turn.steps[step] = AppendReply(sequence=rows[-1].sequence if rows else 0)
        return turn.steps[step]

    def _append(self, _: int, request: AppendRequest) -> AppendReply:
        turn = self._by_id(request.turn_id)
        known = request.step in turn.steps
        reply = self._write(turn, request.step, request.messages)
        if not known:
            turn.journal.extend(request.journal)
        return reply

    def _commit(self, _: int, request: CommitRequest) -> Empty:
        turn = self._by_id(request.turn_id)
        if request.step not in turn.steps:
            self._write(turn, request.step, request.messages)
            turn.commits.append(request)
            turn.state = TurnState(request.outcome)
        return Empty()

    def _take_commands(self, _: int, __: Empty) -> TakeCommandsReply:
        return TakeCommandsReply(commands=tuple(c for c in self.commands.values() if c.command_id not in self.results))

    def _finish_command(self, _: int, request: FinishCommandRequest) -> Empty:
        self.results.setdefault(request.command_id, request.result)
        return Empty()


class FakeStoreClient:
    """`loop.ports.Store` of one epoch. Requests and answers go through JSON, as they do over the bus."""

    def __init__(self, store: FakeStore, epoch: int) -> None:
        self._store = store
        self._epoch = epoch

    async def call(self, method: Method[Req, Rep], request: Req) -> Rep:
        """Call a method."""
        sent = method.request.model_validate_json(request.model_dump_json())
        self._store.hook(method.name, "before")
        answer = self._store.handle(self._epoch, method.name, sent)
        self._store.hook(method.name, "after")
        return method.reply.model_validate_json(answer.model_dump_json())
