"""Engines make a shorter transcript out of a long one. Both of these keep the same records; they differ in who writes.

Another engine is one class: give it to the `Compactor` in the composition root, and run the contract tests over it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hermes_agent.compression import instructions, ledger, names
from hermes_agent.compression.budget import Budget, summary_tokens
from hermes_agent.compression.material import material_of
from hermes_agent.compression.redact import redact
from hermes_agent.compression.shrink import shorten
from hermes_agent.compression.sizes import text_tokens, transcript_tokens
from hermes_agent.compression.split import Split, split
from hermes_agent.compression.summary import ACKNOWLEDGED, BRIDGE, Summary, merge_said, summary_message
from hermes_contracts.conversation import Message, Role
from hermes_contracts.errors import ErrorCode, HermesError

PLAIN_CHARACTERS = 8_000
"""Longest summary that no model wrote."""
WORTH_A_MODEL_TOKENS = 200
"""Material below this is not worth a model call."""
ROOM_TO_FINISH = 1.5
"""How much longer than asked for a summary may get before it is cut."""
TOO_LONG = frozenset({ErrorCode.CONTEXT_OVERFLOW, ErrorCode.PAYLOAD_TOO_LARGE})

Ask = Callable[[str, str, int], Awaitable[str]]
"""(system, text, most output tokens) to an answer of the auxiliary model. Raises HermesError, Stopped."""


@dataclass(frozen=True)
class Compacted:
    """A shorter transcript; `messages[summary_index]` is the summary."""

    messages: tuple[Message, ...]
    summary_index: int
    by_model: bool


class CompressionEngine(Protocol):
    """Makes transcripts shorter. Long work belongs in a thread: the turn can be stopped meanwhile."""

    async def compress(self, messages: Sequence[Message], budget: Budget, focus: str) -> Compacted:
        """Return a legal, shorter transcript that ends as `messages` do. Raises HermesError when its model fails."""
        ...


class ModelEngine:
    """The default: the auxiliary model writes the summary, or brings the one that is there up to date."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def compress(self, messages: Sequence[Message], budget: Budget, focus: str) -> Compacted:
        """Compress with one model call; with none when there is next to nothing to summarise."""
        parts = await asyncio.to_thread(split, messages, budget)
        size = transcript_tokens(parts.middle)
        if size < WORTH_A_MODEL_TOKENS:
            return assemble(parts, _plain_body(parts), budget, by_model=False)
        most = summary_tokens(size, budget)
        try:
            body = await self._written(parts, budget, focus, most)
        except HermesError as error:
            if error.code not in TOO_LONG:
                raise
            # The auxiliary model reads less than the conversation's own.
            smaller = replace(budget, material_characters=budget.material_characters // 4)
            body = await self._written(parts, smaller, focus, most)
        return await asyncio.to_thread(assemble, parts, body, budget, by_model=True)

    async def _written(self, parts: Split, budget: Budget, focus: str, most: int) -> str:
        text = await asyncio.to_thread(_task, parts, budget, focus, most)
        body = await self._ask(instructions.SYSTEM, text, int(most * ROOM_TO_FINISH))
        return clip(redact(body), int(most * ROOM_TO_FINISH))


class PlainEngine:
    """Needs no model: what was said last, and the records. Always works, knows less."""

    async def compress(self, messages: Sequence[Message], budget: Budget, focus: str) -> Compacted:
        """Compress at once; `focus` cannot be honoured."""
        del focus
        return await asyncio.to_thread(_plain, messages, budget)


def _plain(messages: Sequence[Message], budget: Budget) -> Compacted:
    parts = split(messages, budget)
    return assemble(parts, _plain_body(parts), budget, by_model=False)


def _task(parts: Split, budget: Budget, focus: str, most: int) -> str:
    return instructions.request(
        material=material_of(parts.middle, budget.material_characters),
        previous=redact(parts.previous.body) if parts.previous else "",
        newest=shorten(redact(parts.pinned.text()), 1_000) if parts.pinned else "",
        focus=redact(focus)[:500],
        now=budget.now,
        words=most // 2,
    )


def assemble(parts: Split, body: str, budget: Budget, *, by_model: bool) -> Compacted:
    """Join head, summary and tail into a legal transcript."""
    previous = parts.previous or Summary("")
    said = [message.text() for message in parts.middle if message.role is Role.USER]
    summary = Summary(
        body=body,
        done=ledger.merge(previous.done, ledger.entries_of(parts.middle), budget.done_characters),
        said=merge_said(previous.said, said, budget.said_characters),
        names=names.merge(previous.names, names.names_of(parts.middle, budget.names_characters), budget.names_characters),
    )
    messages = list(parts.head)
    if messages and messages[-1].role is not Role.ASSISTANT:
        messages.append(Message.assistant(BRIDGE))
    index = len(messages)
    messages.append(summary_message(summary, parts.pinned))
    if parts.tail and parts.tail[0].role is Role.USER:
        messages.append(Message.assistant(ACKNOWLEDGED))
    return Compacted((*messages, *parts.tail), index, by_model)


def clip(text: str, tokens: int) -> str:
    """Cut a text to about so many tokens."""
    size = text_tokens(text)
    return text if size <= tokens else text[: len(text) * tokens // size] + " [...]"


def _plain_body(parts: Split) -> str:
    room = PLAIN_CHARACTERS // 2
    lines: list[str] = []
    for message in reversed(parts.middle):
        text = redact(" ".join(message.text()[:2_000].split()))
        if message.role is not Role.ASSISTANT or not text:
            continue
        line = f"- {text if len(text) <= 300 else text[:300] + ' [...]'}"
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    pieces = []
    if parts.previous and parts.previous.body:
        pieces += [shorten(parts.previous.body, PLAIN_CHARACTERS // 2 - 400), ""]
    if lines:
        pieces += ["### What the assistant said, oldest first", *lines[::-1]]
    return "\n".join(pieces) or "(Only long results were shortened.)"
