"""The events of a streamed response, in the order that OpenAI's clients expect."""

from __future__ import annotations

from hermes_contracts.envelopes import Delta
from hermes_gateway.gateway.responses_api.protocol import OutputMessage, OutputText, ResponseObject
from hermes_gateway.gateway.responses_api.reading import message_item_id
from hermes_gateway.gateway.web.errors import ErrorDetail
from hermes_gateway.gateway.web.sse import frame


class ResponseEvents:
    """Renders one response's events. The pieces of text are what came, as it came; the events that end the text and the
    response hold the stored answer, which counts."""

    def __init__(self, response: str) -> None:
        self._item = message_item_id(response)
        self._sequence = -1
        self._begun = False

    def begin(self, response: ResponseObject) -> list[bytes]:
        """The response is there."""
        shown = response.model_dump()
        return [self._event(f"response.{step}", response=shown) for step in ("created", "in_progress")]

    def text(self, piece: str) -> list[bytes]:
        """A piece of the answer."""
        return [*self._open(), self._event("response.output_text.delta", **self._place(), delta=piece, logprobs=[])]

    def tool(self, delta: Delta) -> list[bytes]:
        """A tool started or ended."""
        state = "started" if delta.kind == "tool_started" else "finished"
        return self._beside({"tool": {"tool": delta.tool[:200], "call_id": delta.call_id[:200], "state": state}})

    def remark(self, delta: Delta) -> list[bytes]:
        """A sentence on what goes on, or that the answer begins again."""
        return self._beside({delta.kind: delta.text[:2000]})

    def complete(self, response: ResponseObject) -> list[bytes]:
        """The answer is whole: the text it has is the stored one."""
        message = response.output[0]
        part = message.content[0]
        return [
            *self._open(),
            self._event("response.output_text.done", **self._place(), text=part.text, logprobs=[]),
            self._event("response.content_part.done", **self._place(), part=part.model_dump()),
            self._event("response.output_item.done", output_index=0, item=message.model_dump()),
            self._event("response.completed", response=response.model_dump()),
        ]

    def fail(self, response: ResponseObject) -> list[bytes]:
        """The turn failed: the response says why."""
        return [self._event("response.failed", response=response.model_dump())]

    def error(self, detail: ErrorDetail) -> list[bytes]:
        """The stream ends here; the turn goes on."""
        return [self._event("error", code=detail.code, message=detail.message, param=detail.param)]

    def _beside(self, hermes: dict[str, object]) -> list[bytes]:
        # An event that says nothing, with ours in it: OpenAI's client for Node throws at types that it does not know.
        return [self._event("keepalive", hermes=hermes)]

    def _open(self) -> list[bytes]:
        if self._begun:
            return []
        self._begun = True
        message = OutputMessage(id=self._item, status="in_progress", content=[])
        return [
            self._event("response.output_item.added", output_index=0, item=message.model_dump()),
            self._event("response.content_part.added", **self._place(), part=OutputText(text="").model_dump()),
        ]

    def _place(self) -> dict[str, object]:
        return {"item_id": self._item, "output_index": 0, "content_index": 0}

    def _event(self, kind: str, **fields: object) -> bytes:
        self._sequence += 1
        return frame({"type": kind, "sequence_number": self._sequence, **fields}, event=kind)
