"""The events of a run, as the original names them. Each is a line of JSON whose `event` says which."""

from __future__ import annotations

import time

from hermes_contracts.envelopes import Delta
from hermes_contracts.store_api import TurnState
from hermes_gateway.gateway.openai_api.streaming import AnswerText
from hermes_gateway.gateway.runs_api.protocol import RunStatus, RunUsage
from hermes_gateway.gateway.turns import Answer
from hermes_gateway.gateway.web.errors import ErrorDetail
from hermes_gateway.gateway.web.sse import frame

_STOPPED = "stopped_by_user"
_TOOLS = {"tool_started": "tool.started", "tool_finished": "tool.completed"}
_FAILED = (TurnState.FAILED, TurnState.DEAD)


def status_of(answer: Answer) -> RunStatus:
    """Return how a run ended. One that was stopped is cancelled, whatever it had said until then."""
    if answer.reason == _STOPPED:
        return "cancelled"
    return "failed" if answer.state in _FAILED else "completed"


class RunEvents:
    """Renders the events of one run for one reader. All `message.delta` together end as the answer."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._text = AnswerText()

    def of_delta(self, delta: Delta) -> list[bytes]:
        """Render a piece of the running turn."""
        piece = self._text.take(delta)
        if delta.kind in _TOOLS:
            return [self._event(_TOOLS[delta.kind], tool=delta.tool[:200], call_id=delta.call_id[:200])]
        if delta.kind == "reasoning":
            return [self._event("reasoning.delta", delta=delta.text)] if delta.text else []
        if delta.kind in ("notice", "restart"):
            return [self._event(f"run.{delta.kind}", text=delta.text[:2000])]
        return [self._event("message.delta", delta=piece)] if piece else []

    def of_answer(self, answer: Answer) -> list[bytes]:
        """Render the end."""
        status = status_of(answer)
        if status == "cancelled":
            return [self._event("run.cancelled")]
        if status == "failed":
            return [self._event("run.failed", error=answer.reply)]
        missing = self._text.finish(answer.reply)
        pieces = [self._event("message.delta", delta=missing)] if missing else []
        usage = RunUsage.of(answer.usage).model_dump()
        return [*pieces, self._event("run.completed", output=answer.reply, usage=usage)]

    def error(self, detail: ErrorDetail) -> bytes:
        """The stream ends here; the run goes on."""
        return self._event("stream.error", error=detail.message)

    def _event(self, event: str, **fields: object) -> bytes:
        return frame({"event": event, "run_id": self._run, "timestamp": time.time(), **fields})
