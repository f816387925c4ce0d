"""The events of a run, as the original names them. Each is a line of JSON whose `event` says which."""

from __future__ import annotations

import time

from hermes_contracts.conversation import Usage
from hermes_contracts.envelopes import Delta
from hermes_contracts.store_api import Approval, TurnState
from hermes_gateway.gateway.openai_api.streaming import SEPARATOR, AnswerText
from hermes_gateway.gateway.runs_api.protocol import RunStatus, RunUsage
from hermes_gateway.gateway.turns import Answer
from hermes_gateway.gateway.web.errors import ErrorDetail
from hermes_gateway.gateway.web.sse import frame

GRANTS = ("once", "session", "always")
_STOPPED = "stopped_by_user"
_TOOLS = {"tool_started": "tool.started", "tool_finished": "tool.completed"}
_FAILED = (TurnState.FAILED, TurnState.DEAD)


def status_of(answer: Answer) -> RunStatus:
    """Return how a run ended. One that was stopped is cancelled, whatever it had said until then."""
    if answer.reason == _STOPPED:
        return "cancelled"
    return "failed" if answer.state in _FAILED else "completed"


class RunEvents:
    """Renders the events of one run for one reader. All `message.delta` of a turn together end as its answer."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._text = AnswerText()
        self._usage = Usage()
        self._lead = ""
        """What stands between the text of a turn and that of the next one."""

    def next_turn(self) -> None:
        """The run goes on in another turn."""
        self._text, self._lead = AnswerText(), SEPARATOR

    def of_delta(self, delta: Delta) -> list[bytes]:
        """Render a piece of the running turn."""
        piece = self._text.take(delta)
        if delta.kind in _TOOLS:
            return [self._event(_TOOLS[delta.kind], tool=delta.tool[:200], call_id=delta.call_id[:200])]
        if delta.kind == "reasoning":
            return [self._event("reasoning.delta", delta=delta.text)] if delta.text else []
        if delta.kind in ("notice", "restart"):
            return [self._event(f"run.{delta.kind}", text=delta.text[:2000])]
        return self._said(piece)

    def of_answer(self, answer: Answer) -> list[bytes]:
        """Render what is missing of a turn's text; what becomes of the run is `of_end`'s."""
        self._usage += answer.usage
        return self._said(self._text.finish(answer.reply)) if status_of(answer) == "completed" else []

    def of_question(self, approval: Approval) -> bytes:
        """Somebody is asked, and the run waits."""
        choices = [*GRANTS, "deny"] if approval.kind == "call" else list(approval.options)
        return self._event(
            "approval.request",
            approval_id=approval.approval_id,
            kind=approval.kind,
            tool=approval.tool,
            arguments=approval.arguments,
            question=approval.question,
            choices=choices,
            deadline=approval.deadline,
        )

    def of_answered(self, approval_id: str, choice: str) -> bytes:
        """Somebody has answered, and the run goes on."""
        return self._event("approval.responded", approval_id=approval_id, choice=choice, resolved=1)

    def of_end(self, answer: Answer) -> list[bytes]:
        """Render the end."""
        status = status_of(answer)
        if status == "cancelled":
            return [self._event("run.cancelled")]
        if status == "failed":
            return [self._event("run.failed", error=answer.reply)]
        usage = RunUsage.of(self._usage).model_dump()
        return [self._event("run.completed", output=answer.reply, usage=usage)]

    def of_silence(self, error: str) -> list[bytes]:
        """Render the end of a run whose question nobody answered."""
        return [self._event("run.failed", error=error)]

    def error(self, detail: ErrorDetail) -> bytes:
        """The stream ends here; the run goes on."""
        return self._event("stream.error", error=detail.message)

    def _said(self, text: str) -> list[bytes]:
        if not text:
            return []
        lead, self._lead = self._lead, ""
        return [self._event("message.delta", delta=lead + text)]

    def _event(self, event: str, **fields: object) -> bytes:
        return frame({"event": event, "run_id": self._run, "timestamp": time.time(), **fields})
