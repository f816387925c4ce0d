"""A store in memory, with the real one's epochs, idempotency, attempts and commands."""

from __future__ import annotations

import base64
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from pydantic import BaseModel

from hermes_agent.store_port import Rep, Req
from hermes_contracts.conversation import Message
from hermes_contracts.envelopes import Inbound, OutFile
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import file_id
from hermes_contracts.store_api import (
    MAX_COMPACTED_BYTES,
    SETTLED,
    AgentState,
    AppendReply,
    AppendRequest,
    Approval,
    ApprovalIdRequest,
    AskApprovalReply,
    AskApprovalRequest,
    Command,
    CommandKind,
    CommitRequest,
    CompactReply,
    CompactRequest,
    DescribeMediaRequest,
    Descriptions,
    DescriptionsRequest,
    Empty,
    FinishCommandRequest,
    FreezePromptReply,
    FreezePromptRequest,
    FrozenPrompt,
    JournalEntry,
    LoadReply,
    LoadRequest,
    Method,
    OfferFileReply,
    OfferFileRequest,
    OpenTurnReply,
    OpenTurnRequest,
    PutMediaRequest,
    ReportReply,
    ReportRequest,
    SetTitleRequest,
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
    steps: dict[int, BaseModel] = field(default_factory=dict)
    journal: list[JournalEntry] = field(default_factory=list)
    commits: list[CommitRequest] = field(default_factory=list)
    offered: list[OutFile] = field(default_factory=list)
    """Files for the person; sent when the commit says so."""
    resent: int = 0


@dataclass
class FakeConversation:
    """What the store keeps of a conversation beside its messages."""

    compactions: list[CompactRequest] = field(default_factory=list)
    start: int = 0
    """`load` begins after this sequence."""
    context_tokens: int = 0
    context_sequence: int = 0
    title: str = ""
    undone: int = 0
    """How often something was taken back."""
    model: str = ""
    """What a person chose for it."""


class FakeStore:
    """All of a session's rows. `client(epoch)` is the store as one epoch's agent sees it."""

    def __init__(self, *, epoch: int = 1, page: int = 200) -> None:
        self.epoch = epoch
        self.page = page
        self.turns: dict[tuple[str, str, str], FakeTurn] = {}
        self.messages: dict[str, list[StoredMessage]] = {}
        self.conversations: dict[str, FakeConversation] = {}
        self.prompts: dict[str, FrozenPrompt] = {}
        self.commands: dict[str, Command] = {}
        self.results: dict[str, str] = {}
        self.asked: dict[str, AskApprovalRequest] = {}
        self.approvals: dict[str, Approval] = {}
        self.granted: set[str] = set()
        """Hashes of calls that run without a question."""
        self.media: dict[str, bytes] = {}
        self.descriptions: dict[str, str] = {}
        """Of pictures, by id."""
        self.reports: list[ReportRequest] = []
        self.calls: list[str] = []
        self.hook: Hook = lambda _name, _when: None
        self._sequence = itertools.count(1)
        self._copies: set[int] = set()
        self._commanded: dict[str, CompactReply] = {}

    def client(self, epoch: int) -> FakeStoreClient:
        """Return the store as one epoch's agent calls it."""
        return FakeStoreClient(self, epoch)

    def put_stop(self, command_id: str, *, created_at: float | None = None, sender: str = "") -> None:
        """Keep a /stop; with a sender it is for his own turn only."""
        at = time.time() if created_at is None else created_at
        arguments = {"sender": sender} if sender else {}
        command = Command(command_id=command_id, kind=CommandKind.STOP, arguments=arguments, created_at=at)
        self.commands[command_id] = command

    def put_compress(self, command_id: str, focus: str = "", conversation: str = "") -> None:
        """Keep a /compress."""
        arguments = {"focus": focus, "conversation": conversation}
        command = Command(command_id=command_id, kind=CommandKind.COMPRESS, arguments=arguments, created_at=time.time())
        self.commands[command_id] = command

    def undo(self, conversation: str) -> bool:
        """Take the last exchange back, as a person may: not one that runs, nor one that a summary has taken the place of."""
        rows, kept = self.messages.get(conversation, []), self.conversation(conversation)
        said = [m for m in rows if m.step == 0 and not m.undone and m.sequence not in self._copies]
        turn = self._turn_of(said[-1].turn_id) if said else None
        if turn is None or turn.state is TurnState.RUNNING or said[-1].sequence <= kept.start:
            return False
        self.messages[conversation] = [
            m.model_copy(update={"undone": True}) if m.turn_id == turn.turn_id else m for m in rows
        ]
        kept.undone += 1
        kept.context_tokens = kept.context_sequence = 0
        return True

    def _turn_of(self, turn_id: str) -> FakeTurn | None:
        return next((turn for turn in self.turns.values() if turn.turn_id == turn_id), None)

    def turn(self, update_id: str) -> FakeTurn:
        """Return a turn by its message's id."""
        return next(turn for turn in self.turns.values() if turn.inbound.update_id == update_id)

    def transcript(self, conversation: str) -> list[Message]:
        """Return a conversation's messages as a person sees them: whole, with summaries, without copies."""
        return [m.message for m in self.messages.get(conversation, []) if m.sequence not in self._copies]

    def conversation(self, conversation: str) -> FakeConversation:
        """Return what is kept of a conversation."""
        return self.conversations.setdefault(conversation, FakeConversation())

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
            if request.first is not None:
                self._write(turn, 0, (request.first,))
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
            undone=self.conversation(inbound.conversation).undone,
            model=self.conversation(inbound.conversation).model,
        )

    def _load(self, _: int, request: LoadRequest) -> LoadReply:
        kept = self.conversation(request.conversation)
        first = max(request.after, kept.start)
        rows = self.messages.get(request.conversation, [])
        after = [m for m in rows if m.sequence > first and not m.undone]
        page = after[: min(self.page, request.limit)]
        return LoadReply(
            prompt=self.prompts.get(request.conversation),
            messages=tuple(page),
            more=len(after) > len(page),
            compactions=len(kept.compactions),
            context_tokens=kept.context_tokens,
            context_sequence=kept.context_sequence,
            undone=kept.undone,
        )

    def _freeze_prompt(self, _: int, request: FreezePromptRequest) -> FreezePromptReply:
        return FreezePromptReply(prompt=self.prompts.setdefault(request.conversation, request.prompt))

    def _by_id(self, turn_id: str) -> FakeTurn:
        return next(turn for turn in self.turns.values() if turn.turn_id == turn_id)

    def _write(self, turn: FakeTurn, step: int, messages: tuple[Message, ...], context_tokens: int = 0) -> BaseModel:
        if step in turn.steps:
            return turn.steps[step]
        self._check_step(turn, step)
        turn.steps[step] = AppendReply(sequence=self._add(turn.inbound.conversation, turn.turn_id, step, messages))
        if context_tokens:
            kept = self.conversation(turn.inbound.conversation)
            kept.context_tokens, kept.context_sequence = (
                context_tokens,
                self.messages[turn.inbound.conversation][-1].sequence,
            )
        return turn.steps[step]

    def _check_step(self, turn: FakeTurn, step: int) -> None:
        if turn.state in SETTLED or step != max(turn.steps, default=-1) + 1:
            raise HermesError(ErrorCode.INVALID, f"step {step} is not the next one")

    def _add(self, conversation: str, turn_id: str, step: int, messages: tuple[Message, ...]) -> int:
        rows = self.messages.setdefault(conversation, [])
        for message in messages:
            rows.append(StoredMessage(sequence=next(self._sequence), turn_id=turn_id, step=step, message=message))
        return rows[-1].sequence if rows else 0

    def _compact(self, _: int, request: CompactRequest) -> CompactReply:
        command = self.commands.get(request.turn_id)
        if command is not None and command.kind is CommandKind.COMPRESS and request.step == 0:
            if request.turn_id not in self._commanded:
                self._commanded[request.turn_id] = self._begin_anew(request)
            return self._commanded[request.turn_id]
        turn = next((turn for turn in self.turns.values() if turn.turn_id == request.turn_id), None)
        if turn is None:
            raise HermesError(ErrorCode.NOT_FOUND, f"no turn {request.turn_id}")
        if request.step not in turn.steps:
            self._check_step(turn, request.step)
            turn.steps[request.step] = self._begin_anew(request)
            turn.journal.extend(request.journal)
        return cast("CompactReply", turn.steps[request.step])

    def _begin_anew(self, request: CompactRequest) -> CompactReply:
        kept = self.conversation(request.conversation)
        if request.expected != len(kept.compactions):
            raise HermesError(ErrorCode.CONFLICT, f"there were {len(kept.compactions)} compactions")
        if request.summary_index >= len(request.messages):
            raise HermesError(ErrorCode.INVALID, "summary_index: names no message")
        if sum(len(m.model_dump_json().encode()) for m in request.messages) > MAX_COMPACTED_BYTES:
            raise HermesError(ErrorCode.TOO_LARGE, f"messages: more than {MAX_COMPACTED_BYTES} bytes")
        rows = self.messages.setdefault(request.conversation, [])
        kept.start = rows[-1].sequence if rows else 0
        sequence = self._add(request.conversation, request.turn_id, request.step, request.messages)
        new = [m.sequence for m in rows if m.sequence > kept.start]
        self._copies.update(s for n, s in enumerate(new) if n != request.summary_index)
        self.prompts[request.conversation] = request.prompt
        kept.compactions.append(request)
        kept.context_tokens = kept.context_sequence = 0
        return CompactReply(sequence=sequence, compactions=len(kept.compactions))

    def _ask_approval(self, _: int, request: AskApprovalRequest) -> AskApprovalReply:
        if request.call_hash in self.granted:
            return AskApprovalReply(allowed=True, approval_id="", deadline=0.0)
        name = f"{2 + len(self.approvals) % 6}" + "a" * 7
        found = next(
            (k for k, v in self.asked.items() if (v.turn_id, v.call_id) == (request.turn_id, request.call_id)), name
        )
        self.asked.setdefault(found, request)
        self.approvals.setdefault(
            found,
            Approval(
                approval_id=found, state="pending", expired=False, asked_at=0.0, deadline=4e9,
                **request.model_dump(include={"kind", "tool", "arguments", "question", "options", "turn_id"}),
            ),
        )  # fmt: skip
        return AskApprovalReply(allowed=False, approval_id=found, deadline=4e9)

    def _get_approval(self, _: int, request: ApprovalIdRequest) -> Approval:
        return self.approvals[request.approval_id]

    def _set_title(self, _: int, request: SetTitleRequest) -> Empty:
        kept = self.conversation(request.conversation)
        kept.title = kept.title or request.title
        return Empty()

    def _put_media(self, _: int, request: PutMediaRequest) -> Empty:
        held = self.media.get(request.media_id, b"")
        if request.offset <= len(held):
            self.media[request.media_id] = held[: request.offset] + base64.b64decode(request.data)
        return Empty()

    def _offer_file(self, _: int, request: OfferFileRequest) -> OfferFileReply:
        turn = self._by_id(request.turn_id)
        file = OutFile(
            id=file_id(request.turn_id, request.name),
            media_id=request.media_id,
            name=request.name,
            media_type=request.media_type,
            size=len(self.media[request.media_id]),
            caption=request.caption,
        )
        same = next((known for known in turn.offered if known.name == file.name), None)
        if same is not None and same.media_id != file.media_id:
            raise HermesError(ErrorCode.CONFLICT, f"name: another file {file.name!r} goes with this answer already")
        turn.offered += [file] if same is None else []
        return OfferFileReply(file=file)

    def _describe_media(self, _: int, request: DescribeMediaRequest) -> Descriptions:
        kept = self.descriptions.setdefault(request.media_id, request.description)
        return Descriptions(descriptions={request.media_id: kept})

    def _descriptions(self, _: int, request: DescriptionsRequest) -> Descriptions:
        found = {name: self.descriptions[name] for name in request.media_ids if name in self.descriptions}
        return Descriptions(descriptions=found)

    def _append(self, _: int, request: AppendRequest) -> BaseModel:
        turn = self._by_id(request.turn_id)
        known = request.step in turn.steps
        reply = self._write(turn, request.step, request.messages, request.context_tokens)
        if not known:
            turn.journal.extend(request.journal)
        return reply

    def _commit(self, _: int, request: CommitRequest) -> Empty:
        turn = self._by_id(request.turn_id)
        if request.step not in turn.steps:
            self._write(turn, request.step, request.messages, request.context_tokens)
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
