"""From an opened turn to a committed one: loads the conversation, runs the loop, writes the ending, whatever it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime

import structlog

from hermes_agent.loop import scheduled
from hermes_agent.loop.limits import Limits
from hermes_agent.loop.liveness import watch_turn
from hermes_agent.loop.load import load_transcript
from hermes_agent.loop.outcome import (
    INTERNAL_ERROR_REPLY,
    REPLY_STOPPED,
    EndReason,
    Outcome,
    TurnFailed,
    limit_reply,
    stalled_reply,
)
from hermes_agent.loop.ports import HandCompaction, Store, Turns
from hermes_agent.loop.transcript import Transcript, TranscriptCache
from hermes_agent.loop.turn import Turn
from hermes_agent.prompt.builder import SessionPrompts
from hermes_agent.prompt.port import PromptBuilder
from hermes_agent.stop import Stopped, StopReason, StopSignal
from hermes_agent.tools.base import AnyTool
from hermes_contracts.agent_config import AgentConfig
from hermes_contracts.conversation import Message
from hermes_contracts.envelopes import Inbound
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    COMMIT,
    FREEZE_PROMPT,
    CommitRequest,
    FreezePromptRequest,
    FrozenPrompt,
    OpenTurnReply,
)

log = structlog.get_logger()

MAX_REPLY_BYTES = 200_000
"""Longest answer that is committed, in UTF-8: it travels twice in one message of the bus."""
NO_COMPACTION = "Compression is switched off for this agent."
NOTHING_TO_COMPACT = "There is nothing to compress in this conversation."


class TurnRunner:
    """Runs opened turns of one session, one at a time.

    `on_first(inbound, turn_id, reply, provider)` is told of each conversation's first answer.
    """

    def __init__(  # noqa: PLR0913 - all that a turn needs meets here, named
        self,
        config: AgentConfig,
        store: Store,
        loop: Turns,
        tools: dict[str, AnyTool],
        limits: Limits,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        prompts: PromptBuilder | None = None,
        by_hand: HandCompaction | None = None,
        on_first: Callable[[Inbound, str, str, str], None] | None = None,
    ) -> None:
        self._store = store
        self._loop = loop
        self._limits = limits
        self._prompts: PromptBuilder = prompts or SessionPrompts(config, tools, None, now)
        self._by_hand = by_hand
        self._on_first = on_first
        self._scheduled = scheduled.ScheduledRuns(store, loop, loop.toolbox, config.toolsets, limits)
        self._cache = TranscriptCache()
        self._one_at_a_time = asyncio.Lock()
        self._newest = ""
        """Conversation of the last turn: what a command that names none is about."""

    def opening(self, inbound: Inbound) -> Message | None:
        """Return the row that begins the turn of a message, if that is known before the turn is."""
        if inbound.run is not None:
            return scheduled.opening(inbound, inbound.run)
        return self._loop.opening(inbound)

    async def run(self, inbound: Inbound, opened: OpenTurnReply, stop: StopSignal) -> Outcome:
        """Run and commit a turn. Raises HermesError when the store cannot be used; then nothing was committed."""
        async with self._one_at_a_time:
            self._newest = inbound.conversation
            return await self._run(inbound, opened, stop)

    async def compact(self, conversation: str, focus: str, command_id: str, stop: StopSignal) -> str:
        """Compact a conversation now, between turns; return what became of it. Raises HermesError, Stopped."""
        if self._by_hand is None:
            return NO_COMPACTION
        async with self._one_at_a_time:
            conversation = conversation or self._newest
            if not conversation:
                return NOTHING_TO_COMPACT
            # Only a turn that is opened is told what was taken back: whatever is held may be old.
            transcript = await load_transcript(self._store, conversation)
            if not transcript.messages:
                return NOTHING_TO_COMPACT
            sentence = await self._by_hand.by_hand(Turn(command_id, 0, transcript, stop), focus)
            self._cache.keep(transcript)
            return sentence

    async def _run(self, inbound: Inbound, opened: OpenTurnReply, stop: StopSignal) -> Outcome:
        timer = asyncio.get_running_loop().call_later(self._limits.max_turn_seconds, stop.set, StopReason.TIME)
        watch = asyncio.create_task(
            watch_turn(self._loop.pulse, self._limits.stall_seconds, lambda: stop.set(StopReason.STALLED))
        )
        try:
            transcript, is_new = await self._transcript(inbound, opened, stop)
            turn = Turn(
                opened.turn_id,
                opened.next_step,
                transcript,
                stop,
                opened.journal,
                inbound,
                resumed=opened.attempt > 1,
                model=opened.model,
            )
            gate, offers = self._loop.toolbox.gate, self._loop.toolbox.offers
            with offers.open(turn.turn_id, begun=opened.next_step > 1) if offers else nullcontext():
                with (
                    self._loop.toolbox.answering(inbound),
                    gate.open(turn.turn_id, inbound) if gate else nullcontext(),
                ):
                    outcome = await self._outcome(turn, inbound)
                await self._commit(turn, outcome, files=offers is not None and offers.any)
        finally:
            timer.cancel()
            watch.cancel()
        self._cache.keep(transcript)
        if is_new and self._on_first is not None and inbound.run is None and outcome.reason is EndReason.STOP:
            self._on_first(inbound, turn.turn_id, outcome.reply, turn.provider)
        return outcome

    async def _outcome(self, turn: Turn, inbound: Inbound) -> Outcome:
        try:
            if inbound.run is not None:
                return await self._scheduled.run(turn, inbound, inbound.run)
            with self._loop.toolbox.narrowed(inbound.toolsets):
                return await self._loop.run(turn, inbound)
        except TurnFailed as failed:
            return _after(turn.said, failed.outcome)
        except Stopped as stopped:
            return _after(turn.said, self._interrupted(stopped.reason))
        except HermesError as error:
            if error.retryable or error.code is ErrorCode.FENCED:
                raise
            # The store will not take this step however often it is sent: the person hears of it now, not after all attempts.
            log.error("turn.refused_by_store", code=error.code.value, message=error.message[:300])
            return Outcome("failed", EndReason.INTERNAL_ERROR, INTERNAL_ERROR_REPLY)
        except Exception:
            log.exception("turn.failed")
            return Outcome("failed", EndReason.INTERNAL_ERROR, INTERNAL_ERROR_REPLY)

    def _interrupted(self, reason: StopReason) -> Outcome:
        match reason:
            case StopReason.TIME:
                return Outcome("failed", EndReason.TIME_LIMIT, limit_reply(f"{self._limits.max_turn_seconds:g} seconds"))
            case StopReason.STALLED:
                return Outcome("failed", EndReason.STALLED, stalled_reply(self._limits.stall_seconds))
            case _:
                return Outcome("done", EndReason.STOPPED_BY_USER, REPLY_STOPPED)

    async def _commit(self, turn: Turn, outcome: Outcome, *, files: bool) -> None:
        reply = _bounded(outcome.reply)
        message = Message.assistant(reply if outcome.message is None else _bounded(outcome.message))
        await self._store.call(
            COMMIT,
            CommitRequest(
                turn_id=turn.turn_id,
                step=turn.step,
                messages=(*outcome.before, message),
                outcome=outcome.outcome,
                reason=outcome.reason.value,
                reply=reply,
                silent=outcome.silent,
                choices=outcome.choices,
                files=files,
                usage=turn.usage,
                context_tokens=turn.context_tokens,
            ),
        )
        for row in (*outcome.before, message):
            turn.transcript.add(row)

    async def _transcript(self, inbound: Inbound, opened: OpenTurnReply, stop: StopSignal) -> tuple[Transcript, bool]:
        """Return the conversation, this turn's first row included, and whether this is its first turn."""
        cached = self._cache.take(inbound.conversation, undone=opened.undone)
        first_row = opened.attempt == 1 and opened.next_step == 1
        if cached is not None and cached.has_prompt and opened.attempt == 1 and opened.next_step <= 1:
            if first_row:
                cached.add(self._loop.opening(inbound))
            return cached, False
        transcript = await load_transcript(self._store, inbound.conversation)
        is_new = not transcript.compactions and len(transcript.messages) <= opened.next_step and opened.next_step <= 1
        if not transcript.has_prompt:
            try:
                transcript.set_prompt(await stop.race(self._freeze(inbound)))
            except Stopped as stopped:
                # A turn that ends here asks no model; the next one's prompt may have the time that this one had not.
                if stopped.reason is StopReason.REDIRECT:
                    transcript.set_prompt(await self._freeze(inbound))
        return transcript, is_new

    async def _freeze(self, inbound: Inbound) -> FrozenPrompt:
        prompt = await self._prompts.build(inbound)
        reply = await self._store.call(FREEZE_PROMPT, FreezePromptRequest(conversation=inbound.conversation, prompt=prompt))
        return reply.prompt


def _after(said: list[str], outcome: Outcome) -> Outcome:
    """Put whole answers that were given before it at the start of the reply."""
    if not said:
        return outcome
    return Outcome(outcome.outcome, outcome.reason, "\n\n".join([*said, outcome.reply]), outcome.message or outcome.reply)


def _bounded(reply: str) -> str:
    data = reply.encode("utf-8", "replace")
    if len(data) <= MAX_REPLY_BYTES:
        return reply
    return data[:MAX_REPLY_BYTES].decode("utf-8", "ignore") + "\n[The rest of this answer was cut: it is too long.]"
