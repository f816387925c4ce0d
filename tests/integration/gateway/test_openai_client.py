"""OpenAI's own client, unmodified: chat with pictures, and the Responses API whole."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import openai
import pytest

from hermes_contracts import names
from tests.integration.gateway.world import ALICE, ALICE_OTHER_PROFILE, BOB, World, until

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 2000
PICTURE = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


def client(world: World, key: str = ALICE, **options: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{world.api}/v1", api_key=key, **{"max_retries": 0, **options})


async def test_a_picture_in_a_chat_is_stored_and_named_in_the_message(world: World) -> None:
    content: Any = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}},
    ]
    async with client(world) as ai:
        answer = await ai.chat.completions.create(model="helper", messages=[{"role": "user", "content": content}])
    assert answer.choices[0].message.content == "You said: what is this?"
    (inbound,) = world.script.inbound
    assert [(i.media_id, i.media_type, i.size) for i in inbound.images] == [(names.media_id(PNG), "image/png", len(PNG))]
    assert world.script.media == {(inbound.sid, names.media_id(PNG)): PNG}


@pytest.mark.parametrize(
    ("url", "why"),
    [("https://example.com/cat.png", "addresses are not fetched"), ("data:image/png;base64,aGVsbG8=", "not a picture")],
)
async def test_other_pictures_are_refused_with_the_reason(world: World, url: str, why: str) -> None:
    content: Any = [{"type": "image_url", "image_url": {"url": url}}]
    items: Any = [{"role": "user", "content": [{"type": "input_image", "image_url": url, "detail": "auto"}]}]
    async with client(world) as ai:
        with pytest.raises(openai.BadRequestError, match=why) as caught:
            await ai.chat.completions.create(model="helper", messages=[{"role": "user", "content": content}])
        assert caught.value.param == "messages.0.content.0.image_url.url"
        with pytest.raises(openai.BadRequestError, match=why):
            await ai.responses.create(model="helper", input=items)
    assert await world.pending() == 0


async def test_a_response_is_an_answer_that_can_be_asked_for_again(world: World) -> None:
    other = await world.another_gateway()
    async with client(world) as ai:
        made = await ai.responses.create(model="helper", input="hello", metadata={"ticket": "7"}, instructions="Be brief.")
        assert (made.output_text, made.status, made.error) == ("You said: hello", "completed", None)
        assert made.usage is not None
        assert (made.usage.input_tokens, made.usage.input_tokens_details.cached_tokens) == (10, 4)
        assert made.usage.model_extra is not None
        assert made.usage.model_extra["hermes"]["cost_usd"] == "0.00125"
        assert world.script.inbound[0].instructions == "Be brief."
        async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{other.api}/v1", api_key=ALICE) as second:
            again = await second.responses.retrieve(made.id)
        assert again.model_dump(exclude={"hermes"}) == made.model_dump(exclude={"hermes"})
        assert again.metadata == {"ticket": "7"}
        await ai.responses.delete(made.id)
        for call in (ai.responses.retrieve(made.id), ai.responses.delete(made.id)):
            with pytest.raises(openai.NotFoundError):
                await call


async def test_a_response_goes_on_from_an_earlier_one(world: World) -> None:
    async with client(world) as ai:
        first = await ai.responses.create(model="helper", input="hello")
        second = await ai.responses.create(model="helper", input="and now?", previous_response_id=first.id)
        assert second.previous_response_id == first.id
        named = await ai.responses.create(model="helper", input="and then?", conversation=first.conversation.id)  # type: ignore[union-attr]
        other = await ai.responses.create(model="helper", input="something else")
        assert named.output_text == "You said: and then?"
        with pytest.raises(openai.NotFoundError) as caught:
            await ai.responses.create(model="helper", input="x", previous_response_id="resp_" + "a" * 24)
        assert caught.value.param == "previous_response_id"
    sids = [inbound.sid for inbound in world.script.inbound]
    assert sids[0] == sids[1] == sids[2] != sids[3]
    assert other.id not in (first.id, second.id, named.id)


@pytest.mark.parametrize("key", [BOB, ALICE_OTHER_PROFILE])
async def test_a_foreign_response_does_not_exist(world: World, key: str) -> None:
    async with client(world) as ai, client(world, key) as foreign:
        made = await ai.responses.create(model="helper", input="hello")
        for call in (foreign.responses.retrieve(made.id), foreign.responses.delete(made.id)):
            with pytest.raises(openai.NotFoundError):
                await call
        if key == BOB:
            with pytest.raises(openai.NotFoundError):
                await foreign.responses.create(model="helper", input="x", previous_response_id=made.id)
        assert (await ai.responses.retrieve(made.id)).id == made.id


async def test_a_response_that_is_not_stored_cannot_be_asked_for(world: World) -> None:
    async with client(world) as ai:
        made = await ai.responses.create(model="helper", input="hello", store=False)
        assert (made.output_text, made.store) == ("You said: hello", False)  # type: ignore[attr-defined]
        with pytest.raises(openai.NotFoundError):
            await ai.responses.retrieve(made.id)


async def test_a_streamed_response_has_the_events_in_order(world: World) -> None:
    async with client(world) as ai:
        stream = await ai.responses.create(model="helper", input="hello", stream=True)
        events = [event async for event in stream]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        kinds = [event.type for event in events]
        assert kinds[:4] == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
        ]
        assert kinds[-4:] == [
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
        assert set(kinds[4:-4]) == {"response.output_text.delta"}
        pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
        assert len(pieces) > 1
        assert "".join(pieces) == "You said: hello"
        last = events[-1]
        assert last.type == "response.completed"
        assert last.response.output_text == "You said: hello"
        assert (await ai.responses.retrieve(last.response.id)).output_text == "You said: hello"


@pytest.mark.parametrize(
    ("text", "streamed", "stored"),
    [
        ("tool", "I look.\n\nIt is there.", "It is there."),
        ("lossy", "One two three", "One two three"),
        ("repeat", "Hello there", "Hello there"),
        ("otherwise", "Hello\n\n[The answer begins anew.]\n\nGoodbye", "Goodbye"),
        ("silent", "Nobody told you.", "Nobody told you."),
    ],
)
async def test_the_clients_own_stream_helper_ends_with_the_stored_answer(
    world: World, text: str, streamed: str, stored: str
) -> None:
    async with client(world) as ai, ai.responses.stream(model="helper", input=text) as stream:
        pieces = [event.delta async for event in stream if event.type == "response.output_text.delta"]
        final = await stream.get_final_response()
    assert ("".join(pieces), final.output_text) == (streamed, stored)


async def test_a_failed_turn_is_a_failed_response(world: World) -> None:
    async with client(world) as ai:
        made = await ai.responses.create(model="helper", input="fail")
        assert (made.status, made.output) == ("failed", [])
        assert made.error is not None
        assert made.error.message == "The model did not answer."
        events = [event async for event in await ai.responses.create(model="helper", input="fail", stream=True)]
    assert events[-1].type == "response.failed"
    assert events[-1].response.status == "failed"


async def test_a_response_in_the_background_is_polled(world: World) -> None:
    async with client(world) as ai:
        made = await ai.responses.create(model="helper", input="wait", background=True)
        assert made.status == "queued"
        async with asyncio.timeout(10):
            while (found := await ai.responses.retrieve(made.id)).status != "in_progress":
                await asyncio.sleep(0.02)
            assert found.output == []
            world.script.released.set()
            while (found := await ai.responses.retrieve(made.id)).status != "completed":
                await asyncio.sleep(0.02)
    assert found.output_text == "Let me think."


async def test_a_late_response_is_a_504_that_says_where_it_will_be(world: World) -> None:
    late = await world.another_gateway(answer_timeout_seconds=0.3)
    async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{late.api}/v1", api_key=ALICE) as ai:
        async with asyncio.timeout(10):
            while not (await ai.models.list()).data:
                await asyncio.sleep(0.02)
        with pytest.raises(openai.APIStatusError) as caught:
            await ai.responses.create(model="helper", input="wait")
        assert caught.value.status_code == 504
        assert len(world.script.inbound) == 1, "the client does not repeat it"
        identity = str(caught.value.body["message"]).split("/v1/responses/")[1]  # type: ignore[index]
        world.script.released.set()
        async with asyncio.timeout(10):
            while (found := await ai.responses.retrieve(identity)).status != "completed":
                await asyncio.sleep(0.02)
    assert found.output_text == "Let me think."


async def test_a_client_that_gives_up_leaves_the_turn_alone(world: World) -> None:
    async with client(world, timeout=0.3) as ai:
        with pytest.raises(openai.APITimeoutError):
            await ai.responses.create(model="helper", input="wait")
        with pytest.raises(openai.APITimeoutError):
            await ai.chat.completions.create(model="helper", messages=[{"role": "user", "content": "wait"}])
    world.script.released.set()
    await until(lambda: [turn.reply for turn in world.script.turns.values()] == ["Let me think."] * 2)


async def test_a_repeated_key_is_the_same_response(world: World) -> None:
    key = {"Idempotency-Key": "once"}
    async with client(world) as ai:
        made = await ai.responses.create(model="helper", input="hello", extra_headers=key)
        again = await ai.responses.create(model="helper", input="hello", extra_headers=key)
        assert again.model_dump() == made.model_dump()
        stream = await ai.responses.create(model="helper", input="hello", extra_headers=key, stream=True)
        assert "".join([e.delta async for e in stream if e.type == "response.output_text.delta"]) == "You said: hello"
        with pytest.raises(openai.ConflictError):
            await ai.responses.create(model="helper", input="something else", extra_headers=key)
    assert len(world.script.inbound) == 1


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "5"}]}, 400, "input.0"),
        ({"tools": [{"type": "web_search"}]}, 400, "tools"),
        ({"conversation": "a b"}, 400, "conversation"),
        ({"conversation": "s" + "a" * 25}, 404, "conversation"),
        ({"metadata": {str(n): "x" for n in range(17)}}, 400, "metadata"),
        ({"model": "nobody"}, 404, "model"),
        ({"model": "sleepy"}, 503, "model"),
        ({"input": "x" * 200_001}, 413, "input"),
    ],
)
async def test_errors_have_openais_shape(world: World, body: dict[str, Any], status: int, param: str) -> None:
    async with client(world) as ai:
        with pytest.raises(openai.APIStatusError) as caught:
            await ai.responses.create(**{"model": "helper", "input": "hello", **body})
        with pytest.raises(openai.BadRequestError):
            await ai.responses.retrieve("resp_" + "a" * 24, stream=True)
    assert (caught.value.status_code, caught.value.param) == (status, param)
    assert await world.pending() == 0
