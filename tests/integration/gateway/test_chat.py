"""A person with OpenAI's own client talks to an agent."""

from __future__ import annotations

import asyncio
import json

import httpx
import openai
import pytest

from hermes_contracts import subjects
from tests.integration.gateway.world import ALICE, BOB, NARROW, World, until

IMAGE = [{"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}]
HELLO = [{"role": "user", "content": "hello"}]


def client(world: World, key: str = ALICE, **options: object) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{world.api}/v1", api_key=key, max_retries=0, **options)  # type: ignore[arg-type]


async def test_the_official_client_gets_an_answer(world: World) -> None:
    async with client(world) as openai_client:
        answer = await openai_client.chat.completions.create(model="helper", messages=HELLO)
    assert answer.choices[0].message.content == "You said: hello"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 15
    assert answer.id.startswith("chatcmpl-")
    assert world.script.wakes == [world.script.inbound[0].sid]


async def test_streaming_ends_with_the_stored_answer(world: World) -> None:
    async with client(world) as openai_client:
        stream = await openai_client.chat.completions.create(
            model="helper", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "You said: hello"
    assert len([c for c in chunks if c.choices and c.choices[0].delta.content]) > 1
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 15


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tool", "I look.\n\nIt is there."),
        ("lossy", "One two three"),
        ("crash", "First try\n\n[The answer begins anew.]\n\nSecond try"),
        ("repeat", "Hello there"),
        ("otherwise", "Hello\n\n[The answer begins anew.]\n\nGoodbye"),
        ("silent", "Nobody told you."),
        ("fail", "The model did not answer."),
    ],
)
async def test_a_stream_is_put_right_by_the_stored_answer(world: World, text: str, expected: str) -> None:
    async with client(world) as openai_client:
        messages = [{"role": "user", "content": text}]
        stream = await openai_client.chat.completions.create(model="helper", messages=messages, stream=True)
        # Plain code that knows nothing of tools or usage must survive every chunk.
        content = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(content) == expected


async def test_tool_progress_is_an_event_of_its_own(world: World) -> None:
    body = {"model": "helper", "messages": [{"role": "user", "content": "tool"}], "stream": True}
    async with world.http() as http:
        answer = await http.post("/v1/chat/completions", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.text.count("event: hermes.tool.progress\n") == 2
    assert '"tool":"terminal","call_id":"c1","state":"started"' in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")


async def test_notices_and_restarts_are_said_beside_text_that_says_nothing(world: World) -> None:
    body = {"model": "helper", "messages": [{"role": "user", "content": "repeat"}], "stream": True}
    async with world.http() as http:
        answer = await http.post("/v1/chat/completions", json=body)
    assert '"hermes":{"notice":"The model is overloaded; I ask another one."}' in answer.text
    assert answer.text.count('"hermes":{"restart":""}') == 1


async def test_an_answer_says_what_it_cost(world: World) -> None:
    async with world.http() as http:
        answer = (await http.post("/v1/chat/completions", json={"model": "helper", "messages": HELLO})).json()
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]) == (10, 4)
    assert (usage["hermes"]["cost_usd"], usage["hermes"]["cost_note"]) == ("0.00125", None)


async def test_a_failed_turn_is_an_answer_that_says_so(world: World) -> None:
    async with world.http() as http:
        body = {"model": "helper", "messages": [{"role": "user", "content": "fail"}]}
        answer = (await http.post("/v1/chat/completions", json=body)).json()
    assert answer["choices"][0]["message"]["content"] == "The model did not answer."
    assert (answer["hermes"]["outcome"], answer["hermes"]["reason"]) == ("failed", "model_error")


async def test_an_answer_whose_event_was_missed_comes_from_the_store(world: World) -> None:
    async with client(world) as openai_client:
        messages = [{"role": "user", "content": "silent"}]
        answer = await openai_client.chat.completions.create(model="helper", messages=messages)
    assert answer.choices[0].message.content == "Nobody told you."


async def test_a_front_end_that_resends_its_history_stays_in_one_session(world: World) -> None:
    longer = [*HELLO, {"role": "assistant", "content": "You said: hello"}, {"role": "user", "content": "and now?"}]
    async with client(world) as alice, client(world, BOB) as bob:
        for messages in (HELLO, longer):
            raw = await alice.chat.completions.with_raw_response.create(model="helper", messages=messages)
            header = raw.headers["x-hermes-session-id"]
        await bob.chat.completions.create(model="helper", messages=HELLO)
        await alice.chat.completions.create(model="helper", messages=HELLO, user="somebody else")
        named = {"X-Hermes-Session-Id": header}
        await bob.chat.completions.create(model="helper", messages=HELLO, extra_headers=named)
        await alice.chat.completions.create(model="helper", messages=HELLO, extra_headers=named)
    first, second, of_bob, of_other, stolen, continued = [m.sid for m in world.script.inbound]
    assert first == second == continued
    assert len({first, of_bob, of_other}) == 3
    assert stolen != first, "a session's client id opens nothing for another owner"
    assert world.script.inbound[1].text == "and now?"


