"""One answer of the model: asked for as often as it takes, compacted before, judged after."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from hermes_agent.loop.judge import Accepted, Ladder, Setting, empty_answer
from hermes_agent.loop.limits import Limits
from hermes_agent.loop.liveness import Pulse
from hermes_agent.loop.outcome import TurnFailed
from hermes_agent.loop.ports import Compaction, DeltaSink
from hermes_agent.loop.retry import OVERFLOWS, TRY_AGAIN, GiveUp, decide, keeps_partial
from hermes_agent.loop.state import Turn
from hermes_agent.model.base import ModelCall, ModelClient, encode
from hermes_agent.model.collect import Answer, Collector, ModelFailed, gather
from hermes_contracts.conversation import Message, Role
from hermes_contracts.errors import ErrorCode, HermesError

MAX_OVERFLOWS = 3
"""Times that one answer's request may turn out too large and be made smaller."""


class Asker:
    """Asks one session's model."""

    def __init__(
        self,
        model: ModelClient,
        limits: Limits,
        deltas: DeltaSink,
        compaction: Compaction,
        rng: random.Random,
        pulse: Pulse,
    ) -> None:
        self._model = model
        self._limits = limits
        self._deltas = deltas
        self._compaction = compaction
        self._rng = rng
        self._pulse = pulse

    async def ask(self, turn: Turn, scaffold: Sequence[Message] = ()) -> Accepted:
        """Return an answer that is worth something. `scaffold` is sent and not kept. Raises TurnFailed, Stopped."""
        setting = Setting(
            after_tools=turn.transcript.last_role is Role.TOOL,
            has_tools=turn.transcript.tools != b"[]" and not scaffold,
            fallback=turn.fallback,
            passed_over=turn.passed_over,
        )
        ladder = Ladder(self._limits, setting)
        extra = scaffold
        while True:
            answer = await self._call(turn, extra, ladder)
            if isinstance(answer, Accepted):
                turn.shown = False
                return answer
            turn.used(answer.usage)
            turn.provider = answer.provider
            self._compaction.measured(turn, turn.context_tokens, answer.context_window)
            verdict = ladder.judge(answer)
            if isinstance(verdict, Accepted):
                turn.shown = False
                return verdict
            if not verdict.keeps_text:
                self._void(turn)
            turn.passed_over = ladder.passed_over
            if verdict.notice:
                self._deltas.emit("notice", text=verdict.notice)
            extra = (*scaffold, *verdict.scaffold)
            if verdict.pause_seconds:
                await turn.stop.race(asyncio.sleep(verdict.pause_seconds))

    async def _call(self, turn: Turn, extra: Sequence[Message], ladder: Ladder) -> Answer | Accepted:
        """Return what the model answered, or what there is of it when the stream broke for good."""
        failures = overflows = 0
        await self._compaction.before_call(turn)
        while True:
            collector = Collector(lambda kind, text: self._piece(turn, kind, text))
            try:
                events = self._model.stream(self._request(turn, extra, ladder))
                return await turn.stop.race(gather(events, collector))
            except HermesError as error:
                if error.code in OVERFLOWS and overflows < MAX_OVERFLOWS:
                    overflows += 1
                    if await self._made_smaller(turn, error):
                        self._void(turn)
                        continue
                failures += 1
                verdict = decide(self._limits.retry, error, failures, self._rng.random())
                if isinstance(verdict, GiveUp):
                    partial = ladder.partial(collector.text_so_far(), verdict.sentence) if keeps_partial(error) else None
                    if partial is not None:
                        return partial
                    if ladder.passed_over and isinstance(error, ModelFailed) and error.code is not ErrorCode.BUDGET:
                        raise empty_answer() from error
                    raise TurnFailed(verdict.reason, verdict.sentence) from error
            self._void(turn)
            self._deltas.emit("notice", text=TRY_AGAIN)
            await turn.stop.race(asyncio.sleep(verdict))

    def _request(self, turn: Turn, extra: Sequence[Message], ladder: Ladder) -> ModelCall:
        transcript = turn.transcript
        return ModelCall(
            turn.turn_id,
            turn.step,
            transcript.system,
            transcript.tools,
            [*transcript.messages, *map(encode, extra)] if extra else transcript.messages,
            ladder.max_output_tokens,
            transcript.conversation,
            passed_over=ladder.passed_over,
            model=turn.model,
        )

    async def _made_smaller(self, turn: Turn, error: HermesError) -> bool:
        if isinstance(error, ModelFailed) and error.context_window:
            self._compaction.measured(turn, 0, error.context_window)
        return await self._compaction.on_overflow(turn, error)

    def _void(self, turn: Turn) -> None:
        """Take back text that was shown: the answer begins anew."""
        if turn.shown:
            turn.shown = False
            self._deltas.emit("restart")

    def _piece(self, turn: Turn, kind: str, text: str) -> None:
        self._pulse.beat()
        match kind:
            case "text":
                turn.shown = True
                self._deltas.emit("text", text=text)
            case "reasoning":
                self._deltas.emit("reasoning", text=text)
            case "notice":
                self._deltas.emit("notice", text=text)
            case "restart":
                self._void(turn)
            case _:
                pass
