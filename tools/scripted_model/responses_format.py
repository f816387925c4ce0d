"""A step as OpenAI's Responses API sends it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import groupby

from scripted_model.asked import Asked
from scripted_model.pieces import Piece, encode, numbers, pieces_of, token_id
from scripted_model.provider_errors import ProviderError
from scripted_model.script import Call, Step

_CREATED = 1_700_000_000
_INCOMPLETE = {"length": "max_output_tokens", "refused": "content_filter"}
Json = dict[str, object]


def _usage(step: Step, asked: Asked) -> Json:
    n = numbers(step, asked)
    return {
        "input_tokens": n.input,
        "input_tokens_details": {"cached_tokens": n.cached},
        "output_tokens": n.output,
        "output_tokens_details": {"reasoning_tokens": n.reasoning},
        "total_tokens": n.input + n.output,
    }


def _response(asked: Asked, status: str, **fields: object) -> Json:
    return {
        "id": token_id("resp_", asked), "object": "response", "created_at": _CREATED, "status": status, "error": None,
        "incomplete_details": None, "model": asked.model, "output": [], "store": False, "usage": None, **fields,
    }  # fmt: skip


def _ended(step: Step, asked: Asked) -> Json:
    output = [_item(list(pieces), asked, step) for _, pieces in groupby(pieces_of(step), _item_of)]
    if step.finish in _INCOMPLETE:
        why = {"reason": _INCOMPLETE[step.finish or ""]}
        return _response(asked, "incomplete", incomplete_details=why, output=output, usage=_usage(step, asked))
    return _response(asked, "completed", output=output, usage=_usage(step, asked))


def _item_of(piece: Piece) -> str:
    return f"call{piece.index}" if piece.kind.startswith("call") else piece.kind


def _item(pieces: list[Piece], asked: Asked, step: Step) -> Json:
    """Return an item as it is when it is done."""
    first, text = pieces[0], "".join(piece.text for piece in pieces)
    if first.kind == "reason":
        encrypted = step.signature if step.signature is not None else hashlib.sha256(step.reason.encode()).hexdigest()
        summary = [{"type": "summary_text", "text": text}]
        return {"id": token_id("rs_", asked), "type": "reasoning", "summary": summary, "encrypted_content": encrypted}
    if first.kind == "text":
        content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
        return {
            "id": token_id("msg_", asked), "type": "message", "status": "completed", "role": "assistant", "content": content
        }  # fmt: skip
    call = first.call or Call(name="none")
    return {
        "id": token_id("fc_", asked, first.index), "type": "function_call", "status": "completed", "name": call.name,
        "call_id": call.id or token_id("call_", asked, first.index), "arguments": text,
    }  # fmt: skip


def _begun(item: Json) -> Json:
    match item["type"]:
        case "reasoning":
            return {**item, "summary": [], "encrypted_content": None}
        case "message":
            return {**item, "status": "in_progress", "content": []}
    return {**item, "status": "in_progress", "arguments": ""}


_DELTA: dict[str, tuple[str, Json]] = {
    "reasoning": ("response.reasoning_summary_text", {"summary_index": 0}),
    "message": ("response.output_text", {"content_index": 0, "logprobs": []}),
    "function_call": ("response.function_call_arguments", {}),
}


class _Events:
    """Numbers events, as the API does."""

    def __init__(self) -> None:
        self._number = -1

    def __call__(self, kind: str, **fields: object) -> bytes:
        self._number += 1
        data = encode({"type": kind, "sequence_number": self._number, **fields})
        return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


def stream(step: Step, asked: Asked, error: ProviderError | None) -> Iterator[tuple[bytes, bool]]:
    """Yield the events of a streamed answer, and whether each is a piece that a pause may precede."""
    event = _Events()
    yield event("response.created", response=_response(asked, "in_progress")), False
    yield event("response.in_progress", response=_response(asked, "in_progress")), False
    for at, (_, grouped) in enumerate(groupby(pieces_of(step), _item_of)):
        pieces = list(grouped)
        item = _item(pieces, asked, step)
        name, extra = _DELTA[str(item["type"])]
        where = {"output_index": at, "item_id": item["id"], **extra}
        yield event("response.output_item.added", output_index=at, item=_begun(item)), False
        if item["type"] == "reasoning":
            part = {"type": "summary_text", "text": ""}
            yield event("response.reasoning_summary_part.added", **where, part=part), False
        for piece in pieces:
            if piece.text:
                yield event(f"{name}.delta", **where, delta=piece.text), True
        if error is None:
            yield event("response.output_item.done", output_index=at, item=item), False
    if error is not None:
        told = {"code": error.code or error.type, "message": error.message}
        yield event("response.failed", response=_response(asked, "failed", error=told)), False
        return
    ended = _ended(step, asked)
    yield event(f"response.{ended['status']}", response=ended), False


def whole(step: Step, asked: Asked) -> bytes:
    """Return the body of an answer that is not streamed."""
    return json.dumps(_ended(step, asked), ensure_ascii=False).encode()
