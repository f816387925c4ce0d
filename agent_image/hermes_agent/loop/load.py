"""Reads a conversation from the store, row by row: one that is broken costs itself, not the conversation."""

from __future__ import annotations

from pydantic import Field

from hermes_agent.loop.ports import Store
from hermes_agent.loop.repair import read_row
from hermes_agent.loop.transcript import Transcript
from hermes_contracts.store_api import LOAD, FrozenPrompt, LoadRequest, Method
from hermes_contracts.store_api.base import StoreModel

PAGE_ROWS = 1_000
"""Rows that are asked for at once; the store sends fewer when they would not fit the bus."""


class _Row(StoreModel):
    """A stored message whose content is not believed yet."""

    sequence: int
    message: object = None


class _Page(StoreModel):
    """`LoadReply`, with rows as they are."""

    prompt: FrozenPrompt | None = None
    messages: tuple[_Row, ...] = ()
    more: bool = False
    compactions: int = 0
    context_tokens: int = 0
    context_sequence: int = Field(default=0)
    undone: int = 0


_LOAD = Method(LOAD.name, LOAD.request, _Page, LOAD.callers)


async def load_transcript(store: Store, conversation: str) -> Transcript:
    """Return what the store holds since the last compaction; without a prompt when none was frozen. Raises HermesError."""
    transcript = Transcript(conversation)
    more = True
    while more:
        request = LoadRequest(conversation=conversation, after=transcript.sequence, limit=PAGE_ROWS)
        page = await store.call(_LOAD, request)
        if page.prompt is not None and not transcript.has_prompt:
            transcript.set_prompt(page.prompt)
        transcript.compactions = page.compactions
        transcript.context_tokens = page.context_tokens
        transcript.undone = page.undone
        for row in page.messages:
            transcript.add(read_row(row.message))
            transcript.sequence = row.sequence
            if row.sequence <= page.context_sequence:
                transcript.context_rows = len(transcript.messages)
        more = page.more and bool(page.messages)
    return transcript
