"""Which conversation a chat request belongs to, and what is new in it."""

from __future__ import annotations

import pytest

from hermes_gateway.gateway.openai_api import reading
from hermes_gateway.gateway.openai_api.protocol import ChatRequest
from hermes_gateway.gateway.web.errors import ApiError


def derive(asked: ChatRequest) -> str:
    return reading.derive_client_id(asked.user, [(m.role, m.content) for m in asked.messages])


def request(*messages: tuple[str, object], **more: object) -> ChatRequest:
    said = [{"role": role, "content": content} for role, content in messages]
    return ChatRequest.model_validate({"model": "m", "messages": said, **more})


def test_a_growing_history_keeps_its_conversation() -> None:
    opening = (("system", "be brief"), ("user", "hello"))
    first = derive(request(*opening))
    assert derive(request(*opening, ("assistant", "hi"), ("user", "more"))) == first
    assert reading.parse_session_header(first) == first


@pytest.mark.parametrize(
    "other",
    [
        request(("user", "hello")),
        request(("system", "be long"), ("user", "hello")),
        request(("system", "be brief"), ("user", "hallo")),
        request(("system", "be brief"), ("user", "hello"), user="ann"),
    ],
)
def test_another_beginning_is_another_conversation(other: ChatRequest) -> None:
    assert derive(other) != derive(request(("system", "be brief"), ("user", "hello")))


@pytest.mark.parametrize("value", ["a", "trip-1", "a.b_c:d@e", "A" * 128])
def test_ids_clients_may_choose(value: str) -> None:
    assert reading.parse_session_header(value) == value


@pytest.mark.parametrize("value", ["", "-a", "a b", "a/b", "ä", "a\n", "A" * 129])
def test_ids_clients_may_not_choose(value: str) -> None:
    with pytest.raises(ApiError) as caught:
        reading.parse_session_header(value)
    assert caught.value.status == 400
    assert caught.value.param == "X-Hermes-Session-Id"


def test_only_the_last_message_is_new() -> None:
    said = reading.read_request(request(("user", "old"), ("assistant", None), ("tool", "x"), ("user", "new")))
    assert (said.text, said.instructions) == ("new", "")


@pytest.mark.parametrize("role", ["tool", "assistant", "system", "developer", "function"])
def test_the_last_message_must_be_the_users(role: str) -> None:
    with pytest.raises(ApiError, match=r"messages\.1\.role"):
        reading.read_request(request(("user", "x"), (role, "y")))


def test_pictures_of_the_last_message_are_found_in_order() -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": "data:a"}},
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": "data:b"},
    ]
    said = reading.read_request(request(("user", parts)))
    assert said.text == "see"
    assert [(p.param, p.url) for p in said.pictures] == [
        ("messages.0.content.0.image_url.url", "data:a"),
        ("messages.0.content.2.image_url.url", "data:b"),
    ]
    assert reading.read_request(request(("user", parts[:1]))).text == "", "a picture alone is a message"


@pytest.mark.parametrize(
    ("parts", "where"),
    [
        ([{"type": "input_audio"}], r"messages\.0\.content\.0: only text and image_url parts"),
        ([{"type": "image_url"}], r"messages\.0\.content\.0\.image_url\.url: must be a string"),
        ([{"type": "image_url", "image_url": {"url": 5}}], r"messages\.0\.content\.0\.image_url\.url: must be a string"),
        ([{"type": "text", "text": None}], r"messages\.0\.content\.0\.text: must be a string"),
    ],
)
def test_other_parts_are_refused_by_name(parts: list[object], where: str) -> None:
    with pytest.raises(ApiError, match=where):
        reading.read_request(request(("user", parts)))


def test_a_system_message_has_no_pictures() -> None:
    parts = [{"type": "image_url", "image_url": {"url": "data:a"}}]
    with pytest.raises(ApiError, match="text only"):
        reading.read_request(request(("system", parts), ("user", "x")))


def test_an_image_in_the_past_is_no_matter() -> None:
    past = [{"type": "image_url", "image_url": {"url": "https://example.com"}}]
    assert reading.read_request(request(("user", past), ("assistant", "a cat"), ("user", "sure?"))).text == "sure?"


def test_one_message_has_one_completion_id() -> None:
    assert reading.completion_id("s", "u") == reading.completion_id("s", "u") != reading.completion_id("s", "v")
