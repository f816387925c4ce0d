"""what the formats share: how an answer is cut into pieces, ids, and token numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from scripted_model.asked import Asked
from scripted_model.script import Call, Step, Tokens


@dataclass(frozen=True)
class Piece:
    """A piece of an answer, as it leaves. `index` numbers calls."""

    kind: Literal["text", "reason", "call_start", "call_part"]
    text: str = ""
    index: int = 0
    call: Call | None = None


def _cut(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def pieces_of(step: Step) -> Iterator[Piece]:
    """Yield reasoning, then text, then calls."""
    for part in _cut(step.reason, step.chunk):
        yield Piece("reason", part)
    for _ in range(step.repeat):
        for part in _cut(step.say, step.chunk):
            yield Piece("text", part)
    for index, call in enumerate(step.calls):
        yield Piece("call_start", index=index, call=call)
        for part in _cut(call.text(), step.chunk):
            yield Piece("call_part", part, index)


def numbers(step: Step, asked: Asked) -> Tokens:
    """Return the usage a step names, or else about a token for four bytes."""
    if step.usage is not None:
        return step.usage
    written = len(step.say) * step.repeat + sum(len(call.text()) + len(call.name) for call in step.calls)
    thought = (len(step.reason) + 3) // 4
    return Tokens(input=(asked.size + 3) // 4, output=(written + 3) // 4 + thought, reasoning=thought)


def token_id(prefix: str, asked: Asked, number: int = 0) -> str:
    """Return an id that the same request always gets and no other does."""
    return prefix + hashlib.sha256(f"{asked.digest}/{number}".encode()).hexdigest()[:24]


def encode(value: object) -> bytes:
    """Return compact JSON, not escaped, as providers send it in events."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
