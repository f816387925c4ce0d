"""What each provider owes the rest of the service, the same for all four wires: answers, requests, cancellation."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from hermes_contracts.conversation import (
    ImagePart,
    Message,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from hermes_contracts.model_api import Finish, FinishReason, ModelEvent, ReasoningDelta, ToolCallStart
from hermes_contracts.providers import ApiMode
from hermes_gateway.models.target import Medium
from tests.integration.models.provider_kit import (
    AWS,
    KNOWN,
    MODES,
    TERMINAL,
    Kit,
    ask,
    calls,
    script,
    scripted_kit,
    target,
    text,
    thoughts,
    wait_for,
)

ALL = pytest.mark.parametrize("mode", MODES)
MEDIA_ID = "m" + "a" * 25
PNG = b"\x89PNG\r\n\x1a\nnot really"


@pytest.fixture
async def kit() -> AsyncIterator[Kit]:
    async with scripted_kit() as running:
        yield running


def _finish(events: list[ModelEvent]) -> Finish:
    last = events[-1]
    assert isinstance(last, Finish) and sum(isinstance(e, Finish) for e in events) == 1
    return last


@ALL
async def test_text_comes_in_pieces_and_in_order(kit: Kit, mode: ApiMode) -> None:
    events = await kit.play(mode, {"say": "Grüße, 世界 🙂 and more", "chunk": 3})
    assert text(events) == "Grüße, 世界 🙂 and more"
    assert len(events) > 5
    assert _finish(events).reason is FinishReason.STOP


@ALL
async def test_thoughts_parallel_calls_and_text(kit: Kit, mode: ApiMode) -> None:
    step = {
        "reason": "let me think about it", "signature": "signed", "say": "two things",
        "calls": [{"name": "a", "arguments": {"x": 1}}, {"name": "b", "arguments": {"y": "ü\\\"" * 40}}, {"name": "c"}],
    }  # fmt: skip
    events = await kit.play(mode, step)
    assert thoughts(events) == "let me think about it" and text(events) == "two things"
    assert [(name, json.loads(arguments or "{}")) for name, arguments in calls(events)] == [
        ("a", {"x": 1}), ("b", {"y": "ü\\\"" * 40}), ("c", {}),
    ]  # fmt: skip
    assert len({e.id for e in events if isinstance(e, ToolCallStart)}) == 3
    assert _finish(events).reason is FinishReason.TOOL_CALLS
    found = [e for e in events if isinstance(e, ReasoningDelta)]
    assert {e.origin for e in found} == {target(mode, 1).origin}
    ends = [e for e in found if e.signature or e.data]
    assert [e.signature or e.data for e in ends] == ([] if mode == "chat_completions" else ["signed"])


@ALL
async def test_usage(kit: Kit, mode: ApiMode) -> None:
    step = {"say": "x", "usage": {"input": 100, "cached": 60, "cache_write": 30, "output": 20, "reasoning": 8}}
    usage = _finish(await kit.play(mode, step)).usage
    openai = mode in ("chat_completions", "responses")
    assert usage == Usage(
        input_tokens=100, cached_input_tokens=60, cache_write_tokens=0 if openai else 30, output_tokens=20,
        reasoning_tokens=8 if openai else 0, model_calls=1,
    )  # fmt: skip


@ALL
@pytest.mark.parametrize(
    ("finish", "reason"),
    [("length", FinishReason.LENGTH), ("refused", FinishReason.REFUSED), ("stop", FinishReason.STOP)],
)
async def test_finish_reasons(kit: Kit, mode: ApiMode, finish: str, reason: FinishReason) -> None:
    assert _finish(await kit.play(mode, {"say": "so far", "finish": finish})).reason is reason


@ALL
async def test_an_empty_answer_and_broken_arguments_pass_as_they_are(kit: Kit, mode: ApiMode) -> None:
    assert len(await kit.play(mode, {})) == 1
    assert calls(await kit.play(mode, {"calls": [{"name": "f", "raw": '{"a": '}]})) == [("f", '{"a": ')]


@ALL
async def test_a_picture_goes_out_and_one_that_is_gone_is_told_in_words(kit: Kit, mode: ApiMode) -> None:
    parts = (TextPart(text="What is it?"), ImagePart(media_id=MEDIA_ID, media_type="image/png", size=len(PNG)))
    message = Message(role=Role.USER, parts=parts)
    await kit.events(mode, ask(message), {MEDIA_ID: Medium("image/png", PNG)})
    sent = b64encode(PNG).decode()
    content = kit.body()["input" if mode == "responses" else "messages"][-1]["content"]
    expected: dict[ApiMode, dict[str, Any]] = {
        "chat_completions": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{sent}"}},
        "responses": {"type": "input_image", "image_url": f"data:image/png;base64,{sent}"},
        "anthropic_messages": {
            "type": "image", "source": {"type": "base64", "media_type": "image/png", "data": sent},
            "cache_control": {"type": "ephemeral"},
        },
        "bedrock_converse": {"image": {"format": "png", "source": {"bytes": sent}}},
    }  # fmt: skip
    assert content[1] == expected[mode]
    await kit.events(mode, ask(message))
    assert b"cannot be read any more" in kit.asked().body and sent.encode() not in kit.asked().body


@ALL
async def test_thoughts_go_back_to_the_model_that_had_them_and_to_no_other(kit: Kit, mode: ApiMode) -> None:
    parts = (
        ReasoningPart(text="a private thought", signature="sig", origin=target(mode, 1).origin),
        ReasoningPart(text="", data="opaque", item_id="rs_1", origin=target(mode, 1).origin),
        ReasoningPart(text="somebody else's", signature="x", data="y", item_id="z", origin="other/model"),
        ToolCallPart(id="c1", name="terminal", arguments="{}"),
    )
    history = (
        Message.user("hi"),
        Message(role=Role.ASSISTANT, parts=parts),
        Message(role=Role.TOOL, parts=(ToolResultPart(call_id="c1", name="terminal", text="ok"),)),
    )
    await kit.events(mode, ask(*history, tools=(TERMINAL,)))
    assert "somebody" not in (sent := kit.asked().body.decode()) and '"y"' not in sent
    assert ("opaque" in sent) == (mode != "chat_completions")
    assert ("a private thought" in sent) == (mode in ("anthropic_messages", "bedrock_converse"))
    await kit.events(mode, ask(*history, tools=(TERMINAL,)), model="another")
    assert "opaque" not in kit.asked().body.decode() and "private" not in kit.asked().body.decode()


@ALL
async def test_each_request_continues_the_one_before(kit: Kit, mode: ApiMode) -> None:
    history = [Message.user("first"), Message.assistant("one"), Message.user(script({"say": "x"}))]
    for n in range(12):
        thought = ReasoningPart(text="hm", signature="s", data="d", item_id="rs", origin=target(mode, 1).origin)
        call = ToolCallPart(id=f"c{n}", name="terminal", arguments='{"command": "ls",  "z": 1}')
        result = ToolResultPart(call_id=f"c{n}", name="terminal", text="" if n % 2 else "out", is_error=bool(n % 2))
        history.append(Message(role=Role.ASSISTANT, parts=(thought, TextPart(text=f"step {n}"), call)))
        history.append(Message(role=Role.TOOL, parts=(result,)))
    for length in (1, 3, *range(5, len(history) + 1, 2)):
        await kit.events(mode, ask(*history[:length], tools=(TERMINAL,)))
    prefixes = [list(seen.prefix) for seen in kit.memory.requests]
    assert len(prefixes) == 14
    for shorter, longer in pairwise(prefixes):
        assert longer[: len(shorter)] == shorter and len(longer) > len(shorter)
    await kit.events(mode, ask(*history, tools=(TERMINAL,)))
    assert kit.memory.requests[-1].sha256 == kit.memory.requests[-2].sha256, "the same call is the same bytes"
    assert kit.asked().body.count(b"cache_control") + kit.asked().body.count(b"cachePoint") <= 4


@ALL
@pytest.mark.parametrize("place", ["headers", "start", "middle"])
async def test_closing_the_stream_hangs_up_on_the_provider(kit: Kit, mode: ApiMode, place: str) -> None:
    step = {"say": "firstsecond", "chunk": 5, "hang_seconds": 600, "hang_at": place}

    async def read() -> None:
        await kit.play(mode, step)

    task = asyncio.create_task(read())
    await wait_for(lambda: kit.memory.requests)
    task.cancel()
    async with asyncio.timeout(1):
        with pytest.raises(asyncio.CancelledError):
            await task
    await wait_for(lambda: kit.memory.requests[-1].outcome == "disconnected", 1)


@ALL
async def test_warm_connections_are_used_again(kit: Kit, mode: ApiMode) -> None:
    for _ in range(5):
        await kit.events(mode, ask("hello"))
    assert len({seen.peer for seen in kit.memory.requests}) == 1


@ALL
async def test_the_conversation_names_its_cache_where_there_is_one(kit: Kit, mode: ApiMode) -> None:
    await kit.events(mode, ask("hello"))
    assert kit.body().get("prompt_cache_key") == ("c1" if mode == "responses" else None)
    plain = type(KNOWN)(200_000, 32_000, vision=True, reasoning=False, prompt_cache=False)
    await kit.events(mode, ask("hello", tools=(TERMINAL,)), known=plain, effort="High")
    sent = kit.asked().body
    for word in (b"cache_control", b"cachePoint", b"prompt_cache_key", b"effort", b"thinking", b"reasoning"):
        assert word not in sent, word


async def test_aws_keys_sign_and_are_not_sent(kit: Kit) -> None:
    await kit.events("bedrock_converse", ask("hello"))
    request = kit.asked()
    assert request.path == "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream"
    assert request.headers["authorization"].startswith(f"AWS4-HMAC-SHA256 Credential={AWS.access_key_id}/")
    assert "/eu-central-1/bedrock/aws4_request" in request.headers["authorization"]
    assert request.headers["x-amz-security-token"] == AWS.session_token
    assert AWS.secret_access_key not in str(request.headers)
