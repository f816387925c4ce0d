"""One answer in each provider's public wire format, written by hand: a thought, a text, two calls, numbers.

Nothing here comes from the scripted model, so that the two cannot agree on a mistake.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from typing import Any
from zlib import crc32

from hermes_contracts.providers import ApiMode

THOUGHT, TEXT = "Hm…", "Grüße 🙂"
CALLS = [("ls", '{"path": "ü"}'), ("cat", '{"n": 1}')]
SECRET_THOUGHT = b64encode(b"opaque").decode()


def _sse(*events: dict[str, Any], named: bool) -> bytes:
    lines = []
    for event in events:
        name = f"event: {event['type']}\n" if named else ""
        lines.append(f"{name}data: {json.dumps(event, ensure_ascii=False)}\n\n")
    return "".join(lines).encode()


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt-5", "choices": [choice], "usage": None}


def _call(index: int, arguments: str, **fields: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": fields.pop("name")} if "name" in fields else {})}
    return _chunk({"tool_calls": [{"index": index, **fields, "function": function}]})


def chat() -> bytes:
    usage = {
        "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens_details": {"reasoning_tokens": 8},
    }  # fmt: skip
    body = _sse(
        _chunk({"role": "assistant", "content": ""}),
        _chunk({"reasoning_content": THOUGHT}),
        _chunk({"content": TEXT}),
        _call(0, "", id="call_1", type="function", name="ls"),
        _call(0, '{"path": '),
        _call(1, '{"n"', id="call_2", type="function", name="cat"),
        _call(0, '"ü"}'),
        _call(1, ": 1}"),
        _chunk({}, "tool_calls"),
        {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt-5", "choices": [], "usage": usage},
        named=False,
    )
    return body + b"data: [DONE]\n\n"


def responses() -> bytes:
    def call(at: int, name: str, arguments: str, status: str) -> dict[str, Any]:
        return {
            "id": f"fc_{at}", "type": "function_call", "status": status, "call_id": f"call_{at}", "name": name,
            "arguments": arguments,
        }  # fmt: skip

    thought = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}]}
    usage = {
        "input_tokens": 100, "input_tokens_details": {"cached_tokens": 60}, "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 8}, "total_tokens": 120,
    }  # fmt: skip
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "error": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**thought, "summary": []}},
        {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0, "part": {"text": ""}},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": THOUGHT},
        {
            "type": "response.output_item.done", "output_index": 0,
            "item": {**thought, "encrypted_content": SECRET_THOUGHT},
        },
        {"type": "response.output_item.added", "output_index": 1, "item": {"id": "msg_1", "type": "message", "content": []}},
        {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": TEXT},
        {"type": "response.output_text.done", "output_index": 1, "content_index": 0, "text": TEXT},
        {"type": "response.output_item.added", "output_index": 2, "item": call(2, "ls", "", "in_progress")},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "item_id": "fc_2", "delta": '{"path": '},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "item_id": "fc_2", "delta": '"ü"}'},
        {"type": "response.output_item.done", "output_index": 2, "item": call(2, "ls", '{"path": "ü"}', "completed")},
        {"type": "response.output_item.done", "output_index": 3, "item": call(3, "cat", '{"n": 1}', "completed")},
        {
            "type": "response.completed",
            "response": {"id": "resp_1", "status": "completed", "model": "gpt-5", "error": None, "usage": usage},
        },
    ]  # fmt: skip
    return _sse(*[{**event, "sequence_number": n} for n, event in enumerate(events)], named=True)


def anthropic() -> bytes:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30, "output_tokens": 1}

    def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"type": "content_block_start", "index": index, "content_block": start},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": index},
        ]

    def piece(text: str) -> dict[str, Any]:
        return {"type": "input_json_delta", "partial_json": text}

    return _sse(
        {"type": "message_start", "message": {"id": "msg_1", "model": "claude-sonnet-4-5", "content": [], "usage": usage}},
        {"type": "ping"},
        *block(
            0, {"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": THOUGHT},
            {"type": "signature_delta", "signature": "si"}, {"type": "signature_delta", "signature": "gned"},
        ),
        *block(1, {"type": "redacted_thinking", "data": SECRET_THOUGHT}),
        *block(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": TEXT}),
        *block(
            3, {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {}}, piece(""), piece('{"path": '), piece('"ü"}')
        ),
        *block(4, {"type": "tool_use", "id": "toolu_2", "name": "cat", "input": {}}, piece('{"n": 1}')),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}},
        {"type": "message_stop"},
        named=True,
    )  # fmt: skip


def frame(payload: bytes, **headers: str) -> bytes:
    """Return a message of AWS' event stream. Header names get their colon and dashes here."""
    head = b""
    for name, value in headers.items():
        key = b":" + name.replace("_", "-").encode()
        head += bytes([len(key)]) + key + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    start = struct.pack(">II", len(head) + len(payload) + 16, len(head))
    start += struct.pack(">I", crc32(start))
    return start + head + payload + struct.pack(">I", crc32(start + head + payload))


