"""A step as OpenAI's Chat Completions sends it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from scripted_model.asked import Asked
from scripted_model.pieces import Piece, encode, numbers, pieces_of, token_id
from scripted_model.provider_errors import ProviderError, error_body
from scripted_model.script import Step

DONE = b"data: [DONE]\n\n"
_CREATED = 1_700_000_000
_FINISH = {"stop": "stop", "length": "length", "refused": "content_filter"}


def _finish(step: Step) -> str:
    if step.finish is not None:
        return _FINISH[step.finish]
    return "tool_calls" if step.calls else "stop"


def _usage(step: Step, asked: Asked) -> dict[str, object]:
    n = numbers(step, asked)
    return {
        "prompt_tokens": n.input,
        "completion_tokens": n.output,
        "total_tokens": n.input + n.output,
        "prompt_tokens_details": {"cached_tokens": n.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": n.reasoning, "audio_tokens": 0, "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }  # fmt: skip


def _head(asked: Asked, kind: str) -> dict[str, object]:
    return {
        "id": token_id("chatcmpl-", asked),
        "object": kind,
        "created": _CREATED,
        "model": asked.model,
        "service_tier": "default",
        "system_fingerprint": "fp_scripted",
    }


def _delta(piece: Piece, asked: Asked) -> dict[str, object]:
    if piece.kind == "text":
        return {"content": piece.text}
    if piece.kind == "reason":
        return {"reasoning_content": piece.text}
    if piece.kind == "call_start" and piece.call is not None:
        function = {"name": piece.call.name, "arguments": ""}
        identity = piece.call.id or token_id("call_", asked, piece.index)
        return {"tool_calls": [{"index": piece.index, "id": identity, "type": "function", "function": function}]}
    return {"tool_calls": [{"index": piece.index, "function": {"arguments": piece.text}}]}


def stream(step: Step, asked: Asked, error: ProviderError | None) -> Iterator[tuple[bytes, bool]]:
    """Yield the events of a streamed answer, and whether each is a piece that a pause may precede."""
    start = encode(_head(asked, "chat.completion.chunk"))[:-1]
    tail = b',"usage":null}\n\n' if asked.include_usage else b"}\n\n"

    def event(delta: dict[str, object], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return b"data: " + start + b',"choices":[' + encode(choice) + b"]" + tail

    yield event({"role": "assistant", "content": "", "refusal": None}), False
    for piece in pieces_of(step):
        yield event(_delta(piece, asked)), True
    if error is not None:
        yield b"data: " + encode(error_body(error, "openai", "")) + b"\n\n", False
        return
    yield event({}, _finish(step)), False
    if asked.include_usage:
        yield b"data: " + start + b',"choices":[],"usage":' + encode(_usage(step, asked)) + b"}\n\n", False
    yield DONE, False


def whole(step: Step, asked: Asked) -> bytes:
    """Return the body of an answer that is not streamed."""
    message: dict[str, object] = {"role": "assistant", "content": step.say * step.repeat or None, "refusal": None}
    if step.reason:
        message["reasoning_content"] = step.reason
    if step.calls:
        message["tool_calls"] = [
            {
                "id": call.id or token_id("call_", asked, index),
                "type": "function",
                "function": {"name": call.name, "arguments": call.text()},
            }
            for index, call in enumerate(step.calls)
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(step)}
    body = {**_head(asked, "chat.completion"), "choices": [choice], "usage": _usage(step, asked)}
    return json.dumps(body, ensure_ascii=False).encode()
