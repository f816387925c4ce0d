"""Neutral to wire as pure functions: what the bytes are, that they stay the same, and that a conversation only grows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hermes_contracts.conversation import (
    ImagePart,
    Message,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
)
from hermes_contracts.model_api import ModelRequest
from hermes_contracts.providers import ApiMode
from hermes_gateway.models.providers import anthropic_wire, bedrock_wire, chat_wire, responses_wire
from hermes_gateway.models.target import ApiKey, KnownModel, Medium, Target

KNOWN = KnownModel(context_window=200_000, max_output_tokens=32_000, vision=True, reasoning=True, prompt_cache=True)
WIRES: Mapping[ApiMode, Callable[[ModelRequest, Target, Mapping[str, Medium]], dict[str, Any]]] = {
    "chat_completions": chat_wire.to_wire,
    "responses": responses_wire.to_wire,
    "anthropic_messages": anthropic_wire.to_wire,
    "bedrock_converse": bedrock_wire.to_wire,
}
TOOLS = (
    ToolSpec(name="z", description="last letter", parameters={"type": "object", "properties": {"b": {}, "a": {}}}),
    ToolSpec(name="a", description="first letter", parameters={"type": "object"}),
)
HISTORY = (
    Message.user("hi"),
    Message(
        role=Role.ASSISTANT,
        parts=(
            ReasoningPart(text="thought", signature="sig", origin="anthropic_messages/claude-sonnet-4-5"),
            ReasoningPart(text="", data="xyz", origin="anthropic_messages/claude-sonnet-4-5"),
            ReasoningPart(text="unsigned", origin="anthropic_messages/claude-sonnet-4-5"),
            ReasoningPart(text="foreign", signature="sig", origin="anthropic_messages/another"),
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
    values: dict[str, Any] = {"turn_id": "t", "step": 2, "system": "Be brief.", "tools": TOOLS, **fields}
    return ModelRequest(messages=messages or HISTORY, **values)


def _target(mode: ApiMode, **changes: Any) -> Target:
    model = "claude-sonnet-4-5" if mode in ("anthropic_messages", "bedrock_converse") else "gpt"
    return replace(Target("p", mode, model, "https://api.example.com", ApiKey("k"), KNOWN), **changes)


def _body(mode: ApiMode, request: ModelRequest, **changes: Any) -> dict[str, Any]:
    return WIRES[mode](request, _target(mode, **changes), {})


def _count_marks(value: object) -> int:
    if isinstance(value, Mapping):
        return ("cache_control" in value) + ("cachePoint" in value) + sum(map(_count_marks, value.values()))
    return sum(map(_count_marks, value)) if isinstance(value, list) else 0


def test_chat_completions_body() -> None:
    body = _body("chat_completions", _request(max_output_tokens=100))
    assert body["max_tokens"] == 100 and body["stream_options"] == {"include_usage": True}
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
    assert "max_tokens" not in _body("chat_completions", _request())
    own = _body("chat_completions", _request(conversation="c"), base_url="https://api.openai.com/v1", max_output_tokens=7)
    assert own["max_completion_tokens"] == 7 and own["prompt_cache_key"] == "c"


@pytest.mark.parametrize(
    ("host", "effort", "fields"),
    [
        ("api.example.com", "High", {"reasoning_effort": "high"}),
        ("api.openai.com", "XHigh", {"reasoning_effort": "xhigh"}),
        ("api.openai.com", "None", {"reasoning_effort": "none"}),
        ("openrouter.ai", "Low", {"reasoning": {"effort": "low"}}),
        ("openrouter.ai", "None", {"reasoning": {"enabled": False}}),
        ("api.deepseek.com", "Medium", {"thinking": {"type": "enabled"}}),
        ("api.deepseek.com", "None", {"thinking": {"type": "disabled"}}),
        ("api.example.com", "Default", {}),
    ],
)
def test_chat_completions_effort_by_host(host: str, effort: str, fields: dict[str, Any]) -> None:
    body = _body("chat_completions", _request(), base_url=f"https://{host}/v1", effort=effort)
    assert {k: v for k, v in body.items() if k in ("reasoning", "reasoning_effort", "thinking")} == fields
    known = replace(KNOWN, reasoning=False)
    assert (
        not fields.keys()
        & _body("chat_completions", _request(), base_url=f"https://{host}/v1", effort=effort, known=known).keys()
    )


def test_chat_completions_hosts_that_want_more_back() -> None:
    signed = ReasoningPart(text="", data="sig", item_id="c1", origin="chat_completions/gpt")
    thought = ReasoningPart(text="hm", origin="chat_completions/gpt")
    call = ToolCallPart(id="c1", name="z", arguments="{}")
    other = ToolCallPart(id="c2", name="z", arguments="{}")
    request = _request(Message.user("x"), Message(role=Role.ASSISTANT, parts=(thought, call, signed, other)))
    gemini = _body("chat_completions", request, base_url="https://generativelanguage.googleapis.com/v1beta/openai")
    first, second = gemini["messages"][-1]["tool_calls"]
    assert first["extra_content"] == {"google": {"thought_signature": "sig"}}
    assert second["extra_content"]["google"]["thought_signature"] == "skip_thought_signature_validator"
    deepseek = _body("chat_completions", request, base_url="https://api.deepseek.com/v1")
    assert deepseek["messages"][-1]["reasoning_content"] == "hm"
    mistral = _body("chat_completions", request, base_url="https://api.mistral.ai/v1")
    assert all(len(c["id"]) == 9 and c["id"].isalnum() for c in mistral["messages"][-1]["tool_calls"])


CLAUDE_AT_OPENROUTER = {"base_url": "https://openrouter.ai/api/v1", "model": "anthropic/claude-sonnet-4.5"}


def test_a_claude_at_openrouter_gets_cache_markers_on_parts() -> None:
    body = _body("chat_completions", _request(*HISTORY[:3]), **CLAUDE_AT_OPENROUTER)
    mark = {"cache_control": {"type": "ephemeral"}}
    system, asked, answer, one, other = body["messages"]
    assert system["content"] == [{"type": "text", "text": "Be brief.", **mark}]
    assert asked["content"] == [{"type": "text", "text": "hi", **mark}], "where the request before this one ended"
    assert answer["content"] == "Let me see."
    assert one["content"] == [{"type": "text", "text": "one"}]
    assert other["content"] == [{"type": "text", "text": "not JSON", **mark}]
    assert _count_marks(body) == 3


def test_an_empty_text_is_never_marked() -> None:
    silent = Message(role=Role.TOOL, parts=(ToolResultPart(call_id="c1", name="z", text=""),))
    body = _body("chat_completions", _request(Message.user(" "), HISTORY[1], silent), **CLAUDE_AT_OPENROUTER)
    assert [m["content"] for m in body["messages"] if m["role"] == "user"] == [" "]
    picture = ImagePart(media_id="m" + "a" * 25, media_type="image/png", size=1)
    shown = Message(role=Role.USER, parts=(picture, TextPart(text=" ")))
    assert _count_marks(_body("chat_completions", _request(shown), **CLAUDE_AT_OPENROUTER)) == 1, "the system prompt's"
    assert body["messages"][-1]["content"][0] == {
        "type": "text", "text": "(no output)", "cache_control": {"type": "ephemeral"},
    }  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "openai/gpt-5"},
        {"base_url": "https://api.example.com/v1"},
        {"known": replace(KNOWN, prompt_cache=False)},
    ],
)
def test_no_other_model_or_host_gets_cache_markers(changes: dict[str, Any]) -> None:
    body = _body("chat_completions", _request(), **{**CLAUDE_AT_OPENROUTER, **changes})
    assert _count_marks(body) == 0 and body["messages"][0]["content"] == "Be brief."


def test_responses_body() -> None:
    parts = (
        ReasoningPart(text="why", data="enc", item_id="rs_1", origin="responses/gpt"),
        ReasoningPart(text="other", data="enc", item_id="rs_2", origin="responses/other"),
        ToolCallPart(id="c1", name="z", arguments='{"b": 1}'),
        ReasoningPart(text="nothing followed", data="enc", item_id="rs_3", origin="responses/gpt"),
    )
    results = (ToolResultPart(call_id="c1", name="z", text=""),)
    history = (Message.user("hi"), Message(role=Role.ASSISTANT, parts=parts), Message(role=Role.TOOL, parts=results))
    body = _body("responses", _request(*history, Message.assistant("done"), conversation="c"), effort="Low")
    assert body["instructions"] == "Be brief." and body["store"] is False and body["prompt_cache_key"] == "c"
    assert body["reasoning"] == {"effort": "low", "summary": "auto"} and body["include"] == ["reasoning.encrypted_content"]
    assert body["input"] == [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {
            "type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "why"}],
            "encrypted_content": "enc",
        },
        {"type": "function_call", "call_id": "c1", "name": "z", "arguments": '{"b": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "(no output)"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
    ]  # fmt: skip


def test_anthropic_body() -> None:
    body = _body("anthropic_messages", _request())
    mark = {"type": "ephemeral"}
    assert body["max_tokens"] == 32_000
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": mark}]
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": mark}]},
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
                {"type": "tool_result", "tool_use_id": "c2", "content": "not JSON", "is_error": True},
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "and now?", "cache_control": mark}]},
    ]  # fmt: skip
    assert _count_marks(body) == 4 and "thinking" not in body
    assert _count_marks(_body("anthropic_messages", _request(), known=replace(KNOWN, prompt_cache=False))) == 0


@pytest.mark.parametrize(
    ("model", "effort", "limit", "thinking"),
    [
        ("claude-sonnet-4-5-20250929", "Low", 32_000, {"type": "enabled", "budget_tokens": 4000}),
        ("claude-3-7-sonnet-latest", "High", 20_000, {"type": "enabled", "budget_tokens": 10_000}),
        ("claude-sonnet-4-20250514", "High", 64_000, {"type": "enabled", "budget_tokens": 16_000}),
        ("claude-opus-4-6", "Minimal", 32_000, {"type": "adaptive"}),
        ("claude-sonnet-5", "High", 32_000, {"type": "adaptive"}),
        ("claude-opus-5-5", "XHigh", 32_000, {"type": "adaptive"}),
        ("claude-sonnet-4-5", "Max", 64_000, {"type": "enabled", "budget_tokens": 32_000}),
        ("eu.anthropic.claude-opus-4-7-v1:0", "Medium", 32_000, {"type": "adaptive"}),
        ("claude-sonnet-4-5", "High", 2000, None),
        ("claude-sonnet-4-5", "None", 32_000, None),
        ("claude-opus-4-6", "Default", 32_000, None),
    ],
)
def test_how_hard_a_claude_thinks(model: str, effort: str, limit: int, thinking: dict[str, Any] | None) -> None:
    request = _request(Message.user("x"), max_output_tokens=limit)
    body = _body("anthropic_messages", request, model=model, effort=effort)
    assert body.get("thinking") == thinking
    adaptive = thinking is not None and thinking["type"] == "adaptive"
    expected = {"effort": {"Minimal": "low"}.get(effort, effort.lower())} if adaptive else None
    assert body.get("output_config") == expected
    extra = _body("bedrock_converse", request, model=model, effort=effort).get("additionalModelRequestFields", {})
    assert extra.get("thinking") == thinking and extra.get("output_config") == expected


def test_a_claude_does_not_think_in_the_middle_of_a_round_that_another_model_began() -> None:
    foreign = _body("anthropic_messages", _request(*HISTORY[:3]), model="claude-sonnet-4", effort="High")
    assert "thinking" not in foreign
    assert "thinking" in _body("anthropic_messages", _request(*HISTORY[:3]), effort="High")
    assert "thinking" in _body("anthropic_messages", _request(*HISTORY), model="claude-sonnet-4", effort="High")


def test_bedrock_body() -> None:
    body = _body("bedrock_converse", _request(max_output_tokens=100))
    point = {"cachePoint": {"type": "default"}}
    assert body["inferenceConfig"] == {"maxTokens": 100} and body["system"] == [{"text": "Be brief."}, point]
    assert body["toolConfig"]["tools"][-1] == point and _count_marks(body) == 4
    assert body["messages"] == [
        {"role": "user", "content": [{"text": "hi"}, point]},
        {
            "role": "assistant",
            "content": [
                {"text": "Let me see."},
                {"toolUse": {"toolUseId": "c1", "name": "z", "input": {"b": 1, "a": 2}}},
                {"toolUse": {"toolUseId": "c2", "name": "a", "input": {"invalid_json": "{broken"}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "c1", "content": [{"text": "one"}]}},
                {"toolResult": {"toolUseId": "c2", "content": [{"text": "not JSON"}], "status": "error"}},
                {"text": "and now?"},
                point,
            ],
        },
    ]
    nova = _body("bedrock_converse", _request(), model="amazon.nova-2-lite-v1:0", effort="High")
    assert point not in nova["toolConfig"]["tools"] and "inferenceConfig" not in nova
    assert nova["additionalModelRequestFields"] == {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}
    plain = _body("bedrock_converse", _request(tools=()))
    assert "toolConfig" not in plain and "toolUse" not in json.dumps(plain) and "called z with" in json.dumps(plain)


@pytest.mark.parametrize("mode", ["anthropic_messages", "bedrock_converse"])
def test_what_these_apis_refuse_is_left_out(mode: ApiMode) -> None:
    empty = Message(role=Role.ASSISTANT, parts=(TextPart(text=" \n"), ReasoningPart(text="unsigned")))
    body = _body(mode, _request(Message.user("a"), empty, Message.user("b")))
    texts = [block["text"] for m in body["messages"] for block in m["content"] if "text" in block]
    assert texts == ["a", "b"]
    half = Message(role=Role.ASSISTANT, parts=(ToolCallPart(id="a b/1", name="z", arguments='{"x": "\\ud83d"}'),))
    sent = json.dumps(_body(mode, _request(Message.user("a"), half)), ensure_ascii=False)
    assert sent.encode() and "invalid_json" in sent and "a_b_1_" in sent and "a b/1" not in sent


@pytest.mark.parametrize("mode", ["anthropic_messages", "bedrock_converse"])
@pytest.mark.parametrize(
    "arguments", ['{"a": NaN}', '{"a": 1e999}', "[" * 100_000, '{"a": "\\ud83d"}', "[1]", "5", '{"a": 1} x']
)
def test_arguments_that_no_api_takes_are_shown_as_they_are(mode: ApiMode, arguments: str) -> None:
    call = Message(role=Role.ASSISTANT, parts=(ToolCallPart(id="c", name="z", arguments=arguments),))
    block = _body(mode, _request(Message.user("a"), call))["messages"][1]["content"][0]
    assert block.get("input", block.get("toolUse", {}).get("input")) == {"invalid_json": arguments}


def test_pictures_of_a_tool_follow_its_results() -> None:
    picture = ImagePart(media_id="m" + "a" * 25, media_type="image/png", size=1)
    result = ToolResultPart(call_id="c", name="z", text="ok")
    request = _request(Message.user("a"), Message(role=Role.TOOL, parts=(picture, result)))
    media = {picture.media_id: Medium("image/png", b"x")}
    chat = WIRES["chat_completions"](request, _target("chat_completions"), media)["messages"]
    assert [m["role"] for m in chat[2:]] == ["tool", "user"] and chat[3]["content"][0]["type"] == "image_url"
    items = WIRES["responses"](request, _target("responses"), media)["input"]
    assert items[1]["type"] == "function_call_output" and items[2]["content"][0]["type"] == "input_image"
    anthropic = WIRES["anthropic_messages"](request, _target("anthropic_messages"), media)["messages"]
    assert [b["type"] for b in anthropic[1]["content"]] == ["tool_result", "image"]
    bedrock = WIRES["bedrock_converse"](request, _target("bedrock_converse"), media)["messages"]
    assert [next(iter(b)) for b in bedrock[0]["content"]] == ["text", "toolResult", "image", "cachePoint"]


_TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
_ORIGIN = st.sampled_from(["chat_completions/gpt", "responses/gpt", "anthropic_messages/claude-sonnet-4-5", "other"])
_PART = st.one_of(
    st.builds(TextPart, text=_TEXT),
    st.builds(ReasoningPart, text=_TEXT, signature=_TEXT, origin=_ORIGIN),
    st.builds(ReasoningPart, text=_TEXT, data=_TEXT, item_id=_TEXT, origin=_ORIGIN),
    st.builds(ToolCallPart, id=_TEXT, name=st.just("z"), arguments=_TEXT),
)
_IMAGE = st.builds(ImagePart, media_id=st.just("m" + "a" * 25), media_type=st.just("image/png"), size=st.just(1))
_RESULT = st.builds(ToolResultPart, call_id=_TEXT, name=st.just("z"), text=st.text(st.characters(codec="utf-8"), max_size=9))
_MESSAGE = st.one_of(
    st.builds(
        Message, role=st.just(Role.USER), parts=st.lists(st.one_of(st.builds(TextPart, text=_TEXT), _IMAGE), max_size=3)
    ),
    st.builds(Message, role=st.just(Role.ASSISTANT), parts=st.lists(_PART, max_size=4)),
    st.builds(Message, role=st.just(Role.TOOL), parts=st.lists(st.one_of(_RESULT, _IMAGE), max_size=3)),
)


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_marks(v) for k, v in value.items() if k != "cache_control"}
    if isinstance(value, list):
        return [_without_marks(v) for v in value if not (isinstance(v, dict) and "cachePoint" in v)]
    return value


@pytest.mark.parametrize(("mode", "changes"), [*((mode, {}) for mode in WIRES), ("chat_completions", CLAUDE_AT_OPENROUTER)])
@given(st.lists(_MESSAGE, min_size=1, max_size=8), st.integers(1, 8), st.booleans())
def test_a_longer_conversation_starts_with_the_bytes_of_the_shorter(
    mode: ApiMode, changes: dict[str, str], messages: list[Message], cut: int, seen: bool
) -> None:
    media = {"m" + "a" * 25: Medium("image/png", b"x")} if seen else {}
    at = _target(mode, **changes)
    bodies = [WIRES[mode](_request(*messages[:n]), at, media) for n in (cut, len(messages))]
    key = "input" if mode == "responses" else "messages"
    assert all(_count_marks(body) <= 4 for body in bodies)
    start, whole = (json.dumps(_without_marks(body.pop(key)), ensure_ascii=False) for body in bodies)
    # Bedrock wants neighbours of one role joined, so the shorter one's last message may go on: its bytes all the same.
    assert whole.startswith(start.rstrip("]}"))
    assert _without_marks(bodies[0]) == _without_marks(bodies[1]), "what stands before the messages does not move"
    first, second = (WIRES[mode](_request(*messages), at, media) for _ in range(2))
    assert json.dumps(first) == json.dumps(second), "key order and all"


@pytest.mark.parametrize(
    ("mode", "changes", "marks"),
    [("chat_completions", CLAUDE_AT_OPENROUTER, 3), ("anthropic_messages", {}, 4), ("bedrock_converse", {}, 4)],
)
def test_a_long_conversation_has_no_more_cache_markers_than_a_short_one(
    mode: ApiMode, changes: dict[str, str], marks: int
) -> None:
    rounds = [message for n in range(9) for message in (Message.user(f"ask {n}"), Message.assistant(f"answer {n}"))]
    assert _count_marks(_body(mode, _request(*rounds, Message.user("last")), **changes)) == marks


@given(st.lists(_MESSAGE, min_size=1, max_size=8))
def test_bedrock_turns_alternate(messages: list[Message]) -> None:
    roles = [m["role"] for m in _body("bedrock_converse", _request(*messages))["messages"]]
    assert all(a != b for a, b in itertools.pairwise(roles))
