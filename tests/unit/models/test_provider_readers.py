"""Streams to neutral events: what compatible servers do differently, and what is no answer at all."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_contracts.model_api import FinishReason, ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from hermes_gateway.models.providers.anthropic_reader import EventReader
from hermes_gateway.models.providers.bedrock_reader import ConverseReader
from hermes_gateway.models.providers.chat_reader import ChunkReader, parse_usage
from hermes_gateway.models.providers.errors import ProviderError, Reason
from hermes_gateway.models.providers.responses_reader import ResponsesReader


def _chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **fields}


def test_chunks_of_compatible_servers() -> None:
    """No ids, no indexes, `reasoning` instead of `reasoning_content`, finish `stop` after calls, usage without details."""
    reader = ChunkReader("call_t_2", "o")
    events = [
        *reader.read(_chunk({"reasoning": "hm"})),
        *reader.read(_chunk({"tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]})),
        *reader.read(_chunk({"tool_calls": [{"function": {"name": "b", "arguments": "{"}}]})),
        *reader.read(_chunk({"tool_calls": [{"function": {"arguments": "}"}}]})),
        *reader.read(_chunk(None, "stop")),
    ]
    assert events == [
        ReasoningDelta(text="hm", origin="o"),
        ToolCallStart(index=0, id="call_t_2_0", name="a"),
        ToolCallDelta(index=0, arguments="{}"),
        ToolCallStart(index=1, id="call_t_2_1", name="b"),
        ToolCallDelta(index=1, arguments="{"),
        ToolCallDelta(index=1, arguments="}"),
    ]
    assert not reader.complete
    assert ChunkReader("c", "o").finish() is None, "a stream that nobody finished is cut"
    reader.read({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
    assert reader.complete
    finish = reader.finish()
    assert finish is not None and finish.reason is FinishReason.TOOL_CALLS
    assert (finish.usage.input_tokens, finish.usage.output_tokens, finish.usage.model_calls) == (7, 3, 1)


def test_chat_refusal_and_usage_in_every_chunk() -> None:
    reader = ChunkReader("c", "o")
    events = reader.read(_chunk({"refusal": "I cannot."}, usage={"prompt_tokens": 1, "completion_tokens": 1}))
    assert events == [TextDelta(text="I cannot.")] and not reader.complete
    reader.read(_chunk(None, "stop", usage={"prompt_tokens": 1, "completion_tokens": 2}))
    finish = reader.finish()
    assert finish is not None and finish.reason is FinishReason.REFUSED and finish.usage.output_tokens == 2


def test_chat_signatures_and_numbers_of_other_hosts() -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}
    extra = {"extra_content": {"google": {"thought_signature": "sig"}}}
    events = ChunkReader("c", "o").read(_chunk({"tool_calls": [{**call, **extra}]}))
    assert events[1] == ReasoningDelta(data="sig", item_id="c1", origin="o")
    assert parse_usage({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}).cached_input_tokens == 4
    assert parse_usage("nonsense").input_tokens == 0 and parse_usage({"prompt_tokens": -5}).input_tokens == 0


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": "x"},
        {"choices": [1]},
        _chunk({"content": 5}),
        _chunk({"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]}),
    ],
)
def test_wrong_chunks_are_errors(chunk: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        ChunkReader("c", "o").read(chunk)


def test_a_responses_answer_that_comes_whole_instead_of_in_pieces() -> None:
    reader = ResponsesReader("o")
    message = {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'}
    events = [
        *reader.read({"type": "response.output_item.done", "output_index": 0, "item": message}),
        *reader.read({"type": "response.output_item.added", "output_index": 1, "item": {**call, "arguments": ""}}),
        *reader.read({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '{"a"'}),
        *reader.read({"type": "response.output_item.done", "output_index": 1, "item": call}),
        *reader.read({"type": "response.something.new"}),
    ]
    assert events == [
        TextDelta(text="hi"),
        ToolCallStart(index=0, id="c1", name="f"),
        ToolCallDelta(index=0, arguments='{"a"'),
        ToolCallDelta(index=0, arguments=": 1}"),
    ]
    assert reader.finish() is None and not reader.complete
    why = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    reader.read({"type": "response.incomplete", "response": why})
    finish = reader.finish()
    assert reader.complete and finish is not None and finish.reason is FinishReason.LENGTH


def test_parts_of_a_summary_are_kept_apart() -> None:
    reader = ResponsesReader("o")
    added = {"type": "response.reasoning_summary_part.added", "output_index": 0}
    delta = {"type": "response.reasoning_summary_text.delta", "output_index": 0}
    events = [event for _ in range(2) for told in (added, {**delta, "delta": "x"}) for event in reader.read(told)]
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == "x\n\nx"


def test_a_failed_response_says_why() -> None:
    failed = {"error": {"code": "rate_limit_exceeded", "message": "Please try again in 2s."}}
    with pytest.raises(ProviderError) as caught:
        ResponsesReader("o").read({"type": "response.failed", "response": failed})
    assert caught.value.reason is Reason.RATE_LIMIT and caught.value.retry_after_seconds == 2
    with pytest.raises(ProviderError) as caught:
        ResponsesReader("o").read({"type": "response.failed", "response": {}})
    assert caught.value.reason is Reason.SERVER_ERROR


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.output_text.delta", "delta": "x"},
        {"type": "response.output_text.delta", "output_index": 0, "delta": 5},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{"},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call"}},
        {"type": "response.completed", "response": "x"},
    ],
)
def test_wrong_responses_events_are_errors(event: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        ResponsesReader("o").read(event)


def test_anthropic_usage_of_the_last_event_wins_and_new_kinds_are_no_error() -> None:
    reader = EventReader("o")
    usage = {"input_tokens": 5, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 25, "output_tokens": 1}
    stream: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "claude", "usage": usage}},
        {"type": "something_new"},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "early"}},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "server_tool_use", "id": "s"}},
        {"type": "content_block_stop", "index": 2},
        {
            "type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 40, "input_tokens": None, "output_tokens_details": {"thinking_tokens": 30}},
        },
    ]  # fmt: skip
    assert [ours for event in stream for ours in reader.read(event)] == [TextDelta(text="early")]
    assert reader.finish() is None, "a message that has not stopped is cut"
    reader.read({"type": "message_stop"})
    finish = reader.finish()
    assert finish is not None and finish.reason is FinishReason.STOP
    assert (finish.usage.input_tokens, finish.usage.output_tokens) == (100, 40)
    assert (finish.usage.cached_input_tokens, finish.usage.cache_write_tokens, finish.usage.reasoning_tokens) == (70, 25, 30)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "message_start"},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 1}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "x"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": ""}},
    ],
)
def test_wrong_anthropic_events_are_errors(event: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        EventReader("o").read(event)


def test_converse_needs_its_numbers_to_be_whole() -> None:
    reader = ConverseReader("m", "o")
    reader.read({"messageStop": {"stopReason": "guardrail_intervened"}})
    assert reader.finish() is None and not reader.complete
    assert reader.read({"somethingNew": {"x": 1}}) == []
    reader.read({"metadata": {"usage": {"inputTokens": 1, "outputTokens": 2}}})
    finish = reader.finish()
    assert reader.complete and finish is not None
    assert finish.reason is FinishReason.REFUSED and finish.model == "m" and finish.usage.input_tokens == 1


@pytest.mark.parametrize(
    "event",
    [
        {"contentBlockDelta": 5},
        {"contentBlockDelta": {"delta": {"text": "x"}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": 5}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": "{"}}}},
        {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": {"name": "x"}}}},
    ],
)
def test_wrong_converse_events_are_errors(event: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        ConverseReader("m", "o").read(event)
