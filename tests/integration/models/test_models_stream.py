"""A conversation through the service: neutral in, neutral out, the same on either wire."""

from __future__ import annotations

import asyncio
import json

import pytest

from hermes_contracts.conversation import Message, ReasoningPart, Role, TextPart, ToolCallPart, ToolResultPart, Usage
from hermes_contracts.model_api import (
    STREAM_PATH,
    Finish,
    FinishReason,
    ReasoningDelta,
    ToolCallDelta,
    ToolCallStart,
)
from tests.integration.models.harness import SID, TERMINAL, Models, ask, script, text, wait_for

WIRES = pytest.mark.parametrize("profile", ["scripted", "openai", "anthropic"])


@WIRES
async def test_a_greeting_is_answered_and_accounted_for(models: Models, profile: str) -> None:
    events = await models.events(ask("hello"), profile)
    assert "You said: “hello”" in text(events)
    end = events[-1]
    assert isinstance(end, Finish)
    assert end.reason is FinishReason.STOP
    assert end.usage.input_tokens > 0 and end.usage.output_tokens > 0 and end.usage.model_calls == 1
    record = await wait_for(lambda: models.records and models.records[0])
    assert (record.sid, record.epoch, record.turn_id, record.step) == (SID, 3, "t1", 0)
    assert (record.provider, record.outcome, record.usage) == (profile, "ok", end.usage)
    assert record.milliseconds > 0


@WIRES
async def test_a_tool_round(models: Models, profile: str) -> None:
    first = await models.events(ask("run `ls`", tools=(TERMINAL,)), profile)
    start = next(e for e in first if isinstance(e, ToolCallStart))
    arguments = "".join(e.arguments for e in first if isinstance(e, ToolCallDelta))
    assert start.name == "terminal" and json.loads(arguments) == {"command": "ls"}
    assert isinstance(first[-1], Finish) and first[-1].reason is FinishReason.TOOL_CALLS

    call = ToolCallPart(id=start.id, name="terminal", arguments=arguments)
    result = ToolResultPart(call_id=start.id, name="terminal", text="README.md\n")
    history = (
        Message.user("run `ls`"),
        Message(role=Role.ASSISTANT, parts=(TextPart(text=text(first)), call)),
        Message(role=Role.TOOL, parts=(result,)),
    )
    second = await models.events(ask(*history, tools=(TERMINAL,), step=1), profile)
    assert "README.md" in text(second)


@WIRES
async def test_parallel_calls_and_reasoning_keep_their_order(models: Models, profile: str) -> None:
    step = {
        "reason": "let me think about it for a while",
        "signature": "signed",
        "say": "two things",
        "calls": [{"name": "a", "arguments": {"x": 1}}, {"name": "b", "arguments": {"y": "ü" * 40}}],
        "usage": {"input": 100, "cached": 60, "output": 20, "reasoning": 8},
    }
    events = await models.play(step, profile=profile)
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == step["reason"]
    assert text(events) == "two things"
    starts = [e for e in events if isinstance(e, ToolCallStart)]
    assert [(s.index, s.name) for s in starts] == [(0, "a"), (1, "b")]
    assert len({s.id for s in starts}) == 2
    second = "".join(e.arguments for e in events if isinstance(e, ToolCallDelta) and e.index == 1)
    assert json.loads(second) == {"y": "ü" * 40}
    end = events[-1]
    assert isinstance(end, Finish)
    reasoning = 0 if profile == "anthropic" else 8
    unpriced = 0 if profile == "scripted" else 1
    assert end.usage == Usage(
        input_tokens=100, cached_input_tokens=60, output_tokens=20, reasoning_tokens=reasoning, model_calls=1,
        unpriced_calls=unpriced,
    )  # fmt: skip
    if profile == "anthropic":
        assert [e.signature for e in events if isinstance(e, ReasoningDelta) and e.signature] == ["signed"]


