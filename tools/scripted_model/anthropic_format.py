"""A step as Anthropic's Messages API sends it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from scripted_model.asked import Asked
from scripted_model.pieces import Piece, encode, numbers, pieces_of, token_id
from scripted_model.provider_errors import ProviderError, error_body
from scripted_model.script import Call, Step

_FINISH = {"stop": "end_turn", "length": "max_tokens", "refused": "refusal"}


def _stop_reason(step: Step) -> str:
    if step.finish is not None:
        return _FINISH[step.finish]
    return "tool_use" if step.calls else "end_turn"


def _usage(step: Step, asked: Asked, output: int) -> dict[str, object]:
    n = numbers(step, asked)
    return {
        "input_tokens": max(n.input - n.cached - n.cache_write, 0),
        "cache_creation_input_tokens": n.cache_write,
        "cache_read_input_tokens": n.cached,
        "output_tokens": output,
        "service_tier": "standard",
    }


def _signature(step: Step) -> str:
    return step.signature if step.signature is not None else hashlib.sha256(step.reason.encode()).hexdigest()


def _message(step: Step, asked: Asked) -> dict[str, object]:
    return {
        "id": token_id("msg_", asked), "type": "message", "role": "assistant", "model": asked.model, "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": _usage(step, asked, 1),
    }  # fmt: skip


def _event(kind: str, **fields: object) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + encode({"type": kind, **fields}) + b"\n\n"


def _opened(piece: Piece, asked: Asked) -> dict[str, object]:
    if piece.kind == "reason":
        return {"type": "thinking", "thinking": "", "signature": ""}
    if piece.kind == "text":
        return {"type": "text", "text": ""}
    call = piece.call or Call(name="none")
    return {"type": "tool_use", "id": call.id or token_id("toolu_", asked, piece.index), "name": call.name, "input": {}}


def _delta(piece: Piece) -> dict[str, object]:
    if piece.kind == "reason":
        return {"type": "thinking_delta", "thinking": piece.text}
    if piece.kind == "text":
        return {"type": "text_delta", "text": piece.text}
    return {"type": "input_json_delta", "partial_json": piece.text}


def _closing(step: Step, block: int, opened: str) -> Iterator[bytes]:
    if opened == "reason":
        delta = {"type": "signature_delta", "signature": _signature(step)}
        yield _event("content_block_delta", index=block, delta=delta)
    yield _event("content_block_stop", index=block)


def stream(step: Step, asked: Asked, error: ProviderError | None) -> Iterator[tuple[bytes, bool]]:
    """Yield the events of a streamed answer, and whether each is a piece that a pause may precede."""
    yield _event("message_start", message=_message(step, asked)), False
    block, opened = -1, ""
    for piece in pieces_of(step):
        kind = f"call{piece.index}" if piece.kind.startswith("call") else piece.kind
        if kind != opened:
            if opened:
                for data in _closing(step, block, opened):
                    yield data, False
            block, opened = block + 1, kind
            yield _event("content_block_start", index=block, content_block=_opened(piece, asked)), False
            if block == 0:
                yield _event("ping"), False
        yield _event("content_block_delta", index=block, delta=_delta(piece)), True
    if error is not None:
        yield _event("error", error=error_body(error, "anthropic", "")["error"]), False
        return
    if opened:
        for data in _closing(step, block, opened):
            yield data, False
    usage = {"output_tokens": numbers(step, asked).output}
    delta = {"stop_reason": _stop_reason(step), "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage=usage), False
    yield _event("message_stop"), False


def whole(step: Step, asked: Asked) -> bytes:
    """Return the body of an answer that is not streamed."""
    content: list[dict[str, object]] = []
    if step.reason:
        content.append({"type": "thinking", "thinking": step.reason, "signature": _signature(step)})
    if step.say:
        content.append({"type": "text", "text": step.say * step.repeat})
    for index, call in enumerate(step.calls):
        identity = call.id or token_id("toolu_", asked, index)
        content.append({"type": "tool_use", "id": identity, "name": call.name, "input": call.value()})
    body = {**_message(step, asked), "content": content, "stop_reason": _stop_reason(step)}
    body["usage"] = _usage(step, asked, numbers(step, asked).output)
    return json.dumps(body, ensure_ascii=False).encode()
