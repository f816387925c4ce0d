"""What the API answers, as far as it is used here. Fields that are not known are passed over. `--json` prints these."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

SESSION_ID = re.compile(r"^s[a-z2-7]{25}$")
SETTLED = frozenset({"done", "failed", "merged", "dead"})


class _Shape(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Spending(_Shape):
    """Tokens and money of a session or turn."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    model_calls: int = 0
    unpriced_calls: int = 0
    cost_usd: str = "0.00"
    cost_note: str | None = None


class Session(_Shape):
    """A session. Times are seconds since the epoch."""

    id: Annotated[str, StringConstraints(pattern=SESSION_ID.pattern)]
    client_id: str = ""
    channel: str = ""
    namespace: str = ""
    profile: str = ""
    title: str = ""
    created_at: float = 0
    last_activity: float = 0
    turns: int = 0
    running_turns: int = 0
    usage: Spending = Spending()


class SessionPage(_Shape):
    """A page of sessions."""

    data: list[Session]
    next_cursor: str | None = None


class Turn(_Shape):
    """A message and what became of it."""

    session: str
    message_id: str
    state: str
    turn: str = ""
    reply: str = ""
    reason: str = ""
    usage: Spending = Spending()

    @property
    def stopped(self) -> bool:
        """Whether its person stopped it."""
        return self.reason == "stopped_by_user"

    @property
    def answered(self) -> bool:
        """Whether it ended as it should: neither failed, given up, nor stopped."""
        return self.state in ("done", "merged") and not self.stopped

    @property
    def settled(self) -> bool:
        """Whether this is how it stays."""
        return self.state in SETTLED


class Part(_Shape):
    """A piece of a message: text, image, reasoning, tool_call or tool_result."""

    type: str
    text: str = ""
    name: str = ""
    arguments: str = ""
    call_id: str = ""
    id: str = ""
    media_type: str = ""
    size: int = 0
    is_error: bool = False


class Entry(_Shape):
    """One message of a transcript."""

    sequence: int
    turn: str = ""
    role: Literal["user", "assistant", "tool"]
    parts: list[Part] = Field(default_factory=list)
    undone: bool = False


class TranscriptPage(_Shape):
    """A page of a transcript, oldest first."""

    data: list[Entry]
    has_more: bool = False


class SentFile(_Shape):
    """A file that the agent has sent."""

    id: str
    name: str
    media_type: str = ""
    size: int = 0
    caption: str = ""
    turn: str = ""
    created_at: float = 0


class SentFiles(_Shape):
    """Newest first."""

    data: list[SentFile]


class Settings(_Shape):
    """A conversation's title, the model that answers in it, and those that may be chosen."""

    title: str = ""
    model: str = ""
    models: list[str] = Field(default_factory=list)


class Undone(_Shape):
    """What was taken back, in words."""

    text: str


class Told(_Shape):
    """A command was recorded; `result` says what became of it once it was carried out."""

    command_id: str = ""
    result: str | None = None


class Question(_Shape):
    """Something that the agent asks."""

    approval_id: str


class Questions(_Shape):
    """Open ones, newest first."""

    data: list[Question]


class Answered(_Shape):
    """An answer was kept; `message_id` names the turn that goes on with it."""

    message_id: str
    text: str


class Model(_Shape):
    """A Profile that the key may use."""

    id: str
    created: int = 0
    owned_by: str = ""


class ModelList(_Shape):
    """Profiles."""

    data: list[Model]


class HealthPart(_Shape):
    """One thing the gateway depends on."""

    ok: bool
    message: str = ""
    milliseconds: float | None = None


class Health(_Shape):
    """How the gateway is."""

    status: str
    parts: dict[str, HealthPart] = Field(default_factory=dict)