@WIRES
@pytest.mark.parametrize(
    ("finish", "reason"),
    [("length", FinishReason.LENGTH), ("refused", FinishReason.REFUSED), ("stop", FinishReason.STOP)],
)
async def test_finish_reasons(models: Models, profile: str, finish: str, reason: FinishReason) -> None:
    end = (await models.play({"say": "so far", "finish": finish}, profile=profile))[-1]
    assert isinstance(end, Finish) and end.reason is reason


@WIRES
async def test_an_empty_answer_and_broken_arguments_pass_as_they_are(models: Models, profile: str) -> None:
    empty = await models.play({}, profile=profile)
    assert len(empty) == 1 and isinstance(empty[0], Finish)
    broken = await models.play({"calls": [{"name": "f", "raw": '{"a": '}]}, profile=profile)
    assert "".join(e.arguments for e in broken if isinstance(e, ToolCallDelta)) == '{"a": '


@WIRES
async def test_each_request_continues_the_one_before_byte_for_byte(models: Models, profile: str) -> None:
    history = [Message.user("first"), Message.assistant("one")]
    await models.events(ask(history[0], tools=(TERMINAL,)), profile)
    history += [
        Message.user(script({"say": "x"})),
        Message(
            role=Role.ASSISTANT,
            parts=(
                ReasoningPart(text="hm", signature="s"),
                ToolCallPart(id="c1", name="terminal", arguments='{"command": "ls",  "z": 1}'),
            ),
        ),
        Message(role=Role.TOOL, parts=(ToolResultPart(call_id="c1", name="terminal", text="", is_error=True),)),
    ]
    await models.events(ask(*history[:3], tools=(TERMINAL,)), profile)
    await models.events(ask(*history, tools=(TERMINAL,)), profile)
    first, second, third = (list(seen.prefix) for seen in models.memory.requests)
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    same = await models.events(ask(*history, tools=(TERMINAL,)), profile)
    assert same and models.memory.requests[-1].sha256 == models.memory.requests[-2].sha256


@WIRES
async def test_pieces_leave_at_once_while_the_provider_is_still_talking(models: Models, profile: str) -> None:
    request = ask(script({"say": "firstsecond", "chunk": 5, "hang_seconds": 600}))
    async with models.http.stream(
        "POST", STREAM_PATH, content=request.model_dump_json(), headers=models.headers(profile)
    ) as response:
        async with asyncio.timeout(5):
            line = await anext(response.aiter_lines())
    assert json.loads(line) == {"type": "text", "text": "first"}


@WIRES
async def test_the_provider_is_hung_up_on_when_the_client_goes(models: Models, profile: str) -> None:
    request = ask(script({"say": "firstsecond", "chunk": 5, "hang_seconds": 600}))
    async with models.http.stream(
        "POST", STREAM_PATH, content=request.model_dump_json(), headers=models.headers(profile)
    ) as response:
        await anext(response.aiter_lines())
        assert models.memory.requests[-1].outcome == "running"
    await wait_for(lambda: models.memory.requests[-1].outcome == "disconnected", 2)
    record = await wait_for(lambda: models.records and models.records[0])
    assert record.outcome == "cancelled"


@WIRES
async def test_the_provider_is_hung_up_on_before_its_first_byte_too(models: Models, profile: str) -> None:
    request = ask(script({"hang_seconds": 600, "hang_at": "headers"}))
    async with models.http.stream("POST", STREAM_PATH, content=request.model_dump_json(), headers=models.headers(profile)):
        await wait_for(lambda: models.memory.requests)
    await wait_for(lambda: models.memory.requests[-1].outcome == "disconnected", 2)


async def test_a_long_stream_arrives_whole(models: Models) -> None:
    events = await models.play({"say": "0123456789", "repeat": 20_000, "chunk": 10})
    assert text(events) == "0123456789" * 20_000


async def test_warm_connections_are_used_again(models: Models) -> None:
    for profile in ("openai", "anthropic"):
        for _ in range(5):
            await models.events(ask("hello"), profile)
    assert len({seen.peer for seen in models.memory.requests if seen.format == "openai"}) == 1
    assert len({seen.peer for seen in models.memory.requests if seen.format == "anthropic"}) == 1
