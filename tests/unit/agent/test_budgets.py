"""A turn's limits: steps, time, tokens, money, silence. A warning, then a clean last word, and the reason on record."""

from __future__ import annotations

import asyncio
import time

import pytest

from hermes_agent.loop.budget import budgets, warning
from hermes_agent.loop.limits import Limits
from hermes_agent.loop.liveness import Pulse, watch_event_loop, watch_turn
from hermes_agent.loop.outcome import EndReason
from hermes_agent.testing.model import Piece, Reply, ScriptedModel, Wait, call, say
from hermes_contracts.conversation import Role, Usage
from hermes_contracts.model_api import Finish, FinishReason, Heartbeat, ModelRequest, TextDelta
from tests.unit.agent.agent_scene import CONFIG, Scene


def round_of(number: int, **usage: int) -> list[Piece]:
    pieces = call((f"c{number}", "terminal", f'{{"command": "echo {number}"}}'))[:-1]
    return [*pieces, Finish(reason=FinishReason.TOOL_CALLS, usage=Usage(model_calls=1, **usage))]


def worker(*, last_word: str = "Half of it is done.", **usage: int) -> ScriptedModel:
    """Never ends by itself; asked for a last word, gives it."""
    count = 0

    def script(request: ModelRequest) -> Reply:
        nonlocal count
        count += 1
        if request.messages[-1].role is Role.USER and "Do not call tools" in request.messages[-1].text():
            return say(last_word)
        return round_of(count, **usage)

    return ScriptedModel(script)


LIMITS: list[tuple[dict[str, object], dict[str, int], EndReason, str, int]] = [
    ({"max_iterations": 10}, {}, EndReason.ITERATION_LIMIT, "10 steps", 10),
    ({"max_turn_tokens": 1_000}, {"input_tokens": 90, "output_tokens": 10}, EndReason.TOKEN_LIMIT, "1,000 tokens", 10),
    ({"max_turn_cost_nano_usd": 2_000_000_000}, {"cost_nano_usd": 200_000_000}, EndReason.COST_LIMIT, "2.00 US dollars", 10),
]  # fmt: skip


@pytest.mark.parametrize(("limits", "usage", "reason", "words", "rounds"), LIMITS, ids=[str(row[2]) for row in LIMITS])
async def test_at_four_fifths_the_model_is_told_once_and_at_the_end_it_has_the_last_word(
    limits: dict[str, object], usage: dict[str, int], reason: EndReason, words: str, rounds: int
) -> None:
    scene = Scene(worker(**usage))
    scene.limit(**{"max_iterations": 90, **limits})
    outcome = await scene.send()
    assert outcome.reason is reason and outcome.outcome == "done"
    assert outcome.reply.startswith("Half of it is done.") and words in outcome.reply
    assert len(scene.sandbox.ran) == rounds and len(scene.model.requests) == rounds + 1
    told = [number for number, result in enumerate(scene.results(), 1) if "[Note:" in result.text]
    assert told == [8], "once, when four fifths are used, and it is stored"
    assert "80 %" in scene.results()[7].text and words in scene.results()[7].text
    assert scene.store.turn("u1").commits[0].reason == reason.value
    assert all("Do not call tools" not in m.text() for m in scene.transcript)


async def test_a_turn_whose_time_is_over_stops_its_tool_and_says_what_became_of_it() -> None:
    def script(request: ModelRequest) -> Reply:
        if "Do not call tools" in request.messages[-1].text():
            return say("The build was still running.")
        return call(("a", "terminal", '{"command": "sleep 30"}'))

    scene = Scene(ScriptedModel(script))
    scene.limit(max_turn_seconds=1.0)
    started = time.monotonic()
    outcome = await scene.send()
    assert time.monotonic() - started < 15
    assert outcome.reason is EndReason.TIME_LIMIT and outcome.reply.startswith("The build was still running.")
    assert "1 seconds" in outcome.reply and "reached its time limit" in scene.results()[0].text


async def test_the_last_word_has_a_clock_of_its_own() -> None:
    def script(request: ModelRequest) -> Reply:
        if "Do not call tools" in request.messages[-1].text():
            return [TextDelta(text="Well"), Wait(30)]
        return call(("a", "terminal", '{"command": "sleep 30"}'))

    scene = Scene(ScriptedModel(script))
    scene.limit(max_turn_seconds=1.0, last_word_seconds=0.1)
    outcome = await scene.send()
    assert outcome.reason is EndReason.TIME_LIMIT and outcome.reply.startswith("I stopped")


