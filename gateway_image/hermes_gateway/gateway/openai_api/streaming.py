"""Makes the chunks of a streamed completion, so that what was streamed ends as the stored answer."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.conversation import Usage
from hermes_contracts.envelopes import Delta
from hermes_gateway.gateway.openai_api.protocol import CompletionUsage, HermesExtension
from hermes_gateway.gateway.web.sse import frame

SEPARATOR = "\n\n"
BEGINS_ANEW = f"{SEPARATOR}[The answer begins anew.]{SEPARATOR}"
"""Stands between text that turned out void and the text instead of it: what was streamed cannot be taken back."""
TOOL_EVENT = "hermes.tool.progress"


class AnswerText:
    """Decides which text to send next. Text comes in segments (a model call each); the last one should be the answer.

    A model call may begin again, after a crash or with another model. While it repeats what was sent, nothing is sent;
    then only what goes beyond; and when it says something else, a note and the whole new text.
    A lost delta leaves a segment that cannot be continued blindly: nothing more of it is sent until the stored answer says
    what it should have been.
    """

    def __init__(self) -> None:
        self._segment = ""
        """What was sent of the current segment."""
        self._repeated = ""
        """What a new attempt has said so far of a segment that an earlier one had begun."""
        self._anything = False
        self._attempt = 0
        self._sequence: int | None = None
        self._broken = False
        self._between = False

    def take(self, delta: Delta) -> str:
        """Return the text to send for a delta; often none."""
        if delta.attempt < self._attempt:
            return ""
        if delta.attempt > self._attempt:
            self._begin_attempt(delta.attempt)
        if self._sequence is None:
            self._broken = self._broken or delta.sequence > 1
        elif delta.sequence <= self._sequence:
            return ""
        elif delta.sequence > self._sequence + 1:
            self._broken = True
        self._sequence = delta.sequence
        if delta.kind == "tool_started":
            self._end_segment()
        elif delta.kind == "restart":
            self._repeated, self._broken = "", False
        if delta.kind != "text" or not delta.text or self._broken:
            return ""
        return self._say(delta.text)

    def finish(self, reply: str) -> str:
        """Return what is missing so that the text ends with the stored answer."""
        segment = "" if self._between else self._segment
        if reply.startswith(segment):
            missing = reply[len(segment) :]
            return self._joined(missing) if not segment else missing
        return SEPARATOR + reply

    def _begin_attempt(self, attempt: int) -> None:
        self._attempt, self._sequence, self._repeated, self._broken = attempt, None, "", False

    def _end_segment(self) -> None:
        self._between, self._broken, self._repeated = True, False, ""

    def _say(self, text: str) -> str:
        if self._between:
            self._segment, self._between = "", False
        self._repeated += text
        if self._segment.startswith(self._repeated):
            return ""
        if self._repeated.startswith(self._segment):
            new = self._repeated[len(self._segment) :]
            out = self._joined(new) if not self._segment else new
        else:
            out = BEGINS_ANEW + self._repeated
        self._segment, self._anything = self._repeated, True
        return out

    def _joined(self, text: str) -> str:
        return SEPARATOR + text if self._anything and text else text


@dataclass(frozen=True)
class Chunks:
    """Renders chunks of one completion."""

    id: str
    model: str
    created: int
    include_usage: bool

    def role(self) -> bytes:
        """First chunk."""
        return frame(self._chunk({"role": "assistant", "content": ""}, None))

    def text(self, text: str) -> bytes:
        """A piece of the answer."""
        return frame(self._chunk({"content": text}, None))

    def tool(self, delta: Delta) -> bytes:
        """A tool started or ended. A chunk with an empty delta, because OpenAI's clients read every event as one; the fields
        beside it are how the original's clients read this one."""
        began = delta.kind == "tool_started"
        tool, call_id = delta.tool[:200], delta.call_id[:200]
        progress = {"tool": tool, "call_id": call_id, "state": "started" if began else "finished"}
        known = {"tool": tool, "toolCallId": call_id, "status": "running" if began else "completed"}
        return frame({**self._chunk({}, None), **known, "hermes": {"tool": progress}}, event=TOOL_EVENT)

    def remark(self, delta: Delta) -> bytes:
        """A sentence on what goes on, or that the answer begins again: text that says nothing, and the rest beside it. No
        event of its own, because the original's clients give up at one that they do not know."""
        return frame({**self._chunk({"content": ""}, None), "hermes": {delta.kind: delta.text[:2000]}})

    def last(self, extension: HermesExtension, usage: Usage) -> list[bytes]:
        """The chunk that ends the answer, then the usage if it was asked for."""
        end = {**self._chunk({}, "stop"), "hermes": extension.model_dump()}
        spent = CompletionUsage.of(usage).model_dump()
        if not self.include_usage:
            return [frame({**end, "usage": spent})]
        counted = {**self._chunk({}, None), "choices": [], "usage": spent}
        return [frame(end), frame(counted)]

    def _chunk(self, delta: dict[str, str], finish: str | None) -> dict[str, object]:
        chunk: dict[str, object] = {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
        }
        if self.include_usage:
            chunk["usage"] = None
        return chunk
