"""Where the program's model calls arrive: each becomes a call of the models service, within the turn's budgets."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable

import structlog

from hermes_agent.codex.lines import NotItsProtocol, Piped, ProgramEnded
from hermes_agent.codex.responses import Asked, Unreadable, read_request, write_answer
from hermes_agent.loop.budget import budgets
from hermes_agent.loop.limits import Limits
from hermes_agent.loop.liveness import Pulse
from hermes_agent.loop.outcome import INTERNAL_ERROR_REPLY, EndReason, Outcome, TurnFailed, limit_reply
from hermes_agent.loop.ports import DeltaSink
from hermes_agent.loop.retry import GiveUp, decide
from hermes_agent.loop.state import Turn
from hermes_agent.model.base import ModelCall, ModelClient
from hermes_agent.model.collect import Answer, collect
from hermes_contracts.conversation import Usage
from hermes_contracts.errors import HermesError
from hermes_contracts.model_api import Purpose

log = structlog.get_logger()

MAX_CALLS = 2
"""Model calls of one program at once; more are refused, so that it cannot fill the agent's memory."""
RELAY_GONE = "The way from the Codex program to the model broke, so I stopped. Please send the message again."


class Spending:
    """Usage of a turn's model calls, until a step of the transcript carries it."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._unwritten = Usage()

    def add(self, usage: Usage) -> None:
        """Count one call."""
        self._turn.spent += usage
        self._unwritten += usage

    def take(self) -> Usage:
        """Take what no step has carried yet."""
        taken, self._unwritten = self._unwritten, Usage()
        return taken


class Door:
    """The model behind one program, for the time of one turn. `fail` is told of what must end the turn."""

    def __init__(
        self,
        model: ModelClient,
        limits: Limits,
        deltas: DeltaSink,
        pulse: Pulse,
        turn: Turn,
        spending: Spending,
        fail: Callable[[Exception], None],
    ) -> None:
        self._model = model
        self._limits = limits
        self._deltas = deltas
        self._pulse = pulse
        self._turn = turn
        self._spending = spending
        self._fail = fail
        self._open = 0
        self._rng = random.Random()

    async def serve(self, relay: Piped) -> None:
        """Answer the relay's requests until cancelled; whatever ends it ends the turn."""
        try:
            await self._serve(relay)
        except Exception:  # nobody waits for this task: a bug of ours has to end the turn too, and not hang it
            log.exception("codex.door_failed")
            self._fail(TurnFailed(EndReason.INTERNAL_ERROR, INTERNAL_ERROR_REPLY))

    async def _serve(self, relay: Piped) -> None:
        try:
            async with asyncio.TaskGroup() as calls:
                async for value in relay.values():
                    number, body = value.get("id"), value.get("body")
                    if not isinstance(number, int) or not isinstance(body, str):
                        raise NotItsProtocol("a request without id or body")
                    if self._open >= MAX_CALLS:
                        await relay.send(_refusal(number, 429, f"at most {MAX_CALLS} calls run at once"))
                        continue
                    self._open += 1
                    calls.create_task(self._serve_one(relay, number, body))
        except* (NotItsProtocol, ProgramEnded, HermesError) as errors:
            log.warning("codex.relay_gone", problem=str(errors.exceptions[0])[:200])
            self._fail(TurnFailed(EndReason.PROGRAM_FAILED, RELAY_GONE))

    async def _serve_one(self, relay: Piped, number: int, body: str) -> None:
        try:
            asked = read_request(body, self._turn.transcript.conversation)
            answer = await self._answer(asked)
            reply: dict[str, object] = {"id": number, "status": 200, "body": write_answer(answer, asked, number)}
        except Unreadable as error:
            reply = _refusal(number, 400, str(error))
        except TurnFailed as failed:
            self._fail(failed)
            reply = _refusal(number, 400, failed.outcome.reply)
        except Exception:  # a bug of ours ends this turn and not the agent
            log.exception("codex.door_failed")
            self._fail(TurnFailed(EndReason.INTERNAL_ERROR, INTERNAL_ERROR_REPLY))
            reply = _refusal(number, 500, INTERNAL_ERROR_REPLY)
        finally:
            self._open -= 1
        await relay.send(reply)

    async def _answer(self, asked: Asked) -> Answer:
        """Return the model's answer, asked for as often as is worth it. Raises TurnFailed."""
        turn, failures = self._turn, 0
        self._within_budgets()
        turn.iterations += 1
        shows = asked.kind == "turn"
        while True:
            try:
                answer = await collect(self._model.stream(self._call(asked, shows)), self._piece if shows else self._alive)
            except HermesError as error:
                failures += 1
                verdict = decide(self._limits.retry, error, failures, self._rng.random())
                if isinstance(verdict, GiveUp):
                    raise TurnFailed(verdict.reason, verdict.sentence) from error
                self._void()
                await asyncio.sleep(verdict)
                continue
            self._spending.add(answer.usage)
            turn.provider = answer.provider
            turn.shown = False
            return answer

    def _call(self, asked: Asked, is_turn: bool) -> ModelCall:
        transcript = asked.transcript
        return ModelCall(
            self._turn.turn_id,
            self._turn.step,
            transcript.system,
            transcript.tools,
            transcript.messages,
            self._limits.max_output_tokens,
            transcript.conversation,
            Purpose.TURN if is_turn else Purpose.COMPRESSION,
            model=self._turn.model,
        )

    def _within_budgets(self) -> None:
        turn = self._turn
        seconds = time.monotonic() - turn.started
        most = budgets(self._limits, iterations=turn.iterations, seconds=seconds, spent=turn.spent)[0]
        if most.share >= 1:
            failed = TurnFailed(most.reason, limit_reply(most.words))
            failed.outcome = Outcome("done", most.reason, limit_reply(most.words))
            raise failed

    def _piece(self, kind: str, text: str) -> None:
        self._pulse.beat()
        match kind:
            case "text":
                self._turn.shown = True
                self._deltas.emit("text", text=text)
            case "reasoning":
                self._deltas.emit("reasoning", text=text)
            case "notice":
                self._deltas.emit("notice", text=text)
            case "restart":
                self._void()
            case _:
                pass

    def _alive(self, kind: str, text: str) -> None:
        del kind, text
        self._pulse.beat()

    def _void(self) -> None:
        if self._turn.shown:
            self._turn.shown = False
            self._deltas.emit("restart")


def _refusal(number: int, status: int, message: str) -> dict[str, object]:
    return {"id": number, "status": status, "body": json.dumps({"error": {"message": message}})}