async def test_tools_called_in_the_last_word_do_not_run() -> None:
    scene = Scene(ScriptedModel(lambda _: round_of(1)))
    scene.limit(max_iterations=1)
    outcome = await scene.send()
    assert outcome.reply.startswith("I stopped") and len(scene.sandbox.ran) == 1


def test_the_most_used_budget_comes_first_and_unset_ones_are_none() -> None:
    limits = Limits(max_iterations=10, max_turn_seconds=100, max_turn_tokens=1000)
    found = budgets(limits, iterations=5, seconds=10, spent=Usage(input_tokens=700, output_tokens=200, cost_nano_usd=10**12))
    assert [(b.reason, round(b.share, 2)) for b in found] == [
        (EndReason.TOKEN_LIMIT, 0.9), (EndReason.ITERATION_LIMIT, 0.5), (EndReason.TIME_LIMIT, 0.1),
    ]  # fmt: skip
    assert "90 % of this turn's limit of 1,000 tokens" in warning(found[0])


def test_the_profiles_budgets_reach_the_loop() -> None:
    from hermes_agent.app import limits_of

    config = CONFIG.model_copy(update={"max_turn_tokens": 5, "max_turn_cost_nano_usd": 7, "max_output_tokens": 9})
    limits = limits_of(config)
    assert (limits.max_turn_tokens, limits.max_turn_cost_nano_usd, limits.max_output_tokens) == (5, 7, 9)
    assert (limits.max_iterations, limits.max_turn_seconds) == (20, 60)


async def test_usage_and_context_travel_with_every_step() -> None:
    first = round_of(1, input_tokens=100, output_tokens=20, cached_input_tokens=50, cost_nano_usd=5)
    usage = Usage(input_tokens=130, output_tokens=3, model_calls=1)
    last: Reply = [TextDelta(text="ok"), Finish(reason=FinishReason.STOP, usage=usage)]
    scene = Scene(ScriptedModel([first, last]))
    await scene.send()
    commit = scene.store.turn("u1").commits[0]
    assert (commit.usage.input_tokens, commit.context_tokens) == (130, 133)
    kept = scene.store.conversation(scene.model.requests[0].conversation)
    assert kept.context_tokens == 133


async def test_a_turn_without_a_sign_of_life_ends_with_a_sentence() -> None:
    scene = Scene(ScriptedModel([[TextDelta(text="x"), Wait(30)]]))
    scene.limit(stall_seconds=0.1)
    started = time.monotonic()
    outcome = await scene.send()
    assert outcome.reason is EndReason.STALLED and outcome.outcome == "failed" and "0.1 seconds" in outcome.reply
    assert time.monotonic() - started < 15


async def test_heartbeats_and_running_tools_are_signs_of_life() -> None:
    beats: list[Piece] = [piece for _ in range(8) for piece in (Heartbeat(), Wait(0.05))]
    tool = call(("a", "terminal", '{"command": "sleep 0.4"}'))
    scene = Scene(ScriptedModel([[*beats, *tool], say("ok")]))
    scene.limit(stall_seconds=0.2)
    assert (await scene.send()).reply == "ok"


async def test_the_watchdog_counts_from_the_last_sign() -> None:
    now = 0.0
    pulse = Pulse(lambda: now)
    now = 5.0
    assert pulse.silent_seconds() == 5.0
    with pulse.excused(100):
        now = 50.0
        assert pulse.silent_seconds() < 0
        now = 120.0
        assert pulse.silent_seconds() == 15.0
    assert pulse.silent_seconds() == 0.0
    ended: list[bool] = []
    await watch_turn(Pulse(), 0.01, lambda: ended.append(True))
    assert ended == [True]


async def test_an_event_loop_that_stood_still_is_logged(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    watch = asyncio.ensure_future(watch_event_loop(0.01, 0.05))
    await asyncio.sleep(0)
    deadline = time.monotonic() + 0.12
    while time.monotonic() < deadline:
        pass
    for _ in range(50):
        await asyncio.sleep(0.001)
    watch.cancel()
    assert "event_loop.stalled" in capsys.readouterr().out
