"""The loop's `Compaction`: decides, lets an engine work, checks its result, and writes it as one step of the turn."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from hermes_agent.compression.budget import Budget, threshold_tokens
from hermes_agent.compression.check import MIN_SAVING, MIN_SAVING_ON_OVERFLOW, Ruler, problems
from hermes_agent.compression.engine import Ask, Compacted, CompressionEngine, ModelEngine, PlainEngine
from hermes_agent.compression.gauge import Gauge
from hermes_agent.compression.policy import MAX_PASSES, UNEXPLAINED_SHARE, History, Size, is_due, is_urgent
from hermes_agent.compression.side_model import Patience, SideModel
from hermes_agent.compression.write import Done, Rebuild, Writer
from hermes_agent.loop.ports import DeltaSink, Store
from hermes_agent.loop.state import Turn
from hermes_agent.model.base import ModelClient
from hermes_agent.stop import Stopped
from hermes_contracts.agent_config import CompressionConfig
from hermes_contracts.conversation import Message
from hermes_contracts.errors import ErrorCode, HermesError

log = structlog.get_logger()

MAX_HISTORIES = 1_000
FEWEST_ROWS = 4
NOTHING_YET = "There is nothing to compact: this conversation is only {tokens:,} tokens long."
NOTHING_GAINED = "Nothing was compacted: of this conversation's {tokens:,} tokens, hardly any can be taken out."
COMPACTED = "Compacted this conversation from {before:,} to {after:,} tokens."
WITHOUT_MODEL = " No model could write the summary, so it is an extract."
NEXT_TIME = "This conversation will be compacted with your next message."


@dataclass(frozen=True)
class _Pass:
    """How one pass is done."""

    size: Size
    window: int
    level: int = 0
    urgent: bool = False
    focus: str = ""
    ruler: Ruler = "tokens"
    min_saving: float = MIN_SAVING


class _Refused(Exception):
    """The store takes no compaction on behalf of this turn or command."""


@dataclass(frozen=True)
class Options:
    """How passes are done, where it matters to nobody but tests and other engines."""

    engine: Callable[[Ask], CompressionEngine] = ModelEngine
    patience: Patience = field(default_factory=Patience)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


class Compactor:
    """Compacts the conversations of one session. What it remembers of them is lost with the process, and may be."""

    def __init__(
        self,
        store: Store,
        model: ModelClient,
        deltas: DeltaSink,
        config: CompressionConfig,
        window: Callable[[], Awaitable[int]],
        rebuild: Rebuild | None = None,
        options: Options | None = None,
    ) -> None:
        options = options or Options()
        self._model = model
        self._deltas = deltas
        self._config = config
        self._gauge = Gauge(window)
        self._writer = Writer(store, rebuild)
        self._engine = options.engine
        self._patience = options.patience
        self._now = options.now
        self._histories: OrderedDict[str, History] = OrderedDict()

    def measured(self, turn: Turn, context_tokens: int, context_window: int) -> None:
        """Take what a provider counted, and with it the proof that the last pass worked or did not."""
        self._gauge.measured(turn.transcript, context_tokens, context_window)
        history = self._history(turn)
        if context_tokens and history.awaiting_proof and self._gauge.window:
            history.proved(context_tokens, threshold_tokens(self._gauge.window, self._config))

    async def before_call(self, turn: Turn) -> None:
        """Compact when it is time to. Raises Stopped, and HermesError when the store's answer is not known."""
        history = self._history(turn)
        try:
            await self._before_call(turn, history)
        except (Stopped, HermesError):
            raise
        except Exception:
            log.exception("compression.failed")
            history.gained_nothing(self._gauge.size(turn.transcript).tokens)

    async def _before_call(self, turn: Turn, history: History) -> None:
        size = self._gauge.size(turn.transcript)
        if history.forced is not None:
            focus, history.forced = history.forced, None
            await self._pass(turn, history, _Pass(size, size.tokens, urgent=True, focus=focus))
            return
        if not self._config.enabled:
            return
        window = await self._gauge.known_window(turn, size)
        if not window or not is_due(size, threshold_tokens(window, self._config), window):
            return
        urgent = is_urgent(size, window)
        if not history.rests(_clock(), size.tokens, urgent=urgent):
            await self._pass(turn, history, _Pass(size, window, level=history.passes, urgent=urgent))

    async def on_overflow(self, turn: Turn, error: HermesError) -> bool:
        """Compact because the provider refused the request. Returns whether it got smaller; raises as `before_call` does."""
        if not self._config.enabled:
            return False
        history = self._history(turn)
        size = self._gauge.size(turn.transcript)
        by_bytes = error.code is ErrorCode.PAYLOAD_TOO_LARGE
        if not by_bytes and size.tokens < self._gauge.window * UNEXPLAINED_SHARE:
            log.warning("compression.unexplained_overflow", tokens=size.tokens, window=self._gauge.window)
            if history.unexplained:
                return False
            history.unexplained = True
        # Whatever the window is said to be: what was refused is too long by the ruler that it was measured with.
        window = min(self._gauge.window or size.tokens, size.tokens)
        while history.passes < MAX_PASSES:
            how = _Pass(
                size, window, history.passes, urgent=True,
                ruler="bytes" if by_bytes else "tokens", min_saving=MIN_SAVING_ON_OVERFLOW,
            )  # fmt: skip
            if await self._pass(turn, history, how) is not None:
                return True
        return False

    async def by_hand(self, turn: Turn, focus: str) -> str:
        """Compact now because the person asked to; `turn` stands for the command. Returns a sentence for the person."""
        history = self._history(turn)
        size = self._gauge.size(turn.transcript)
        if len(turn.transcript.messages) < FEWEST_ROWS:
            return NOTHING_YET.format(tokens=size.tokens)
        try:
            done = await self._pass(turn, history, _Pass(size, size.tokens, urgent=True, focus=focus), refused_is_error=True)
        except _Refused:
            history.forced = focus
            return NEXT_TIME
        if done is None:
            return NOTHING_GAINED.format(tokens=size.tokens)
        sentence = COMPACTED.format(before=done.before, after=done.after)
        return sentence if done.by_model else sentence + WITHOUT_MODEL

    async def _pass(self, turn: Turn, history: History, how: _Pass, *, refused_is_error: bool = False) -> Done | None:
        history.passes += 1
        started = _clock()
        messages = [Message.model_validate_json(row) for row in turn.transcript.messages]
        budget = Budget.of(how.window, self._config, level=how.level, now=self._now())
        plain = await PlainEngine().compress(messages, budget, how.focus)
        if wrong := self._wrong(messages, plain, budget, how):
            # No model is paid for what cannot gain anything.
            log.info("compression.no_gain", tokens=how.size.tokens, problems=wrong)
            history.gained_nothing(how.size.tokens)
            return None
        self._deltas.emit("notice", text=f"Compacting the conversation ({how.size.tokens:,} tokens) ...")
        compacted = await self._compress(turn, history, messages, budget, how, plain)
        if compacted is None:
            return None
        done = await self._writer.write(turn, messages, compacted, how.size.tokens)
        if done is None:
            if refused_is_error:
                raise _Refused
            history.gained_nothing(how.size.tokens)
            return None
        history.awaiting_proof = True
        seconds = round(_clock() - started, 3)
        log.info(
            "compression.done",
            before=done.before,
            after=done.after,
            by_model=done.by_model,
            level=how.level,
            seconds=seconds,
        )
        return done

    async def _compress(
        self, turn: Turn, history: History, messages: Sequence[Message], budget: Budget, how: _Pass, plain: Compacted
    ) -> Compacted | None:
        """Return the engine's result, `plain` where that is the best there is, or None when it is better to wait."""
        if _clock() < history.cool_until:
            return plain
        engine = self._engine(SideModel(self._model, turn, self._patience).ask)
        try:
            compacted = await engine.compress(messages, budget, how.focus)
        except HermesError as error:
            history.failed(_clock())
            log.warning("compression.no_summary", code=error.code.value, failures=history.failures, urgent=how.urgent)
            return plain if how.urgent or history.failures > 1 else None
        history.failures, history.cool_until = 0, 0.0
        if wrong := self._wrong(messages, compacted, budget, how):
            log.warning("compression.summary_refused", problems=wrong)
            return plain
        return compacted

    def _wrong(self, messages: Sequence[Message], compacted: Compacted, budget: Budget, how: _Pass) -> list[str]:
        return problems(messages, compacted.messages, budget, ruler=how.ruler, min_saving=how.min_saving)

    def _history(self, turn: Turn) -> History:
        conversation = turn.transcript.conversation
        history = self._histories.setdefault(conversation, History())
        self._histories.move_to_end(conversation)
        while len(self._histories) > MAX_HISTORIES:
            self._histories.popitem(last=False)
        return history.in_turn(turn.turn_id)


def _clock() -> float:
    return asyncio.get_running_loop().time()
