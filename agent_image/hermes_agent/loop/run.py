"""From an opened turn to a committed one: loads the conversation, runs the loop, writes the ending, whatever it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from hermes_agent.loop.limits import Limits
from hermes_agent.loop.outcome import (
    INTERNAL_ERROR_REPLY,
    REPLY_STOPPED,
    EndReason,
    Outcome,
    TurnFailed,
    time_limit_reply,
)
from hermes_agent.loop.ports import Store
from hermes_agent.loop.prompt import build_system_prompt
from hermes_agent.loop.transcript import Transcript, TranscriptCache
from hermes_agent.loop.turn import Turn, TurnLoop
from hermes_agent.stop import Stopped, StopReason, StopSignal
from hermes_agent.tools.base import AnyTool
from hermes_contracts.agent_config import AgentConfig
from hermes_contracts.conversation import Message
from hermes_contracts.envelopes import Inbound
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    COMMIT,
    FREEZE_PROMPT,
    LOAD,
    CommitRequest,
    FreezePromptRequest,
    FrozenPrompt,
    LoadRequest,
    OpenTurnReply,
)

log = structlog.get_logger()

MAX_REPLY_BYTES = 200_000
"""Longest answer that is committed, in UTF-8: it travels twice in one message of the bus."""


class TurnRunner:
    """Runs opened turns of one session, one at a time."""

    def __init__(
        self,
        config: AgentConfig,
        store: Store,
        loop: TurnLoop,
        tools: dict[str, AnyTool],
        limits: Limits,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._config = config
        self._store = store
        self._loop = loop
        self._tools = tools
        self._limits = limits
        self._now = now
        self._cache = TranscriptCache()

    async def run(self, inbound: Inbound, opened: OpenTurnReply, stop: StopSignal) -> Outcome:
        """Run and commit a turn. Raises HermesError when the store cannot be used; then nothing was committed."""
        timer = asyncio.get_running_loop().call_later(self._limits.max_turn_seconds, stop.set, StopReason.TIME)
        try:
            transcript = await self._transcript(inbound, opened)
            turn = Turn(opened.turn_id, opened.next_step, transcript, stop, opened.journal)
            outcome = await self._outcome(turn, inbound)
            await self._commit(turn, outcome)
        finally:
            timer.cancel()
        self._cache.keep(transcript)
        return outcome

    async def _outcome(self, turn: Turn, inbound: Inbound) -> Outcome:
        try:
            return await self._loop.run(turn, inbound)
        except TurnFailed as failed:
            return failed.outcome
        except Stopped as stopped:
            if stopped.reason is StopReason.TIME:
                return Outcome("failed", EndReason.TIME_LIMIT, time_limit_reply(self._limits.max_turn_seconds))
            return Outcome("done", EndReason.STOPPED_BY_USER, REPLY_STOPPED)
        except HermesError as error:
            if error.retryable or error.code is ErrorCode.FENCED:
                raise
            # The store will not take this step however often it is sent: the person hears of it now, not after all attempts.
            log.error("turn.refused_by_store", code=error.code.value, message=error.message[:300])
            return Outcome("failed", EndReason.INTERNAL_ERROR, INTERNAL_ERROR_REPLY)
        except Exception:
            log.exception("turn.failed")
            return Outcome("failed", EndReason.INTERNAL_ERROR, INTERNAL_ERROR_REPLY)

    async def _commit(self, turn: Turn, outcome: Outcome) -> None:
        reply = _bounded(outcome.reply)
        message = Message.assistant(reply)
        await self._store.call(
            COMMIT,
            CommitRequest(
                turn_id=turn.turn_id,
                step=turn.step,
                messages=(message,),
                outcome=outcome.outcome,
                reason=outcome.reason.value,
                reply=reply,
                usage=turn.usage,
            ),
        )
        turn.transcript.add(message)

    async def _transcript(self, inbound: Inbound, opened: OpenTurnReply) -> Transcript:
        cached = self._cache.take(inbound.conversation)
        if cached is not None and opened.next_step == 0:
            return cached
        transcript = Transcript(inbound.conversation)
        more = True
        while more:
            page = await self._store.call(LOAD, LoadRequest(conversation=inbound.conversation, after=transcript.sequence))
            if page.prompt is not None and not transcript.has_prompt:
                transcript.set_prompt(page.prompt)
            for stored in page.messages:
                transcript.add(stored.message)
                transcript.sequence = stored.sequence
            more = page.more and bool(page.messages)
        if not transcript.has_prompt:
            transcript.set_prompt(await self._freeze(inbound))
        return transcript

    async def _freeze(self, inbound: Inbound) -> FrozenPrompt:
        system = build_system_prompt(
            persona=self._config.persona,
            instructions=inbound.instructions,
            tools=frozenset(self._tools),
            workspace=self._config.workspace_path,
            today=self._now(),
            profile=self._config.profile,
            model=self._config.model,
        )
        prompt = FrozenPrompt(system=system, tools=tuple(tool.spec() for tool in self._tools.values()))
        reply = await self._store.call(FREEZE_PROMPT, FreezePromptRequest(conversation=inbound.conversation, prompt=prompt))
        return reply.prompt


def _bounded(reply: str) -> str:
    data = reply.encode("utf-8", "replace")
    if len(data) <= MAX_REPLY_BYTES:
        return reply
    return data[:MAX_REPLY_BYTES].decode("utf-8", "ignore") + "\n[The rest of this answer was cut: it is too long.]"
