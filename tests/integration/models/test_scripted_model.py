"""The scripted model by itself: what both public formats look like on the wire, and every way it can misbehave."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import anthropic
import httpx
import openai
import pytest

from scripted_model.http_server import listen
from scripted_model.server import Server
from tests.integration.models.harness import script, wait_for

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


class Scripted:
    def __init__(self, server: Server, port: int, http: httpx.AsyncClient) -> None:
        self.server, self.http = server, http
        url = f"http://127.0.0.1:{port}"
        self.openai = openai.AsyncOpenAI(base_url=url + "/v1", api_key="k", max_retries=0)
        self.anthropic = anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0)

    async def ask(self, *messages: dict[str, Any] | str, path: str = CHAT, **fields: Any) -> httpx.Response:
        listed = [{"role": "user", "content": m} if isinstance(m, str) else m for m in messages]
        return await self.http.post(path, json={"model": "m", "messages": listed, **fields})

    async def said(self, *messages: dict[str, Any] | str, **fields: Any) -> str:
        return str((await self.ask(*messages, **fields)).json()["choices"][0]["message"]["content"])


@pytest.fixture
async def scripted() -> AsyncIterator[Scripted]:
    server = Server()
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(listen(server.handle, "127.0.0.1", 0))
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}"))
        model = Scripted(server, port, http)
        stack.push_async_callback(model.openai.close)
        stack.push_async_callback(model.anthropic.close)
        yield model


def _sse(body: str) -> list[tuple[str | None, Any]]:
    found = []
    for block in body.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append((lines.get("event"), lines["data"] if lines["data"] == "[DONE]" else json.loads(lines["data"])))
    return found


async def test_openai_stream_on_the_wire(scripted: Scripted) -> None:
    step = {"say": "hello there", "chunk": 6, "calls": [{"name": "f", "arguments": {"a": 1}, "id": "call_1"}]}
    response = await scripted.ask(script(step), stream=True, stream_options={"include_usage": True})
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = [data for _, data in _sse(response.text)]
    assert events[-1] == "[DONE]"
    chunks = events[:-1]
    assert {c["object"] for c in chunks} == {"chat.completion.chunk"} and len({c["id"] for c in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert [c["choices"][0]["delta"].get("content") for c in chunks[1:3]] == ["hello ", "there"]
    call = chunks[3]["choices"][0]["delta"]["tool_calls"][0]
    assert call == {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls" and chunks[-2]["usage"] is None
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["total_tokens"] > 0


async def test_anthropic_stream_on_the_wire(scripted: Scripted) -> None:
    step = {"reason": "hm", "say": "hi", "calls": [{"name": "f"}]}
    response = await scripted.ask(script(step), path=MESSAGES, stream=True, max_tokens=5)
    events = _sse(response.text)
    assert all(name == data["type"] for name, data in events)
    assert [name for name, _ in events] == [
        "message_start",
        "content_block_start", "ping", "content_block_delta", "content_block_delta", "content_block_stop",
        "content_block_start", "content_block_delta", "content_block_stop",
        "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
        "message_delta", "message_stop",
    ]  # fmt: skip
    kinds = [data["delta"]["type"] for name, data in events if name == "content_block_delta"]
    assert kinds == ["thinking_delta", "signature_delta", "text_delta", "input_json_delta", "input_json_delta"]
    assert events[-2][1]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}


async def test_streamed_and_whole_answers_agree_for_the_official_sdks(scripted: Scripted) -> None:
    messages: Any = [{"role": "user", "content": script({"say": "word " * 30, "calls": [{"name": "f"}, {"name": "g"}]})}]
    whole = await scripted.openai.chat.completions.create(model="m", messages=messages)
    pieces = ""
    async for chunk in await scripted.openai.chat.completions.create(model="m", messages=messages, stream=True):
        pieces += chunk.choices[0].delta.content or ""
    assert whole.choices[0].message.content == pieces == "word " * 30
    assert [c.function.name for c in whole.choices[0].message.tool_calls or []] == ["f", "g"]  # type: ignore[union-attr]
    message = await scripted.anthropic.messages.create(model="m", max_tokens=9, messages=messages)
    async with scripted.anthropic.messages.stream(model="m", max_tokens=9, messages=messages) as stream:
        streamed = await stream.get_final_message()
    assert [b.type for b in message.content] == [b.type for b in streamed.content] == ["text", "tool_use", "tool_use"]
    models = await scripted.openai.models.list()
    assert [m.id for m in models.data] == ["scripted"]


TOOL = {"type": "function", "function": {"name": "terminal", "parameters": {"properties": {"command": {}}}}}


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("run ls", "ls"),
        ("!ls -la", "ls -la"),
        ("Please run `cat a | wc -l` for me", "cat a | wc -l"),
        ("Run the command uname -a", "uname -a"),
        ("[from Ada]\nrun ls", "ls"),
    ],
)
async def test_plain_words_run_commands(scripted: Scripted, text: str, command: str) -> None:
    answer = (await scripted.ask(text, tools=[TOOL])).json()["choices"][0]
    call = answer["message"]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"]) == {"command": command} and answer["finish_reason"] == "tool_calls"
    done = {"role": "tool", "tool_call_id": call["id"], "content": "the output"}
    said = await scripted.said(text, answer["message"], done, tools=[TOOL])
    assert command in said and "the output" in said
    assert "no tool" in await scripted.said(text)


async def test_without_a_script_it_says_what_it_is(scripted: Scripted) -> None:
    said = await scripted.said("I run every morning")
    assert "I run every morning" in said and "scripted model" in said and "spec.model" in said
    assert said == await scripted.said("I run every morning")


async def test_steps_follow_the_assistant_messages_not_the_process(scripted: Scripted) -> None:
    asked = script({"say": "one"}, {"say": "two"})
    assert await scripted.said(asked) == "one"
    one = {"role": "assistant", "content": "one"}
    assert await scripted.said(asked, one) == "two"
    assert await scripted.said(asked) == "one"
    assert "no more steps" in await scripted.said(asked, one, one)
    assert await scripted.said(script({"say": "again"}, then="repeat"), one, one, one) == "again"
    assert "scripted model" in await scripted.said(asked, one, "a new message")
    two_lines = 'Do this:\n#script {"say": "first line"}\n#script {"say": "second line"}'
    assert await scripted.said(two_lines, one) == "second line"


async def test_a_fault_with_times_happens_so_often_and_no_more(scripted: Scripted) -> None:
    asked = script({"status": 500, "times": 2}, {"say": "fine"})
    assert [(await scripted.ask(asked)).status_code for _ in range(3)] == [500, 500, 200]
    assert (await scripted.ask({"role": "system", "content": "other"}, asked)).status_code == 500, "another conversation"
    named = script({"status": 500, "times": 1}, {"say": "fine"}, id="n")
    other = {"role": "system", "content": "x"}
    assert (await scripted.ask(named)).status_code == 500 and (await scripted.ask(other, named)).status_code == 200
    await scripted.http.delete("/script")
    assert (await scripted.ask(named)).status_code == 500


async def test_broken_scripts_are_explained(scripted: Scripted) -> None:
    assert "not JSON" in await scripted.said("#script {say")
    assert "sya" in await scripted.said('#script {"sya": "typo"}')
    response = await scripted.http.post("/script", json={"match": "x", "steps": [{"status": 1}]})
    assert response.status_code == 422 and "steps.0.status" in response.text
    assert (await scripted.http.post("/script", content=b"x" * 300_000)).status_code == 413


async def test_scripts_by_api(scripted: Scripted) -> None:
    given = await scripted.http.post("/script", json={"match": "weather", "steps": [{"say": "sunny"}]})
    assert given.status_code == 200 and given.json()["id"]
    assert await scripted.said("how is the weather?") == "sunny"
    for number in range(250):
        await scripted.http.post("/script", json={"id": str(number), "match": f"m{number}", "steps": [{}]})
    assert len(scripted.server.memory.scripts) == 200


async def test_requests_are_remembered_without_content_or_secrets(scripted: Scripted) -> None:
    headers = {"authorization": "Bearer sk-secret"}
    body = {"model": "m", "messages": [{"role": "user", "content": "private words"}]}
    await scripted.http.post(CHAT, json=body, headers=headers)
    seen = (await scripted.http.get("/requests")).text
    assert "authorization" in seen and "sk-secret" not in seen and "private words" not in seen
    one = json.loads(seen)["requests"][0]
    assert one["outcome"] == "complete" and len(one["prefix"]) == 3 and one["bytes"] > 0
    for _ in range(600):
        scripted.server.memory.requests.append(scripted.server.memory.requests[0])
    assert len(scripted.server.memory.requests) == 500


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_cuts_and_silence(scripted: Scripted, path: str) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await scripted.ask(script({"say": "x" * 100, "cut_after_bytes": 50}), path=path, stream=True)
    assert scripted.server.memory.requests[-1].outcome == "cut"
    with pytest.raises(httpx.RemoteProtocolError):
        await scripted.ask(script({"say": "x" * 100, "cut_after_bytes": 50}), path=path)
    waiting = asyncio.create_task(scripted.ask(script({"hang_seconds": 600, "hang_at": "start"}), path=path, stream=True))
    await wait_for(lambda: scripted.server.memory.requests[-1].outcome == "running")
    waiting.cancel()
    await wait_for(lambda: scripted.server.memory.requests[-1].outcome == "disconnected")


async def test_bad_requests_are_refused_in_the_providers_shape(scripted: Scripted) -> None:
    for path in (CHAT, MESSAGES):
        for body in (b"{", b"[]", b'{"model": "m"}', b'{"model": "m", "messages": []}'):
            response = await scripted.http.post(path, content=body)
            assert response.status_code == 400 and response.json()["error"]["type"] == "invalid_request_error"
    assert (await scripted.http.get("/nowhere")).status_code == 404
    assert (await scripted.http.get("/readyz")).status_code == 200


async def test_pipelined_requests_are_answered_in_order(scripted: Scripted) -> None:
    port = scripted.http.base_url.port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for text in ('#script {"say": "one", "first_ms": 50}', '#script {"say": "two"}'):
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    answers = []
    for _ in range(2):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        answers.append(json.loads(await reader.readexactly(length))["choices"][0]["message"]["content"])
    assert answers == ["one", "two"]
    writer.close()
    await writer.wait_closed()


async def test_as_a_process_on_its_own_loop(unused_tcp_port_factory: Any) -> None:
    """uvloop's transports differ from asyncio's; the process must answer and end on SIGTERM."""
    port = unused_tcp_port_factory()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "scripted_model", "--host", "127.0.0.1", "--port", str(port),
        env={"PYTHONPATH": "libs:tools"}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            started = json.loads(await process.stdout.readline())
        assert started["event"] == "scripted_model.started" and started["port"] == port
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
            assert (await http.post(CHAT, json=body)).text.endswith("data: [DONE]\n\n")
        before = time.monotonic()
        process.terminate()
        assert await process.wait() == 0 and time.monotonic() - before < 5
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