async def test_system_messages_become_instructions(world: World) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "content": [{"type": "text", "text": "hello "}, {"type": "text", "text": "there"}]},
    ]
    async with world.http() as http:
        answer = await http.post("/v1/chat/completions", json={"model": "helper", "messages": messages, "temperature": 2})
    assert answer.status_code == 200
    assert world.script.inbound[0].instructions == "Be brief.\n\nBe kind."
    assert world.script.inbound[0].text == "hello there"


async def test_a_repeated_key_is_the_same_turn_and_another_message_a_conflict(world: World) -> None:
    headers = {"Idempotency-Key": "once"}
    other = await world.another_gateway(api_port=0)
    async with world.http() as http, httpx.AsyncClient(base_url=f"http://127.0.0.1:{other.api}") as second:
        second.headers.update(http.headers)
        await until_ready(second)
        body = {"model": "helper", "messages": HELLO}
        first = await http.post("/v1/chat/completions", json=body, headers=headers)
        again = await second.post("/v1/chat/completions", json=body, headers=headers)
        streamed = await second.post("/v1/chat/completions", json={**body, "stream": True}, headers=headers)
        changed = {"model": "helper", "messages": [{"role": "user", "content": "something else"}]}
        conflict = await second.post("/v1/chat/completions", json=changed, headers=headers)
        assert [first.status_code, again.status_code, conflict.status_code] == [200, 200, 409]
    assert first.json()["id"] == again.json()["id"]
    assert first.json()["choices"] == again.json()["choices"]
    assert "You said: hello" in streamed.text
    assert len(world.script.inbound) == 1
    assert await world.pending() == 1


async def test_two_calls_with_one_key_at_the_same_time_are_one_turn(world: World) -> None:
    body = {"model": "helper", "messages": [{"role": "user", "content": "wait"}]}
    async with world.http() as http, asyncio.TaskGroup() as group:
        calls = [
            group.create_task(http.post("/v1/chat/completions", json=body, headers={"Idempotency-Key": "k"}))
            for _ in range(2)
        ]
        await until(lambda: len(world.script.inbound) == 1)
        world.script.released.set()
    assert [call.result().status_code for call in calls] == [200, 200]
    assert len({call.result().json()["hermes"]["turn"] for call in calls}) == 1


async def test_a_late_answer_is_a_504_that_says_where_it_will_be(world: World) -> None:
    late = await world.another_gateway(answer_timeout_seconds=0.3)
    async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{late.api}/v1", api_key=ALICE) as openai_client:
        await until_ready(openai_client._client)
        with pytest.raises(openai.APIStatusError) as caught:
            messages = [{"role": "user", "content": "wait"}]
            await openai_client.chat.completions.create(model="helper", messages=messages)
    assert caught.value.status_code == 504
    # The client retries 5xx by itself, which would have been a second turn.
    assert len(world.script.inbound) == 1
    world.script.released.set()
    address = str(caught.value.body["message"]).split("GET ")[1]  # type: ignore[index]
    async with world.http() as http:
        while (turn := (await http.get(address)).json())["state"] != "done":
            await asyncio.sleep(0.02)
    assert turn["reply"] == "Let me think."


async def test_the_turn_goes_on_when_the_client_leaves(world: World) -> None:
    body = {"model": "helper", "messages": [{"role": "user", "content": "wait"}], "stream": True}
    async with world.http() as http, http.stream("POST", "/v1/chat/completions", json=body) as answer:
        async for line in answer.aiter_lines():
            if "Let me" in line:
                break
    world.script.released.set()
    await until(lambda: all(turn.reply == "Let me think." for turn in world.script.turns.values()))


