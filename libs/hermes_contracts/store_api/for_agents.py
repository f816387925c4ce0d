"""What an agent calls: its turns, its transcript, its commands."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hermes_contracts.conversation import Message, ToolSpec, Usage
from hermes_contracts.envelopes import MAX_CHOICES, Choice, ConversationId, Inbound
from hermes_contracts.store_api.base import StoreModel


class AgentState(StrEnum):
    """What an agent says of itself."""

    READY = "ready"
    BUSY = "busy"
    IDLE = "idle"
    DRAINED = "drained"


class ReportRequest(StoreModel):
    """The agent's own word on its state; operators listen to the same subject."""

    state: AgentState
    pod: str
    startup_milliseconds: dict[str, float] = Field(default_factory=dict)
    """On `ready` only: breakdown of the start, by phase."""


class ReportReply(StoreModel):
    """`interrupted_acks` are ack subjects of messages that an earlier life of this same epoch had pulled."""

    interrupted_acks: tuple[str, ...] = ()


class TurnState(StrEnum):
    """Where a turn is."""

    RECEIVED = "received"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    MERGED = "merged"
    DEAD = "dead"


SETTLED = frozenset({TurnState.DONE, TurnState.FAILED, TurnState.MERGED, TurnState.DEAD})


class JournalEntry(StoreModel):
    """One tool call of a turn: recorded before it starts and after it ended."""

    call_id: str
    tool: str
    state: Literal["started", "finished"]


class OpenTurnRequest(StoreModel):
    """Insert-or-get on (sid, channel account, update id). Counts an attempt when it finds an unfinished turn.

    `first` is the person's message as the transcript keeps it: written as step 0 when the turn is new, ignored otherwise.
    """

    inbound: Inbound
    first: Message | None = None
    ack_subject: str
    stream_sequence: int


class OpenTurnReply(StoreModel):
    """`state` RUNNING: go on at `next_step` (messages of earlier steps are in the transcript, their journal here).

    A settled state: nothing to run; the store has sent the stored answer again; acknowledge the message.
    """

    turn_id: str
    state: TurnState
    attempt: int
    next_step: int
    journal: tuple[JournalEntry, ...] = ()
    undone: int = 0
    """How often something was taken back in this conversation: a transcript that was loaded before the last time is old."""
    model: str = ""
    """One of the Profile's choices that a person chose for this conversation; empty: the Profile's own."""


class LoadRequest(StoreModel):
    """A page of a conversation's transcript, oldest first."""

    conversation: ConversationId
    after: int = 0
    limit: int = Field(default=200, ge=1, le=1000)


class StoredMessage(StoreModel):
    """A message with its place in the conversation; `turn_id` and `step` say which write made it."""

    sequence: int
    turn_id: str
    step: int
    message: Message
    undone: bool = False
    """Taken back: people see it so marked, and no model sees it."""


class LoadReply(StoreModel):
    """`more` says whether to ask for what follows the last sequence. Pages are cut so that a reply fits the bus."""

    prompt: FrozenPrompt | None
    messages: tuple[StoredMessage, ...]
    more: bool
    compactions: int = 0
    """How often the conversation was compacted; `messages` begin after the last time."""
    context_tokens: int = 0
    """What the provider last counted in this conversation, input and output together; 0 when it has not since then."""
    context_sequence: int = 0
    """Last message that this count covers."""
    undone: int = 0
    """As in `OpenTurnReply`."""


class FrozenPrompt(StoreModel):
    """The system prompt and the tools of a conversation, replayed byte for byte until something rebuilds them."""

    system: str
    tools: tuple[ToolSpec, ...]


class FreezePromptRequest(StoreModel):
    """Insert-or-get: the first one stays."""

    conversation: ConversationId
    prompt: FrozenPrompt


class FreezePromptReply(StoreModel):
    """What is stored."""

    prompt: FrozenPrompt


class CompactRequest(StoreModel):
    """Begin the conversation's transcript anew, as a step of a turn: nothing is deleted, but `load` starts here.

    `messages` are the whole new transcript (head, summary, tail), at most `MAX_COMPACTED_BYTES` of JSON; they are copies,
    so a person's transcript does not show them, but for the summary.
    """

    turn_id: str
    step: int
    conversation: ConversationId
    expected: int = Field(ge=0)
    """`compactions` that the caller has seen; CONFLICT when there was another one since."""
    prompt: FrozenPrompt
    messages: tuple[Message, ...] = Field(min_length=1)
    summary_index: int = Field(ge=0)
    """Which of `messages` is the summary."""
    usage: Usage = Usage()
    tokens_before: int = 0
    tokens_after: int = 0
    journal: tuple[JournalEntry, ...] = ()


class CompactReply(StoreModel):
    """Sequence of the last message written, and how many compactions there are now."""

    sequence: int
    compactions: int


MAX_COMPACTED_BYTES = 300_000


class SetTitleRequest(StoreModel):
    """Name a conversation; the first one names its session too. Kept unless a person named it."""

    conversation: ConversationId
    title: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class AppendRequest(StoreModel):
    """One step of a turn: messages and what they say of tool calls, in one transaction, unique on (turn, step)."""

    turn_id: str
    step: int
    messages: tuple[Message, ...]
    journal: tuple[JournalEntry, ...] = ()
    usage: Usage = Usage()
    context_tokens: int = 0
    """Input and output tokens of the last model call of this step, as its provider counted them; 0 when there was none."""


class AppendReply(StoreModel):
    """Sequence of the last message written."""

    sequence: int


class CommitRequest(StoreModel):
    """The last step: messages, the answer, the outcome, the usage, the outbox rows, under the session's row lock."""

    turn_id: str
    step: int
    messages: tuple[Message, ...]
    outcome: Literal["done", "failed"]
    reason: Annotated[str, StringConstraints(max_length=64)] = ""
    """Machine-readable end: stop, stopped_by_user, iteration_limit, time_limit, model_error, ..."""
    reply: str
    """What the person reads, answer or plain error."""
    silent: bool = False
    """Send the reply to nobody: a scheduled run that found nothing to say. It is kept all the same."""
    usage: Usage = Usage()
    context_tokens: int = 0
    """As in `AppendRequest`."""
    choices: tuple[Choice, ...] = Field(default=(), max_length=MAX_CHOICES)
    """What the person may press below the last part of the reply."""
    files: bool = False
    """Send the files that were offered in this turn behind the reply."""


class CommandKind(StrEnum):
    """Control commands."""

    STOP = "stop"
    """End the running turn."""
    STEER = "steer"
    """Argument `text`: shown to the model after its next tool result, without ending the turn."""
    REDIRECT = "redirect"
    """Argument `text`: drop what is being done and do this instead, in the same turn."""
    COMPRESS = "compress"
    """Argument `focus`, may be empty: compact the conversation `conversation` when no turn runs."""


WAKING_COMMANDS = frozenset({CommandKind.COMPRESS})
"""Those that give a sleeping session something to do; the others speak to a turn that runs."""


class Command(StoreModel):
    """A control command on its way to an agent."""

    command_id: str
    kind: CommandKind
    arguments: dict[str, str] = Field(default_factory=dict)
    created_at: float


class TakeCommandsReply(StoreModel):
    """Commands that nobody finished, oldest first."""

    commands: tuple[Command, ...]


class FinishCommandRequest(StoreModel):
    """What became of a command, in words for the person."""

    command_id: str
    result: Annotated[str, StringConstraints(max_length=2000)]


LoadReply.model_rebuild()
