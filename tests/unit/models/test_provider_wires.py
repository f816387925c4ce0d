"""Neutral to wire and back, as pure functions: what the bytes are, and that they stay the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_contracts.conversation import Message, ReasoningPart, Role, TextPart, ToolCallPart, ToolResultPart, ToolSpec
from hermes_contracts.model_api import FinishReason, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from hermes_gateway.models.providers import anthropic_wire, openai_wire
from hermes_gateway.models.providers.anthropic_wire import EventReader
from hermes_gateway.models.providers.openai_wire import ChunkReader

TOOLS = (
    ToolSpec(name="z", description="last letter", parameters={"type": "object", "properties": {"b": {}, "a": {}}}),
    ToolSpec(name="a", description="first letter", parameters={"type": "object"}),
)
HISTORY = (
    Message.user("hi"),
    Message(
        role=Role.ASSISTANT,
        parts=(
            ReasoningPart(text="thought", signature="sig"),
            ReasoningPart(text="", signature="redacted:xyz"),
            ReasoningPart(text="unsigned"),
            TextPart(text="Let me see."),
            ToolCallPart(id="c1", name="z", arguments='{"b": 1,  "a": 2}'),
            ToolCallPart(id="c2", name="a", arguments="{broken"),
        ),
    ),
    Message(
        role=Role.TOOL,
        parts=(
            ToolResultPart(call_id="c1", name="z", text="one"),
            ToolResultPart(call_id="c2", name="a", text="not JSON", is_error=True),
        ),
    ),
    Message.user("and now?"),
)


def _request(*messages: Message, **fields: Any) -> ModelRequest:
    return ModelRequest(turn_id="t", step=2, system="Be brief.", messages=messages or HISTORY, tools=TOOLS, **fields)


def _count_marks(value: object) -> int:
    if isinstance(value, Mapping):
        return ("cache_control" in value) + sum(map(_count_marks, value.values()))
    return sum(map(_count_marks, value)) if isinstance(value, list) else 0


def test_openai_body() -> None:
    body = openai_wire.to_wire(_request(), "gpt", 100, own_endpoint=True)
    assert body["max_completion_tokens"] == 100 and body["stream_options"] == {"include_usage": True}
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "z", "arguments": '{"b": 1,  "a": 2}'}},
                {"id": "c2", "type": "function", "function": {"name": "a", "arguments": "{broken"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "not JSON"},
        {"role": "user", "content": "and now?"},
    ]
    assert "max_tokens" in openai_wire.to_wire(_request(), "gpt", 100, own_endpoint=False)
    assert not {"max_tokens", "max_completion_tokens"} & set(openai_wire.to_wire(_request(), "gpt", None, own_endpoint=True))


def test_anthropic_body() -> None:
    body = anthropic_wire.to_wire(_request(), "claude-sonnet-4-5", None)
    mark = {"type": "ephemeral"}
    assert body["max_tokens"] == 32_000
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": mark}]
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "thought", "signature": "sig"},
                {"type": "redacted_thinking", "data": "xyz"},
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "c1", "name": "z", "input": {"b": 1, "a": 2}},
                {"type": "tool_use", "id": "c2", "name": "a", "input": {"invalid_json": "{broken"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
                {
                    "type": "tool_result", "tool_use_id": "c2", "content": "not JSON", "is_error": True,
                    "cache_control": mark,
                },
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "and now?", "cache_control": mark}]},
    ]  # fmt: skip
    assert _count_marks(body) == 4


def test_anthropic_leaves_out_what_the_api_refuses() -> None:
    empty = Message(role=Role.ASSISTANT, parts=(TextPart(text=" \n"), ReasoningPart(text="unsigned")))
    body = anthropic_wire.to_wire(_request(Message.user("a"), empty, Message.user("b")), "claude-x", 5)
    assert [m["content"][0]["text"] for m in body["messages"]] == ["a", "b"]  # type: ignore[attr-defined]
    thinking = Message(role=Role.ASSISTANT, parts=(ReasoningPart(text="t", signature="s"),))
    body = anthropic_wire.to_wire(_request(Message.user("a"), thinking), "claude-x", 5)
    assert _count_marks(body["messages"]) == 1, "thinking takes no cache marker"


_TEXT = st.text(min_size=1, max_size=20)
_MESSAGES = st.lists(
    st.one_of(
        st.builds(Message.user, _TEXT),
        st.builds(Message.assistant, _TEXT),
        st.builds(
            lambda arguments, text: Message(
                role=Role.ASSISTANT, parts=(TextPart(text=text), ToolCallPart(id="c", name="z", arguments=arguments))
            ),
            _TEXT,
            _TEXT,
        ),
        st.builds(lambda text: Message(role=Role.TOOL, parts=(ToolResultPart(call_id="c", name="z", text=text),)), _TEXT),
    ),
    min_size=1,
    max_size=8,
)


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_marks(v) for k, v in value.items() if k != "cache_control"}
    return [_without_marks(v) for v in value] if isinstance(value, list) else value


@given(_MESSAGES, st.integers(0, 8))
def test_a_longer_conversation_starts_with_the_bytes_of_the_shorter(messages: list[Message], cut: int) -> None:
    short, long = _request(*messages[: max(cut, 1)]), _request(*messages)
    for convert in (
        lambda r: openai_wire.to_wire(r, "m", None, own_endpoint=False)["messages"],
        lambda r: _without_marks(anthropic_wire.to_wire(r, "m", None)["messages"]),
    ):
        start, whole = json.dumps(convert(short)), json.dumps(convert(long))
        assert whole.startswith(start[:-1])
        assert json.dumps(convert(long)) == whole


def _chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **fields}


def test_openai_chunks_of_compatible_servers() -> None:
    """No ids, no indexes, `reasoning` instead of `reasoning_content`, finish `stop` after calls, usage without details."""
    reader = ChunkReader("call_t_2")
    events = [
        *reader.read(_chunk({"reasoning": "hm"})),
        *reader.read(_chunk({"tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]})),
        *reader.read(_chunk({"tool_calls": [{"function": {"name": "b", "arguments": "{"}}]})),
        *reader.read(_chunk({"tool_calls": [{"function": {"arguments": "}"}}]})),
        *reader.read(_chunk(None, "stop")),
    ]
    assert events == [
        ReasoningDelta(text="hm"),
        ToolCallStart(index=0, id="call_t_2_0", name="a"),
        ToolCallDelta(index=0, arguments="{}"),
        ToolCallStart(index=1, id="call_t_2_1", name="b"),
        ToolCallDelta(index=1, arguments="{"),
        ToolCallDelta(index=1, arguments="}"),
    ]
    assert not reader.complete
    assert ChunkReader("c").finish() is None, "a stream that nobody finished is cut"
    reader.read({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
    assert reader.complete
    finish = reader.finish()
    assert finish is not None and finish.reason is FinishReason.TOOL_CALLS
    assert (finish.usage.input_tokens, finish.usage.output_tokens, finish.usage.model_calls) == (7, 3, 1)


def test_openai_refusal_and_usage_in_every_chunk() -> None:
    reader = ChunkReader("c")
    events = reader.read(_chunk({"refusal": "I cannot."}, usage={"prompt_tokens": 1, "completion_tokens": 1}))
    assert events == [TextDelta(text="I cannot.")] and not reader.complete
    reader.read(_chunk(None, "stop", usage={"prompt_tokens": 1, "completion_tokens": 2}))
    finish = reader.finish()
    assert finish is not None and finish.reason is FinishReason.REFUSED and finish.usage.output_tokens == 2


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": "x"},
        {"choices": [1]},
        _chunk({"content": 5}),
        _chunk({"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]}),
    ],
)
def test_openai_wrong_shapes_are_errors(chunk: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        ChunkReader("c").read(chunk)


def test_anthropic_events() -> None:
    reader = EventReader()
    usage = {"input_tokens": 5, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 25, "output_tokens": 1}
    stream: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "claude", "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "redacted_thinking", "data": "xyz"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        {"type": "something_new"},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "hi"}},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "t", "name": "z"}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ""}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
        {
            "type": "message_delta", "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 40, "output_tokens_details": {"thinking_tokens": 30}},
        },
    ]  # fmt: skip
    events = [ours for event in stream for ours in reader.read(event)]
    assert events == [
        ReasoningDelta(signature="redacted:xyz"),
        TextDelta(text="hi"),
        ToolCallStart(index=0, id="t", name="z"),
        ToolCallDelta(index=0, arguments="{}"),
    ]
    assert reader.finish() is None, "a message that has not stopped is cut"
    reader.read({"type": "message_stop"})
    finish = reader.finish()
    assert finish is not None and finish.reason is FinishReason.TOOL_CALLS
    assert finish.usage.model_dump() == {
        "input_tokens": 100, "output_tokens": 40, "cached_input_tokens": 70, "reasoning_tokens": 30, "model_calls": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    "event",
    [
        {"type": "message_start"},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 1}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "x"}},
    ],
)
def test_anthropic_wrong_shapes_are_errors(event: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        EventReader().read(event)
