"""Asks the auxiliary model, with a limit on silence and one on the whole."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from dataclasses import dataclass

import structlog

from hermes_agent.loop.state import Turn
from hermes_agent.model.base import ModelCall, ModelClient, encode
from hermes_agent.model.collect import Answer, collect
from hermes_agent.model.hygiene import clean_text
from hermes_contracts.conversation import Message
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import FinishReason, Purpose

log = structlog.get_logger()

ATTEMPTS = 2
_HOPELESS = frozenset(
    {
        ErrorCode.AUTH,
        ErrorCode.BILLING,
        ErrorCode.BUDGET,
        ErrorCode.NOT_CONFIGURED,
        ErrorCode.MODEL_NOT_FOUND,
        ErrorCode.UNAUTHENTICATED,
        ErrorCode.FORBIDDEN,
        ErrorCode.CONTEXT_OVERFLOW,
        ErrorCode.PAYLOAD_TOO_LARGE,
    }
)
"""Errors that a second attempt would meet again."""


@dataclass(frozen=True)
class Patience:
    """Seconds that a summary may take."""

    silence: float = 60.0
    """Without a piece or a heartbeat."""
    total: float = 120.0
    """Both attempts together."""


class SideModel:
    """One turn's access to the auxiliary model; what its calls cost goes to the turn."""

    def __init__(self, model: ModelClient, turn: Turn, patience: Patience) -> None:
        self._model = model
        self._turn = turn
        self._patience = patience

    async def ask(self, system: str, text: str, max_output_tokens: int) -> str:
        """Return the model's text, never empty. Raises HermesError after two failures, Stopped with the turn's signal."""
        try:
            async with asyncio.timeout(self._patience.total):
                for attempt in range(1, ATTEMPTS + 1):
                    try:
                        return await self._turn.stop.race(self._attempt(system, text, max_output_tokens))
                    except HermesError as error:
                        log.warning("compression.attempt_failed", attempt=attempt, code=error.code.value)
                        if attempt == ATTEMPTS or error.code in _HOPELESS:
                            raise
        except TimeoutError as error:
            raise HermesError(ErrorCode.TIMEOUT, "the summary took too long", retryable=True) from error
        raise AssertionError("unreachable")

    async def _attempt(self, system: str, text: str, max_output_tokens: int) -> str:
        turn = self._turn
        call = ModelCall(
            turn_id=turn.turn_id,
            step=turn.step,
            system=json.dumps(system, ensure_ascii=False).encode(),
            tools=b"[]",
            messages=[encode(Message.user(text))],
            max_output_tokens=max_output_tokens,
            conversation=turn.transcript.conversation,
            purpose=Purpose.COMPRESSION,
        )
        answer = await self._collect(call)
        turn.spend(answer.usage)
        body = clean_text(answer.text).strip()
        if not body or answer.finish is FinishReason.REFUSED:
            raise HermesError(ErrorCode.PROVIDER_PROTOCOL, "the summary came back empty or was refused", retryable=True)
        return body

    async def _collect(self, call: ModelCall) -> Answer:
        loop = asyncio.get_running_loop()
        stream = self._model.stream(call)
        try:
            async with asyncio.timeout(self._patience.silence) as silence:

                def on_delta(kind: str, piece: str) -> None:
                    del kind, piece
                    silence.reschedule(loop.time() + self._patience.silence)

                async with aclosing(stream):
                    return await collect(stream, on_delta)
        except TimeoutError as error:
            raise HermesError(ErrorCode.TIMEOUT, "the auxiliary model is silent", retryable=True) from error
