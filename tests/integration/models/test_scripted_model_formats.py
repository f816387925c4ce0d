"""The scripted model's newer formats, read by the providers' own clients and looked at on the wire."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import openai
import pytest

from scripted_model.bedrock_format import frame
from scripted_model.http_server import listen
from scripted_model.server import Server
from tests.integration.models.provider_kit import script
from tests.integration.models.provider_payloads import frame as frame_by_hand


class Scripted:
    def __init__(self, server: Server, port: int, http: httpx.AsyncClient) -> None:
        self.server, self.http = server, http
        self.openai = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="k", max_retries=0)


@pytest.fixture
async def scripted() -> AsyncIterator[Scripted]:
    server = Server(keep_requests=True)
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(listen(server.handle, "127.0.0.1", 0))
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}"))
        model = Scripted(server, port, http)
        stack.push_async_callback(model.openai.close)
        yield model


STEP: dict[str, Any] = {
    "reason": "let me think", "signature": "enc", "say": "hello 🙂", "calls": [{"name": "f", "arguments": {"a": "ü"}}],
    "usage": {"input": 100, "cached": 60, "output": 20, "reasoning": 8},
}  # fmt: skip


async def test_openais_client_reads_a_responses_stream(scripted: Scripted) -> None:
    stream = await scripted.openai.responses.create(model="gpt-5", input=script(STEP), stream=True)
    events = [event async for event in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "hello 🙂"
    assert "".join(e.delta for e in events if e.type == "response.reasoning_summary_text.delta") == "let me think"
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == "hello 🙂"
    kinds = [item.type for item in last.response.output]
    assert kinds == ["reasoning", "message", "function_call"]
    assert last.response.output[0].encrypted_content == "enc"  # type: ignore[union-attr]
    assert json.loads(last.response.output[2].arguments) == {"a": "ü"}  # type: ignore[union-attr]
    usage = last.response.usage
    assert usage is not None and (usage.input_tokens, usage.output_tokens) == (100, 20)
    assert usage.input_tokens_details.cached_tokens == 60 and usage.output_tokens_details.reasoning_tokens == 8


async def test_openais_client_reads_a_whole_response_and_its_ends(scripted: Scripted) -> None:
    answer = await scripted.openai.responses.create(model="gpt-5", input=script({"say": "so far", "finish": "length"}))
    assert answer.status == "incomplete" and answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens" and answer.output_text == "so far"
    with pytest.raises(openai.RateLimitError):
        await scripted.openai.responses.create(model="gpt-5", input=script({"error": "rate_limit"}))


async def test_steps_of_a_responses_conversation_count_answers_not_items(scripted: Scripted) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "terminal", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "out"}
    first = [{"role": "user", "content": script({"say": "0"}, {"say": "1"}, {"say": "2"})}]
    answer = [{"type": "reasoning", "id": "r", "summary": []}, {"role": "assistant", "content": "x"}, call, call]
    one = [*answer, result, result]
    for items, said in ((first, "0"), (first + one, "1"), (first + one + one, "2")):
        got = await scripted.http.post("/v1/responses", json={"model": "m", "input": items})
        assert got.json()["output"][0]["content"][0]["text"] == said


async def test_it_talks_and_runs_commands_without_a_script(scripted: Scripted) -> None:
    tool = {"type": "function", "name": "terminal", "parameters": {"properties": {"command": {}}}}
    body = {
        "model": "m",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "run ls"}]}],
        "tools": [tool],
    }
    got = (await scripted.http.post("/v1/responses", json=body)).json()
    assert got["output"][1]["name"] == "terminal" and json.loads(got["output"][1]["arguments"]) == {"command": "ls"}
    spec = {"toolSpec": {"name": "terminal", "inputSchema": {"json": {"properties": {"command": {}}}}}}
    converse = {
        "messages": [
            {"role": "user", "content": [{"text": "run ls"}, {"cachePoint": {"type": "default"}}]},
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c", "name": "terminal", "input": {}}}]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "c", "content": [{"text": "a.txt"}]}}]},
        ],
        "toolConfig": {"tools": [spec]},
    }  # fmt: skip
    got = (await scripted.http.post("/model/m/converse", json=converse, headers={"authorization": "Bearer k"})).json()
    assert "a.txt" in got["output"]["message"]["content"][0]["text"]


async def test_requests_are_kept_whole_only_when_asked_for(scripted: Scripted) -> None:
    await scripted.http.post("/v1/responses", json={"model": "m", "input": "hello"})
    assert scripted.server.memory.kept is not None and b"hello" in scripted.server.memory.kept[-1].body
    seen = (await scripted.http.get("/requests")).json()["requests"][-1]
    assert seen["format"] == "responses" and "hello" not in json.dumps(seen)
    assert Server().memory.kept is None
    await scripted.http.delete("/requests")
    assert not scripted.server.memory.kept


def test_frames_are_what_the_format_says() -> None:
    headers = {":message-type": "event", ":event-type": "messageStop"}
    assert frame(headers, b"{}") == frame_by_hand(b"{}", message_type="event", event_type="messageStop")
