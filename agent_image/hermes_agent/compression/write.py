"""Writes a compacted transcript as one step of a turn, with the prompt built anew."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog
from pydantic import TypeAdapter

from hermes_agent.compression.engine import Compacted
from hermes_agent.compression.gauge import prompt_tokens
from hermes_agent.compression.sizes import text_tokens, transcript_tokens
from hermes_agent.loop.load import load_transcript
from hermes_agent.loop.ports import Store
from hermes_agent.loop.state import Turn
from hermes_contracts.conversation import Message, ToolSpec
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import COMPACT, CompactRequest, FrozenPrompt

log = structlog.get_logger()

Rebuild = Callable[[str], Awaitable[FrozenPrompt]]
"""From the prompt's text as it is now to a fresh prompt."""
_TOOLS: TypeAdapter[tuple[ToolSpec, ...]] = TypeAdapter(tuple[ToolSpec, ...])


@dataclass(frozen=True)
class Done:
    """What one pass came to, in tokens."""

    before: int
    after: int
    by_model: bool


class Writer:
    """One session's way to make a compaction true."""

    def __init__(self, store: Store, rebuild: Rebuild | None) -> None:
        self._store = store
        self._rebuild = rebuild

    async def write(self, turn: Turn, messages: Sequence[Message], compacted: Compacted, tokens: int) -> Done | None:
        """Write the step; None when the store refused it and nothing has changed. Raises Stopped, HermesError.

        An error that leaves open whether it was written must end this life of the turn: another write of the same step
        would be answered with this one's result, and be lost.
        """
        transcript = turn.transcript
        prompt = await self._prompt(turn)
        done = _outcome(turn, messages, compacted, prompt, tokens)
        request = CompactRequest(
            turn_id=turn.turn_id,
            step=turn.step,
            conversation=transcript.conversation,
            expected=transcript.compactions,
            prompt=prompt,
            messages=compacted.messages,
            summary_index=compacted.summary_index,
            usage=turn.usage,
            tokens_before=done.before,
            tokens_after=done.after,
        )
        try:
            reply = await self._store.call(COMPACT, request)
        except HermesError as error:
            if error.code is ErrorCode.FENCED or error.retryable:
                raise
            log.error("compression.refused_by_store", code=error.code.value, message=error.message[:300])
            if error.code is ErrorCode.CONFLICT:
                transcript.become(await load_transcript(self._store, transcript.conversation))
            return None
        turn.written()
        transcript.begin_anew(prompt, compacted.messages, sequence=reply.sequence, compactions=reply.compactions)
        return done

    async def _prompt(self, turn: Turn) -> FrozenPrompt:
        transcript = turn.transcript
        old = FrozenPrompt(system=json.loads(transcript.system), tools=_TOOLS.validate_json(transcript.tools))
        if self._rebuild is None:
            return old
        try:
            return await turn.stop.race(_awaited(self._rebuild(old.system)))
        except HermesError as error:
            log.warning("compression.prompt_kept", code=error.code.value)
            return old


def _outcome(turn: Turn, messages: Sequence[Message], compacted: Compacted, prompt: FrozenPrompt, tokens: int) -> Done:
    """Put the new estimate in the provider's measure, so that both numbers can be compared."""
    estimated = prompt_tokens(turn.transcript) + transcript_tokens(messages)
    new_prompt = text_tokens(prompt.system) + sum(text_tokens(tool.model_dump_json()) for tool in prompt.tools)
    after = new_prompt + transcript_tokens(compacted.messages)
    return Done(tokens, after * tokens // max(1, estimated), compacted.by_model)


async def _awaited(work: Awaitable[FrozenPrompt]) -> FrozenPrompt:
    return await work
