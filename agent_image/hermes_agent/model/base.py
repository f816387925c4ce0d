"""One model call and the protocol of whoever serves it. Messages travel as JSON made once, when they were appended."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from hermes_contracts import PROTOCOL_VERSION
from hermes_contracts.conversation import Message
from hermes_contracts.model_api import ModelEvent, Purpose


def encode(message: Message) -> bytes:
    """Return a message's JSON."""
    return message.model_dump_json().encode()


@dataclass(frozen=True)
class ModelCall:
    """A `model_api.ModelRequest` in pieces that are JSON already, so that a long history is never serialised again."""

    turn_id: str
    step: int
    system: bytes
    """JSON string."""
    tools: bytes
    """JSON list."""
    messages: Sequence[bytes]
    """JSON objects."""
    max_output_tokens: int | None = None
    conversation: str = ""
    purpose: Purpose = Purpose.TURN
    passed_over: tuple[str, ...] = ()
    model: str = ""

    def body(self) -> bytes:
        """Return the request's JSON. What changes from call to call comes last, so each body's start is the one before's."""
        head = b'{"system":' + self.system + b',"tools":' + self.tools + b',"messages":['
        tail = {
            "version": PROTOCOL_VERSION,
            "turn_id": self.turn_id,
            "step": self.step,
            "conversation": self.conversation,
            "purpose": self.purpose.value,
            "max_output_tokens": self.max_output_tokens,
            "passed_over": self.passed_over,
            "model": self.model,
        }
        end = b"]," + json.dumps(tail).encode()[1:]
        rows = list(self.messages)
        if not rows:
            return head + end
        # One join: a long history is copied once.
        rows[0] = head + rows[0]
        rows[-1] += end
        return b",".join(rows)


class ModelClient(Protocol):
    """Streams one answer."""

    def stream(self, call: ModelCall) -> AsyncGenerator[ModelEvent, None]:
        """Yield events, the last one Finish or ModelError. Raises HermesError when the service cannot be used."""
        ...
