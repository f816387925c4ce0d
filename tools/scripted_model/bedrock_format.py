"""A step as Amazon Bedrock's Converse sends it: frames of AWS' event stream, checksums and all."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from zlib import crc32

from scripted_model.asked import Asked
from scripted_model.pieces import Piece, encode, numbers, pieces_of, token_id
from scripted_model.provider_errors import ProviderError
from scripted_model.script import Call, Step

CONTENT_TYPE = "application/vnd.amazon.eventstream"
_FINISH = {"stop": "end_turn", "length": "max_tokens", "refused": "content_filtered"}
_STRING = 7


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one message: lengths, their checksum, headers, payload, checksum of everything."""
    head = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", _STRING, len(value.encode())) + value.encode()
        for name, value in headers.items()
    )
    lengths = struct.pack("!II", 12 + len(head) + len(payload) + 4, len(head))
    message = lengths + struct.pack("!I", crc32(lengths)) + head + payload
    return message + struct.pack("!I", crc32(message))


def _event(kind: str, value: object) -> bytes:
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, encode(value))


def broken_event() -> bytes:
    """Return a frame whose last checksum is wrong."""
    good = _event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "broken"}})
    return good[:-1] + bytes([good[-1] ^ 1])


def _stop_reason(step: Step) -> str:
    if step.finish is not None:
        return _FINISH[step.finish]
    return "tool_use" if step.calls else "end_turn"


def _usage(step: Step, asked: Asked) -> dict[str, object]:
    n = numbers(step, asked)
    return {
        "inputTokens": max(n.input - n.cached - n.cache_write, 0),
        "outputTokens": n.output,
        "totalTokens": n.input + n.output,
        "cacheReadInputTokens": n.cached,
        "cacheWriteInputTokens": n.cache_write,
    }


def _signature(step: Step) -> str:
    return step.signature if step.signature is not None else hashlib.sha256(step.reason.encode()).hexdigest()


def _delta(piece: Piece) -> dict[str, object]:
    if piece.kind == "reason":
        return {"reasoningContent": {"text": piece.text}}
    return {"text": piece.text} if piece.kind == "text" else {"toolUse": {"input": piece.text}}


def _closing(step: Step, block: int, opened: str) -> Iterator[bytes]:
    if opened == "reason":
        delta = {"reasoningContent": {"signature": _signature(step)}}
        yield _event("contentBlockDelta", {"contentBlockIndex": block, "delta": delta})
    yield _event("contentBlockStop", {"contentBlockIndex": block})


def stream(step: Step, asked: Asked, error: ProviderError | None) -> Iterator[tuple[bytes, bool]]:
    """Yield the events of a streamed answer, and whether each is a piece that a pause may precede."""
    yield _event("messageStart", {"role": "assistant"}), False
    block, opened = -1, ""
    for piece in pieces_of(step):
        kind = f"call{piece.index}" if piece.kind.startswith("call") else piece.kind
        if kind != opened:
            if opened:
                for data in _closing(step, block, opened):
                    yield data, False
            block, opened = block + 1, kind
        if piece.kind == "call_start":
            call = piece.call or Call(name="none")
            use = {"toolUseId": call.id or token_id("tooluse_", asked, piece.index), "name": call.name}
            yield _event("contentBlockStart", {"contentBlockIndex": block, "start": {"toolUse": use}}), True
        else:
            yield _event("contentBlockDelta", {"contentBlockIndex": block, "delta": _delta(piece)}), True
    if error is not None:
        kind = error.type[0].lower() + error.type[1:]
        headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
        yield frame(headers, encode({"message": error.message})), False
        return
    if opened:
        for data in _closing(step, block, opened):
            yield data, False
    yield _event("messageStop", {"stopReason": _stop_reason(step)}), False
    yield _event("metadata", {"usage": _usage(step, asked), "metrics": {"latencyMs": 1}}), False


def whole(step: Step, asked: Asked) -> bytes:
    """Return the body of an answer that is not streamed."""
    content: list[dict[str, object]] = []
    if step.reason:
        content.append({"reasoningContent": {"reasoningText": {"text": step.reason, "signature": _signature(step)}}})
    if step.say:
        content.append({"text": step.say * step.repeat})
    for index, call in enumerate(step.calls):
        identity = call.id or token_id("tooluse_", asked, index)
        content.append({"toolUse": {"toolUseId": identity, "name": call.name, "input": call.value()}})
    body = {
        "output": {"message": {"role": "assistant", "content": content}}, "stopReason": _stop_reason(step),
        "usage": _usage(step, asked), "metrics": {"latencyMs": 1},
    }  # fmt: skip
    return json.dumps(body, ensure_ascii=False).encode()
