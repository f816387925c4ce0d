"""What is new in a Responses request, and what is refused."""

from __future__ import annotations

import pytest

from hermes_contracts.conversation import Usage
from hermes_contracts.store_api import TurnState
from hermes_gateway.gateway.openai_api.reading import Saying
from hermes_gateway.gateway.responses_api.protocol import ResponsesRequest
from hermes_gateway.gateway.responses_api.reading import named_conversation, read_input, response_id
from hermes_gateway.gateway.responses_api.records import ResponseRecord
from hermes_gateway.gateway.responses_api.service import render
from hermes_gateway.gateway.turns import Answer
from hermes_gateway.gateway.web.errors import ApiError


def said(role: str, content: object) -> dict[str, object]:
    return {"role": role, "content": content}


def read(given: object, **more: object) -> Saying:
    return read_input(ResponsesRequest.model_validate({"model": "m", "input": given, **more}))[0]


def test_text_is_one_message() -> None:
    assert read("hello", instructions="Be brief.") == Saying("hello", "Be brief.")


def test_the_users_messages_after_the_last_answer_are_new() -> None:
    items = [
        said("developer", "Be kind."),
        said("user", "old"),
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "answer"}]},
        {"type": "item_reference", "id": "msg_1"},
        said("user", [{"type": "input_text", "text": "new "}, {"type": "input_text", "text": "one"}]),
        said("user", [{"type": "input_image", "image_url": "data:a"}]),
        said("user", "and more"),
    ]
    found = read(items, instructions="Be brief.")
    assert (found.text, found.instructions) == ("new one\n\nand more", "Be brief.\n\nBe kind.")
    assert [(picture.param, picture.url) for picture in found.pictures] == [("input.6.content.0.image_url", "data:a")]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"input": ""}, "input: it must end with a message of the user"),
        ({"input": []}, "input: it must end with a message of the user"),
        ({"input": [said("user", "x"), said("assistant", "y")]}, "input: it must end with a message of the user"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "5"}]}, "tools run on the server"),
        ({"input": [said("user", "x"), {"type": "function_call", "name": "f"}]}, "tools run on the server"),
        ({"input": [said("tool", "x")]}, r"input\.0\.role: must be"),
        ({"input": [said("user", 5)]}, r"input\.0\.content: must be text"),
        ({"input": [said("user", [{"type": "input_file", "file_id": "f"}])]}, r"input\.0\.content\.0: only input_text"),
        ({"input": [said("user", [{"type": "input_image", "file_id": "f"}])]}, "no uploaded files"),
        ({"input": [said("system", [{"type": "input_image", "image_url": "data:"}])]}, "text only"),
        ({"input": "x", "tools": [{"type": "function"}]}, "tools: the agent uses tools of its own"),
        ({"input": "x", "text": {"format": {"type": "json_schema"}}}, r"text\.format: answers are text"),
        ({"input": "x", "prompt": {"id": "p"}}, "prompt: there are no stored prompts"),
        ({"input": "x", "background": True, "stream": True}, "stream: a response in the background"),
        ({"input": "x", "background": True, "store": False}, "store: a response in the background"),
    ],
)
def test_refusals_name_the_field(body: dict[str, object], why: str) -> None:
    with pytest.raises(ApiError, match=why) as caught:
        read(**{"given": body.pop("input"), **body})
    assert caught.value.status == 400


def test_a_long_text_is_too_large() -> None:
    with pytest.raises(ApiError) as caught:
        read("x" * 200_001)
    assert caught.value.status == 413


@pytest.mark.parametrize(
    ("body", "header", "name"),
    [({}, None, None), ({"conversation": "a"}, None, "a"), ({"conversation": {"id": "b"}}, None, "b"), ({}, "c", "c")],
)
def test_a_conversation_is_named_once(body: dict[str, object], header: str | None, name: str | None) -> None:
    request = ResponsesRequest.model_validate({"model": "m", "input": "x", **body})
    assert named_conversation(request, header) == name


@pytest.mark.parametrize("body", [{"conversation": "a"}, {"previous_response_id": "resp_a"}])
def test_naming_it_twice_is_refused(body: dict[str, object]) -> None:
    request = ResponsesRequest.model_validate({"model": "m", "input": "x", **body})
    with pytest.raises(ApiError, match="send one of"):
        named_conversation(request, "c")


@pytest.mark.parametrize("state", [TurnState.DONE, TurnState.MERGED, TurnState.FAILED, TurnState.DEAD])
def test_a_turn_that_failed_is_a_failed_response(state: TurnState) -> None:
    record = ResponseRecord(
        id=response_id("s", "u"), owner="o", namespace="n", model="m", sid="s", client_id="c", update_id="u", created_at=5
    )
    shown = render(record, Answer("t", state, "sorry", "model_error", Usage()), "queued", stored=True)
    if state in (TurnState.FAILED, TurnState.DEAD):
        assert (shown.status, shown.error and shown.error.message, shown.output) == ("failed", "sorry", [])
    else:
        assert (shown.status, shown.error, shown.output[0].content[0].text) == ("completed", None, "sorry")
