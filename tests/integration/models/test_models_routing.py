"""Keys, waits and stand-ins inside one call, through the real SDKs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes_contracts.conversation import Message, ReasoningPart, Role, TextPart
from hermes_contracts.errors import ErrorCode
from hermes_contracts.model_api import MODEL_PATH, Finish, ModelError, ModelEvent, ModelInfo, Purpose, Restart
from hermes_gateway.models.retry import RetryPolicy
from tests.integration.models.harness import Models, ask, running, script, secret, text, wait_for

REF = {"secretRef": {"name": "key"}}
TWO_KEYS = {"type": "hermes.run/provider", "data": {"api-key": "first", "api-key-2": "second", "hosts": "127.0.0.1"}}


def restarts(events: list[ModelEvent]) -> list[Restart]:
    return [event for event in events if isinstance(event, Restart)]


def with_fallback(models: Models, **fields: Any) -> None:
    fallback = {"provider": "anthropic", "name": "stand-in", "baseUrl": models.base, "secretRef": {"name": "other"}}
    model = {"provider": "openai", "name": "main", "baseUrl": models.base + "/v1", **REF, "fallbacks": [fallback]}
    secrets = {"key": secret(key="main-key"), "other": secret(key="other-key")}
    models.add_spec("guarded", {"model": {**model, **fields}}, secrets)


async def test_a_fallback_answers_and_the_main_model_is_back_after_its_rest(models: Models) -> None:
    with_fallback(models)
    billing = {"error": "billing", "times": 1}
    events = await models.play(billing, {"say": "here I am"}, profile="guarded")
    assert text(events) == "here I am"
    (restart,) = restarts(events)
    assert (restart.code, restart.attempt, restart.wait_seconds) == (ErrorCode.BILLING, 2, 0)
    assert (restart.provider, restart.model) == ("anthropic", "stand-in")
    end = events[-1]
    assert isinstance(end, Finish) and (end.provider, end.context_window) == ("anthropic", 128_000)
    assert models.shown_keys() == ["main-key", "other-key"]

    models.clock.now = 3599
    assert not restarts(await models.events(ask("later in this turn"), "guarded"))
    assert models.shown_keys()[2:] == ["other-key"], "the turn stays where it went"
    models.clock.now = 3601
    assert not restarts(await models.events(ask("the next day"), "guarded"))
    assert models.shown_keys()[3:] == ["main-key"]
    records = await wait_for(lambda: len(models.records) == 4 and models.records)
    assert [(r.provider, r.outcome) for r in records] == [
        ("openai", "billing"), ("anthropic", "ok"), ("anthropic", "ok"), ("openai", "ok"),
    ]  # fmt: skip


async def test_who_had_nothing_to_say_is_passed_over_and_nobody_is_asked_twice(models: Models) -> None:
    with_fallback(models)
    first = (await models.events(ask("hello"), "guarded"))[-1]
    assert isinstance(first, Finish) and first.place == "model"
    second = (await models.events(ask("hello", passed_over=("model",)), "guarded"))[-1]
    assert isinstance(second, Finish) and second.place == "model.fallbacks[0]"
    assert models.shown_keys() == ["main-key", "other-key"]
    nobody = (await models.events(ask("hello", passed_over=("model", "model.fallbacks[0]")), "guarded"))[-1]
    assert isinstance(nobody, ModelError) and nobody.code is ErrorCode.NOT_CONFIGURED
    assert len(models.shown_keys()) == 2


async def test_when_nobody_can_answer_the_main_models_failure_is_told(models: Models) -> None:
    with_fallback(models)
    error = await models.error({"status": 500}, profile="guarded")
    assert error.code is ErrorCode.SERVER_ERROR and error.retryable
    assert error.message == "The provider had an internal error. No other model could answer either."
    assert models.shown_keys() == ["main-key"] * 3 + ["other-key"] * 3


async def test_an_overflow_goes_to_the_agent_at_once(models: Models) -> None:
    with_fallback(models)
    error = await models.error({"error": "context_overflow"}, profile="guarded")
    assert (error.code, error.context_window) == (ErrorCode.CONTEXT_OVERFLOW, 128_000)
    assert models.shown_keys() == ["main-key"]
    assert not restarts(await models.events(ask("a shorter one"), "guarded")) and models.shown_keys()[-1] == "main-key"


async def test_a_broken_stand_in_is_skipped_in_silence(models: Models) -> None:
    with_fallback(models, fallbacks=[
        {"provider": "openai", "name": "a", "secretRef": {"name": "missing"}},
        {"provider": "groq", "name": "b"},
        {"provider": "openai", "name": "c", "baseUrl": models.base + "/v1", "secretRef": {"name": "other"}},
    ])  # fmt: skip
    events = await models.play({"error": "auth", "times": 1}, {"say": "c"}, profile="guarded")
    assert text(events) == "c" and models.shown_keys() == ["main-key", "other-key"]
    assert [r.model for r in restarts(events)] == ["a"], "one announcement for one failure"


async def test_a_main_model_that_is_not_set_up_is_stood_in_for(models: Models) -> None:
    with_fallback(models, secretRef={"name": "gone"})
    events = await models.events(ask("hello"), "guarded")
    assert isinstance(events[-1], Finish) and not restarts(events) and models.shown_keys() == ["other-key"]


@pytest.mark.parametrize(("step", "rest"), [({"error": "auth"}, 300), ({"status": 429}, 3600), ({"status": 402}, 3600)])
async def test_keys_of_a_pool_take_over_from_each_other(models: Models, step: dict[str, Any], rest: float) -> None:
    models.add_profile("pool", {"provider": "openai", "name": "m", "baseUrl": models.base + "/v1", **REF}, key=TWO_KEYS)
    events = await models.play({**step, "times": 1}, {"say": "fine"}, profile="pool")
    assert text(events) == "fine" and restarts(events)[0].wait_seconds == 0
    assert models.shown_keys() == ["first", "second"]
    for _ in range(3):
        await models.events(ask("again"), "pool")
    assert models.shown_keys()[2:] == ["second"] * 3
    models.clock.now = rest + 1
    for _ in range(4):
        await models.events(ask("again"), "pool")
    assert models.shown_keys()[5:].count("first") >= 3, "the key in least use serves"


async def test_a_whole_pool_that_is_refused_is_tried_once_each(models: Models) -> None:
    models.add_profile("pool", {"provider": "openai", "name": "m", "baseUrl": models.base + "/v1", **REF}, key=TWO_KEYS)
    error = await models.error({"error": "auth"}, profile="pool")
    assert error.code is ErrorCode.AUTH and models.shown_keys() == ["first", "second"]


async def test_calls_at_once_spread_over_a_pool(models: Models) -> None:
    models.add_profile("pool", {"provider": "openai", "name": "m", "baseUrl": models.base + "/v1", **REF}, key=TWO_KEYS)
    async with asyncio.TaskGroup() as group:
        for _ in range(6):
            group.create_task(models.play({"say": "abc", "chunk": 1, "pause_ms": 30}, profile="pool"))
    assert sorted(models.shown_keys()) == ["first"] * 3 + ["second"] * 3


async def test_a_wait_is_announced_before_it_and_can_be_walked_away_from(tmp_path: Path) -> None:
    async with running(tmp_path, policy=RetryPolicy(base_seconds=600, cap_seconds=900)) as models:
        request = ask(script({"status": 500}))
        async with asyncio.timeout(5):
            async with models.http.stream(
                "POST", "/v1/stream", content=request.model_dump_json(), headers=models.headers("openai")
            ) as response:
                line = await anext(response.aiter_lines())
        restart = Restart.model_validate_json(line)
        assert 600 <= restart.wait_seconds <= 900 and restart.code is ErrorCode.SERVER_ERROR
        await wait_for(lambda: models.metrics.active._value.get() == 0)
        assert len(models.memory.requests) == 1


async def test_a_wait_that_the_call_has_no_time_for_ends_it(tmp_path: Path) -> None:
    async with running(tmp_path, policy=RetryPolicy(base_seconds=100), call_seconds=20) as models:
        events = await models.play({"status": 500}, profile="openai")
        assert isinstance(events[-1], ModelError) and events[-1].code is ErrorCode.SERVER_ERROR


@pytest.mark.parametrize("mode", ["chat_completions", "responses", "anthropic_messages", "bedrock_converse"])
async def test_the_scripted_model_serves_every_wire_format(models: Models, mode: str) -> None:
    models.add_profile("any", {"provider": "scripted", "name": "scripted", "apiMode": mode})
    events = await models.play({"say": "hello there"}, profile="any")
    end = events[-1]
    assert text(events) == "hello there" and isinstance(end, Finish)
    assert (end.usage.cost_nano_usd, end.usage.unpriced_calls, end.context_window) == (0, 0, 200_000)


async def test_thoughts_a_provider_does_not_take_back_are_left_out_once(models: Models) -> None:
    thought = ReasoningPart(text="hm", signature="s", origin="anthropic_messages/claude-sonnet-4")
    history = (
        Message.user("first"),
        Message(role=Role.ASSISTANT, parts=(thought, TextPart(text="one"))),
        Message.user(script({"error": "reasoning_refused", "times": 1}, {"say": "better"}, id="once")),
    )
    events = await models.events(ask(*history), "anthropic")
    assert text(events) == "better" and len(restarts(events)) == 1 and restarts(events)[0].wait_seconds == 0
    assert models.memory.kept is not None
    first, second = (request.body for request in models.memory.kept)
    assert b'"thinking"' in first and b'"thinking"' not in second


async def test_an_answer_that_may_not_be_so_long_is_asked_for_shorter(models: Models) -> None:
    step = {"error": "output_allowance", "times": 1}
    events = await models.play(step, {"say": "short"}, profile="openai", max_output_tokens=200_000)
    assert text(events) == "short" and len(restarts(events)) == 1
    assert models.memory.kept is not None and b"16320" in models.memory.kept[-1].body


async def test_side_jobs_go_to_their_own_model_and_then_to_the_main_one(models: Models) -> None:
    side = {"provider": "openai", "name": "small", "baseUrl": models.base + "/v1", "secretRef": {"name": "other"}}
    with_fallback(models, auxiliary={"compression": side})
    await models.events(ask("sum up", purpose=Purpose.COMPRESSION), "guarded")
    await models.events(ask("name it", purpose=Purpose.TITLE), "guarded")
    assert [seen.model for seen in models.memory.requests] == ["small", "main"]
    broken = {"error": "model_not_found", "times": 1}
    events = await models.play(broken, {"say": "summary"}, profile="guarded", purpose=Purpose.COMPRESSION)
    assert text(events) == "summary" and [seen.model for seen in models.memory.requests][2:] == ["small", "main"]
    records = await wait_for(lambda: len(models.records) == 4 and models.records)
    assert [r.purpose for r in records] == ["compression", "title", "compression", "compression"]


async def _info(models: Models, profile: str, **query: str) -> Any:
    return await models.http.get(MODEL_PATH, headers=models.headers(profile), params=query)


async def test_an_agent_asks_what_its_model_can_do(models: Models) -> None:
    side = {"provider": "openai", "name": "gpt-4o-mini", **REF, "facts": {"contextWindow": 70_000}}
    with_fallback(models, auxiliary={"title": side}, name="gpt-5", apiMode="responses")
    info = ModelInfo.model_validate((await _info(models, "guarded")).json())
    assert (info.model, info.api_mode, info.context_window) == ("gpt-5", "responses", 272_000)
    assert (info.vision, info.reasoning, info.prompt_cache, info.max_output_tokens) == (True, True, True, 128_000)
    info = ModelInfo.model_validate((await _info(models, "guarded", purpose="title")).json())
    assert (info.model, info.context_window) == ("gpt-4o-mini", 70_000)
    await models.play({"error": "auth", "times": 1}, {"say": "x"}, profile="guarded")
    info = ModelInfo.model_validate((await _info(models, "guarded")).json())
    assert info.model == "stand-in", "while the main model rests"

    response = await _info(models, "guarded", purpose="poetry")
    assert (response.status_code, response.json()["code"]) == (422, "invalid")
    assert (await models.http.get(MODEL_PATH)).status_code == 401
    models.add_profile("tiny", {"provider": "openai", "name": "gpt-4", **REF})
    response = await _info(models, "tiny")
    assert response.status_code == 409 and "model.facts.contextWindow" in response.json()["message"]