def converse_event(kind: str, value: dict[str, Any]) -> bytes:
    payload = json.dumps(value, ensure_ascii=False).encode()
    return frame(payload, event_type=kind, content_type="application/json", message_type="event")


def bedrock() -> bytes:
    def delta(index: int, value: dict[str, Any]) -> bytes:
        return converse_event("contentBlockDelta", {"contentBlockIndex": index, "delta": value})

    def start(index: int, identity: str, name: str) -> bytes:
        use = {"toolUse": {"toolUseId": identity, "name": name}}
        return converse_event("contentBlockStart", {"contentBlockIndex": index, "start": use})

    def stop(index: int) -> bytes:
        return converse_event("contentBlockStop", {"contentBlockIndex": index})

    usage = {
        "inputTokens": 10, "outputTokens": 20, "totalTokens": 120, "cacheReadInputTokens": 60, "cacheWriteInputTokens": 30
    }  # fmt: skip
    return b"".join((
        converse_event("messageStart", {"role": "assistant"}),
        delta(0, {"reasoningContent": {"text": THOUGHT}}), delta(0, {"reasoningContent": {"signature": "signed"}}), stop(0),
        delta(1, {"reasoningContent": {"redactedContent": SECRET_THOUGHT}}), stop(1),
        delta(2, {"text": TEXT}), stop(2),
        start(3, "tooluse_1", "ls"), delta(3, {"toolUse": {"input": '{"path": '}}), delta(3, {"toolUse": {"input": '"ü"}'}}),
        stop(3),
        start(4, "tooluse_2", "cat"), delta(4, {"toolUse": {"input": '{"n": 1}'}}), stop(4),
        converse_event("messageStop", {"stopReason": "tool_use"}),
        converse_event("metadata", {"usage": usage, "metrics": {"latencyMs": 3}}),
    ))  # fmt: skip


def _short_chat() -> bytes:
    start = {"index": 0, "id": "call_1", "function": {"name": "ls", "arguments": '{"path": '}}
    more = {"index": 0, "function": {"arguments": '"ü"}'}}
    return (
        _sse(
            {"choices": [{"delta": {"content": TEXT}}]},
            {"choices": [{"delta": {"tool_calls": [start]}}]},
            {"choices": [{"delta": {"tool_calls": [more]}}]},
            {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
            {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 20}},
            named=False,
        )
        + b"data: [DONE]\n\n"
    )


def _short_responses() -> bytes:
    call = {"type": "function_call", "call_id": "call_2", "name": "ls", "arguments": ""}
    usage = {"input_tokens": 100, "output_tokens": 20}
    return _sse(
        {"type": "response.output_text.delta", "output_index": 0, "delta": TEXT},
        {"type": "response.output_item.added", "output_index": 1, "item": call},
        {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '{"path": '},
        {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '"ü"}'},
        {"type": "response.completed", "response": {"status": "completed", "model": "gpt-5", "usage": usage}},
        named=True,
    )


def _short_anthropic() -> bytes:
    call = {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {}}
    return _sse(
        {"type": "message_start", "message": {"model": "claude", "usage": {"input_tokens": 100}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}},
        {"type": "content_block_start", "index": 1, "content_block": call},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"path": '}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '"ü"}'}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}},
        {"type": "message_stop"},
        named=True,
    )


def _short_bedrock() -> bytes:
    use = {"toolUse": {"toolUseId": "tooluse_1", "name": "ls"}}
    usage = {"inputTokens": 100, "outputTokens": 20}
    return b"".join((
        converse_event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": TEXT}}),
        converse_event("contentBlockStart", {"contentBlockIndex": 1, "start": use}),
        converse_event("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '{"path": '}}}),
        converse_event("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '"ü"}'}}}),
        converse_event("messageStop", {"stopReason": "tool_use"}),
        converse_event("metadata", {"usage": usage}),
    ))  # fmt: skip


SHORT: dict[ApiMode, bytes] = {
    "chat_completions": _short_chat(), "responses": _short_responses(), "anthropic_messages": _short_anthropic(),
    "bedrock_converse": _short_bedrock(),
}  # fmt: skip
"""The text, the first call and the numbers, with nothing that a provider may leave out."""
ANSWERS: dict[ApiMode, bytes] = {
    "chat_completions": chat(), "responses": responses(), "anthropic_messages": anthropic(), "bedrock_converse": bedrock()
}  # fmt: skip
CONTENT_TYPES: dict[ApiMode, str] = {
    "chat_completions": "text/event-stream", "responses": "text/event-stream", "anthropic_messages": "text/event-stream",
    "bedrock_converse": "application/vnd.amazon.eventstream",
}  # fmt: skip
