"""A conversation in memory, in the form in which it is sent to a model: each message is JSON made once.

What is sent is always legal: every call has its result, no result lacks its call, roles alternate. Repairs are made when
the message after the gap comes, and depend on the messages alone, so that a request's bytes start with the one before's.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence

from hermes_agent.model.base import encode
from hermes_agent.prompt.first_message import STEERED
from hermes_contracts.conversation import Message, Role, ToolCallPart, ToolResultPart
from hermes_contracts.store_api import FrozenPrompt

LOST_RESULT = "No result: the run ended before this call's result was recorded. Its effect is unknown."
LOST_ANSWER = "(No answer: the run ended before one was given.)"
LOST_QUESTION = "(continue)"


class Transcript:
    """The messages of one conversation and its frozen prompt."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        self.sequence = 0
        """Of the last message loaded from the store."""
        self.system = b'""'
        self.tools = b"[]"
        self.has_prompt = False
        self.messages: list[bytes] = []
        self.size_bytes = 0
        self.call_ids: set[str] = set()
        self.open_calls: tuple[ToolCallPart, ...] = ()
        """Calls of the last message, if that is what it ends with."""
        self.last_role: Role | None = None
        self.compactions = 0
        """How often the store began this conversation anew."""
        self.context_tokens = 0
        """What a provider last counted in it; 0 when it has not since the last compaction."""
        self.context_rows = 0
        """How many of `messages` that count covers."""
        self.undone = 0
        """How often the store had taken something back when it was loaded."""

    def begin_anew(self, prompt: FrozenPrompt, messages: Sequence[Message], *, sequence: int, compactions: int) -> None:
        """Become what the store was just told to begin this conversation with; ids of calls stay taken."""
        taken = self.call_ids
        self.messages, self.size_bytes, self.open_calls, self.last_role = [], 0, (), None
        self.set_prompt(prompt)
        for message in messages:
            self.add(message)
        self.call_ids |= taken
        self.sequence, self.compactions, self.context_tokens, self.context_rows = sequence, compactions, 0, 0

    def become(self, other: Transcript) -> None:
        """Take everything over from a transcript that was loaded anew."""
        vars(self).update(vars(other))

    def set_prompt(self, prompt: FrozenPrompt) -> None:
        """Take the prompt that the conversation is frozen with."""
        self.system = json.dumps(prompt.system, ensure_ascii=False).encode()
        self.tools = b"[" + b",".join(tool.model_dump_json().encode() for tool in prompt.tools) + b"]"
        self.has_prompt = True

    def add(self, message: Message) -> None:
        """Append a message, after whatever is needed to keep the sequence legal."""
        if message.role is Role.TOOL:
            self._add_results(message)
            return
        if self.open_calls:
            self._add_results(Message(role=Role.TOOL, parts=()))
        if message.role is Role.USER and self.last_role in {Role.USER, Role.TOOL} and not self._steers(message):
            self._push(Message.assistant(LOST_ANSWER))
        elif message.role is Role.ASSISTANT and self.last_role in {Role.ASSISTANT, None}:
            self._push(Message.user(LOST_QUESTION))
        self._push(message)
        self.open_calls = tuple(message.tool_calls())
        self.call_ids.update(call.id for call in self.open_calls)

    def _steers(self, message: Message) -> bool:
        """Tell whether the person spoke into a running turn: the one case of a user's row straight after results."""
        return self.last_role is Role.TOOL and message.text().startswith(STEERED)

    def _add_results(self, message: Message) -> None:
        if not self.open_calls:
            return
        given = {part.call_id: part for part in message.parts if isinstance(part, ToolResultPart)}
        results = tuple(
            given.get(call.id) or ToolResultPart(call_id=call.id, name=call.name, text=LOST_RESULT, is_error=True)
            for call in self.open_calls
        )
        self._push(Message(role=Role.TOOL, parts=results))
        self.open_calls = ()

    def _push(self, message: Message) -> None:
        data = encode(message)
        self.messages.append(data)
        self.size_bytes += len(data)
        self.last_role = message.role


class TranscriptCache:
    """Transcripts kept between turns: nobody else writes while this epoch is the session's. The oldest goes first."""

    def __init__(self, *, max_bytes: int = 8 * 1024 * 1024) -> None:
        self._kept: OrderedDict[str, Transcript] = OrderedDict()
        self._max_bytes = max_bytes

    def take(self, conversation: str, *, undone: int) -> Transcript | None:
        """Remove and return a transcript: a turn that fails half way must not leave a wrong one behind.

        None as well when the store has taken something back since it was loaded.
        """
        kept = self._kept.pop(conversation, None)
        return kept if kept is not None and kept.undone == undone else None

    def keep(self, transcript: Transcript) -> None:
        """Put back a transcript that is exactly what the store holds."""
        self._kept[transcript.conversation] = transcript
        while len(self._kept) > 1 and sum(t.size_bytes for t in self._kept.values()) > self._max_bytes:
            self._kept.popitem(last=False)
