"""What the program asks its model, read as a neutral call, and the answer written back; what it did, as rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hermes_agent.codex.items import MAX_ARGUMENT_BYTES, MAX_RESULT_BYTES, call_of, result_of
from hermes_agent.codex.program import Setting, options
from hermes_agent.codex.responses import Unreadable, read_request, write_answer
from hermes_agent.codex.work import script_of
from hermes_agent.model.collect import Answer, RawCall
from hermes_contracts.conversation import Message, ReasoningPart, Role, ToolCallPart, Usage
from hermes_contracts.model_api import FinishReason

THOUGHT = ReasoningPart(text="hm", signature="s", origin="anthropic_messages/m")
PATCH = {
    "type": "custom", "name": "apply_patch", "description": "Edit files",
    "format": {"type": "grammar", "definition": "start: x"},
}  # fmt: skip
RUN = {"type": "function", "name": "exec_command", "description": "Run", "parameters": {"type": "object"}}


def said(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def body(*items: object, **more: object) -> str:
    return json.dumps({"model": "m", "input": list(items), "tools": [RUN, PATCH], **more})


def rows(text: str) -> list[Message]:
    return [Message.model_validate_json(row) for row in read_request(text, "c").transcript.messages]


def answer(*calls: RawCall, text: str = "", finish: FinishReason = FinishReason.STOP) -> Answer:
    return Answer(text, (THOUGHT,), calls, finish, Usage(input_tokens=10, output_tokens=2))


def events(stream: str) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line.startswith("data: ")]


def items(stream: str) -> list[dict[str, Any]]:
    return [event["item"] for event in events(stream) if event["type"] == "response.output_item.done"]


def test_what_stands_first_is_the_system_prompt_and_tools_with_a_grammar_take_one_text() -> None:
    asked = read_request(
        body(said("developer", "be good"), said("developer", "be Hermes"), said("user", "hi"), instructions="codex"), "c"
    )
    assert json.loads(asked.transcript.system) == "codex\n\nbe good\n\nbe Hermes"
    tools = json.loads(asked.transcript.tools)
    assert [tool["name"] for tool in tools] == ["exec_command", "apply_patch"] and asked.freeform == {"apply_patch"}
    assert "start: x" in tools[1]["description"] and tools[1]["parameters"]["required"] == ["input"]
    assert asked.kind == "turn"


def test_an_answer_comes_back_as_it_was_with_the_providers_own_thinking() -> None:
    calls = (RawCall("c1", "exec_command", '{"cmd": "ls"}'), RawCall("c2", "apply_patch", '{"input": "*** Begin"}'))
    first = body(said("user", "hi"))
    stream = write_answer(answer(*calls, text="I look."), read_request(first, "c"), 1)
    told = items(stream)
    assert [item["type"] for item in told] == ["reasoning", "message", "function_call", "custom_tool_call"]
    assert told[3]["input"] == "*** Begin" and events(stream)[-1]["type"] == "response.completed"
    outputs = [
        {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "done"}]},
    ]
    user, assistant, tool = rows(body(said("user", "hi"), *told, *outputs))
    assert user.text() == "hi" and assistant.parts[0] == THOUGHT and assistant.text() == "I look."
    assert [(call.id, call.name, call.arguments) for call in assistant.tool_calls()] == [
        ("c1", "exec_command", '{"cmd": "ls"}'), ("c2", "apply_patch", '{"input": "*** Begin"}'),
    ]  # fmt: skip
    assert tool.role is Role.TOOL and [part.text for part in tool.parts if part.type == "tool_result"] == ["a.txt", "done"]


def test_a_longer_conversation_begins_with_the_bytes_of_the_shorter_one() -> None:
    start = [said("developer", "x"), said("user", "hi"), said("assistant", "hello")]
    short = read_request(body(*start), "c").transcript
    long = read_request(body(*start, said("user", "more"), said("assistant", "yes")), "c").transcript
    assert long.messages[: len(short.messages)] == short.messages and long.system == short.system


def test_calls_that_were_cut_are_not_taken_for_whole_ones() -> None:
    cut = answer(RawCall("c1", "exec_command", '{"cm'), finish=FinishReason.LENGTH)
    assert events(write_answer(cut, read_request(body(said("user", "x")), "c"), 1))[-1]["type"] == "response.incomplete"


def test_summaries_are_told_from_the_conversation() -> None:
    metadata = {"x-codex-turn-metadata": json.dumps({"request_kind": "compaction"})}
    assert read_request(body(said("user", "x"), client_metadata=metadata), "c").kind == "compaction"
    assert read_request(body(said("user", "x"), client_metadata={"x-codex-turn-metadata": "["}), "c").kind == "turn"


def test_pictures_become_a_sentence_and_tools_that_cannot_be_served_are_left_out() -> None:
    picture = {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "data:x"}]}
    hidden = [{**RUN, "name": "view_image"}, {**RUN, "name": "request_user_input"}, {"type": "web_search"}, "rubbish", RUN]
    asked = read_request(json.dumps({"input": [picture], "tools": hidden}), "c")
    assert [tool["name"] for tool in json.loads(asked.transcript.tools)] == ["exec_command"]
    assert "cannot be shown" in rows(json.dumps({"input": [picture]}))[0].text()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"input": "x"}', '{"input": []}', "[" * 100_000])
def test_what_is_no_request_is_told_so(text: str) -> None:
    with pytest.raises(Unreadable):
        read_request(text, "c")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["type", "role", "content", "call_id", "name", "output", "text", "arguments", "encrypted_content"])
        | st.text(max_size=5), inner, max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip
KINDS = st.sampled_from(
    ["message", "reasoning", "function_call", "custom_tool_call", "function_call_output", "custom_tool_call_output", "x"]
)


@given(
    st.lists(st.builds(lambda kind, more: {**more, "type": kind}, KINDS, st.dictionaries(st.text(max_size=5), JSON)) | JSON)
)
def test_whatever_the_sandbox_sends_is_refused_or_legal(found: list[Any]) -> None:
    try:
        messages = rows(json.dumps({"input": found, "tools": found, "client_metadata": found}))
    except Unreadable:
        return
    for before, message in zip([None, *messages], messages, strict=False):
        if message.role is Role.TOOL:
            assert before is not None and [p.call_id for p in message.parts if p.type == "tool_result"] == [
                call.id for call in before.tool_calls()
            ]


@given(st.dictionaries(st.sampled_from(["type", "command", "cwd", "changes", "status", "exitCode", "error"]), JSON))
def test_whatever_the_program_did_becomes_a_bounded_row(item: dict[str, Any]) -> None:
    for kind in ("commandExecution", "fileChange", "mcpToolCall", "webSearch"):
        call = call_of({**item, "type": kind}, "c1")
        assert call is not None and json.loads(call.arguments) is not None
        assert result_of({**item, "type": kind}, call).call_id == "c1"


def test_long_commands_and_outputs_are_cut_and_refusals_are_told() -> None:
    item: dict[str, Any] = {
        "type": "commandExecution",
        "command": "x" * 100_000,
        "cwd": "/",
        "aggregatedOutput": "y" * 200_000,
        "exitCode": 1,
    }
    call = call_of(item, "c1")
    assert isinstance(call, ToolCallPart) and len(call.arguments) < MAX_ARGUMENT_BYTES + 500
    assert len(result_of(item, call).text) < MAX_RESULT_BYTES + 500
    assert result_of({**item, "aggregatedOutput": None}, call, "this is forbidden").is_error
    change = {"type": "fileChange", "changes": [{"path": "a", "kind": {"type": "add"}, "diff": "+x"}], "status": "failed"}
    patch = call_of(change, "c2")
    assert patch is not None and patch.name == "patch" and "+x" in patch.arguments and result_of(change, patch).is_error
    assert call_of({"type": "agentMessage"}, "c3") is None


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("/bin/bash -lc 'rm -rf x && ls'", "rm -rf x && ls"), ("sh -c ls", "ls"), ("ls -l", "ls -l"),
        ("bash -lc 'a", "bash -lc 'a"), ("python3 -c 'x'", "python3 -c 'x'"),
    ],
)  # fmt: skip
def test_rules_read_what_runs_and_not_the_shell_around_it(command: str, script: str) -> None:
    assert script_of(command) == script


def test_the_program_is_told_of_one_provider_and_no_key() -> None:
    words = options(Setting(("codex",), 'odd "name"', "", 128_000), 4711)
    assert words.count("-c") * 2 == len(words) and 'model="odd \\"name\\""' in words
    provider = next(word for word in words if word.startswith("model_providers.hermes="))
    assert 'base_url="http://127.0.0.1:4711/v1"' in provider and 'env_key="HERMES_MODEL_TOKEN"' in provider
    assert "model_context_window=128000" in words