async def test_models_are_the_profiles_of_the_key(world: World) -> None:
    async with client(world) as openai_client:
        models = [model.id async for model in openai_client.models.list()]
        assert models == ["helper", "sleepy"]
        assert (await openai_client.models.retrieve("helper")).owned_by == "team"
        with pytest.raises(openai.NotFoundError):
            await openai_client.models.retrieve("missing")
    await world.profile("missing")
    async with client(world) as openai_client:
        while [model.id async for model in openai_client.models.list()] != ["helper", "sleepy", "missing"]:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("key", "body", "status", "code"),
    [
        ("wrong", {"model": "helper", "messages": HELLO}, 401, "invalid_api_key"),
        (None, {"model": "helper", "messages": HELLO}, 401, "missing_api_key"),
        (NARROW, {"model": "helper", "messages": HELLO}, 403, "insufficient_scope"),
        (ALICE, {"model": "private", "messages": HELLO}, 403, "model_not_allowed"),
        (ALICE, {"model": "nobody", "messages": HELLO}, 404, "model_not_found"),
        (ALICE, {"model": "sleepy", "messages": HELLO}, 503, "model_not_ready"),
        (ALICE, {"model": "helper", "messages": []}, 400, "invalid_value"),
        (ALICE, {"model": "helper", "messages": [{"role": "assistant", "content": "x"}]}, 400, "unsupported_value"),
        (ALICE, {"model": "helper", "messages": [{"role": "user", "content": " "}]}, 400, "unsupported_value"),
        (ALICE, {"model": "helper", "messages": HELLO, "n": 2}, 400, "unsupported_value"),
        (ALICE, {"model": "helper", "messages": HELLO, "tools": [{}]}, 400, "unsupported_value"),
        (ALICE, {"messages": HELLO}, 400, "invalid_value"),
        (ALICE, {"model": "helper", "messages": [{"role": "user", "content": IMAGE}]}, 400, "invalid_image"),
        (ALICE, {"model": "helper", "messages": [{"role": "user", "content": "x" * 200_001}]}, 413, "request_too_large"),
    ],
)  # fmt: skip
async def test_refusals(world: World, key: str | None, body: dict[str, object], status: int, code: str) -> None:
    async with world.http(key) as http:
        answer = await http.post("/v1/chat/completions", json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["code"] == code
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert await world.pending() == 0


async def test_bodies_that_are_no_request(world: World) -> None:
    async with world.http() as http:
        broken = await http.post("/v1/chat/completions", content=b"{", headers={"Content-Type": "application/json"})
        large = await http.post("/v1/chat/completions", content=b"x" * (12 * 1024 * 1024 + 1))
        chunked = await http.post("/v1/chat/completions", content=pieces(13 * 1024))
        nowhere = await http.get("/v1/nothing")
        session = {"X-Hermes-Session-Id": "../../x"}
        body = {"model": "helper", "messages": HELLO}
        odd = await http.post("/v1/chat/completions", json=body, headers=session)
    assert (broken.status_code, broken.json()["error"]["code"]) == (400, "invalid_json")
    assert [large.status_code, chunked.status_code, nowhere.status_code, odd.status_code] == [413, 413, 404, 400]
    assert await world.pending() == 0


async def pieces(count: int):  # type: ignore[no-untyped-def]
    for _ in range(count):
        yield b"x" * 1024


async def until_ready(http: httpx.AsyncClient) -> None:
    path = "/models" if str(http.base_url).rstrip("/").endswith("/v1") else "/v1/models"
    headers = {"Authorization": f"Bearer {ALICE}"}
    while (await http.get(path, headers=headers)).json()["data"] == []:
        await asyncio.sleep(0.02)


async def test_a_full_session_is_a_429(world: World) -> None:
    headers = {"X-Hermes-Session-Id": "busy"}
    body = {"model": "helper", "messages": HELLO}
    async with world.http() as http:
        await http.post("/v1/chat/completions", json=body, headers=headers)
        sid = world.script.inbound[0].sid
        await fill(world, sid)
        answer = await http.post("/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["error"]["type"] == "rate_limit_error"


async def fill(world: World, sid: str) -> None:
    js = world.admin.jetstream()
    info = await js.stream_info(subjects.in_stream(sid))
    await js.update_stream(info.config.evolve(max_msgs_per_subject=1))


async def test_a_key_that_is_taken_away_stops_working(world: World) -> None:
    async with world.http(BOB) as http:
        assert (await http.get("/v1/models")).status_code == 200
        path = world.settings.api_keys_file
        records = [record for record in json.loads(path.read_text())["keys"] if record["owner"] != "bob"]
        path.write_text(json.dumps({"keys": records}))
        while (await http.get("/v1/models")).status_code != 401:
            await asyncio.sleep(0.1)


async def test_the_bus_away_is_a_503_and_coming_back_heals(world: World) -> None:
    impatient = await world.another_gateway(publish_timeout_seconds=0.2)
    body = {"model": "helper", "messages": HELLO}
    base = f"http://127.0.0.1:{impatient.api}"
    async with httpx.AsyncClient(base_url=base, timeout=20, headers={"Authorization": f"Bearer {ALICE}"}) as http:
        await until_ready(http)
        await world.nats.kill()
        answer = await http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 503
        assert "retry-after" in answer.headers
        assert (await http.get("/health")).status_code == 200
        assert (await http.get("/health/detailed")).json()["status"] == "degraded"
        await world.nats.start()
        while (await http.post("/v1/chat/completions", json=body)).status_code != 200:
            await asyncio.sleep(0.1)
        await world.profile("missing")
        while "missing" not in (await http.get("/v1/models")).text:
            await asyncio.sleep(0.05)


async def test_health_is_public_and_details_are_not(world: World) -> None:
    async with world.http(None) as http:
        assert (await http.get("/health")).json() == {"status": "ok"}
        assert (await http.get("/health/detailed")).status_code == 401
        described = (await http.get("/openapi.json")).json()
    assert "apiKey" in described["components"]["securitySchemes"]
    assert described["paths"]["/v1/chat/completions"]["post"]["security"] == [{"apiKey": []}]
    async with world.http() as http:
        health = (await http.get("/health/detailed")).json()
    assert health["status"] == "ok", health
