"""A turn is told to end: by a person, or because its time is over."""

from __future__ import annotations

import asyncio
import time

import pytest

from hermes_agent.loop.outcome import EndReason
from hermes_agent.stop import StopReason, StopSignal
from hermes_agent.testing.model import ScriptedModel, Wait, call, say
from hermes_agent.transport.commands import NOT_YOURS, NOTHING_RAN, STOPPED, Commands
from hermes_contracts.conversation import Role
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import TextDelta
from tests.unit.agent.agent_scene import Scene

SLOW_MODEL = [[TextDelta(text="thinking about"), Wait(30), *say("never")]]
SLOW_TOOL = [
    call(
        ("a", "terminal", '{"command": "echo first"}'),
        ("b", "terminal", '{"command": "sleep 30"}'),
        ("c", "terminal", '{"command": "echo third"}'),
    )
]


async def stopped(scene: Scene, when: str, stop: StopSignal) -> float:
    """Send, stop when the scene has come to `when`; return seconds from the stop to the end."""
    turn = asyncio.ensure_future(scene.send(stop=stop))
    deadline = time.monotonic() + 5
    while when not in [*scene.sandbox.ran, *(text for _, text in scene.deltas.pieces)]:
        assert time.monotonic() < deadline
        await asyncio.sleep(0)
    started = time.monotonic()
    stop.set(StopReason.USER)
    outcome = await turn
    assert (outcome.outcome, outcome.reason, outcome.reply) == ("done", EndReason.STOPPED_BY_USER, "Stopped.")
    return time.monotonic() - started


async def test_stop_cancels_the_model_within_a_second_and_drops_what_it_had_said() -> None:
    scene = Scene(ScriptedModel(SLOW_MODEL))
    assert await stopped(scene, "thinking about", StopSignal()) < 1
    assert [m.text() for m in scene.transcript] == ["hello", "Stopped."]


async def test_stop_cancels_a_tool_and_closes_the_sequence_legally() -> None:
    scene = Scene(ScriptedModel(SLOW_TOOL))
    assert await stopped(scene, "sleep 30", StopSignal()) < 1
    assert [m.role for m in scene.transcript] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    a, b, c = scene.results()
    assert "first" in a.text and "Stopped by the user while it was running" in b.text and c.text.startswith("Not run")
    assert scene.sandbox.ran == ["echo first", "sleep 30"] and scene.sandbox.finished == ["echo first"]
    journal = scene.store.turn("u1").journal
    assert {e.call_id for e in journal if e.state == "finished"} == {"a", "b", "c"}


async def test_stop_during_a_pause_between_retries() -> None:
    scene = Scene(ScriptedModel(lambda _: [TextDelta(text="x"), HermesError(ErrorCode.OVERLOADED, "x", retryable=True)]))
    scene.limit(retry=type(scene.limits.retry)(base_seconds=60))
    assert await stopped(scene, "x", StopSignal()) < 1


async def test_a_stop_before_the_first_model_call_asks_no_model() -> None:
    scene, stop = Scene(ScriptedModel([say("no")])), StopSignal()
    stop.set(StopReason.USER)
    assert (await scene.send(stop=stop)).reply == "Stopped."
    assert scene.model.requests == []


async def test_a_stream_without_end_is_cut_by_the_clock_and_the_person_told() -> None:
    scene = Scene(ScriptedModel(lambda _: [piece for _ in range(500) for piece in (TextDelta(text="."), Wait(0.01))]))
    scene.limit(max_turn_seconds=0.05)
    outcome = await scene.send()
    assert outcome.reason is EndReason.TIME_LIMIT and outcome.outcome == "failed" and "0.05 seconds" in outcome.reply


async def test_killing_the_task_is_not_a_stop() -> None:
    scene, stop = Scene(ScriptedModel(SLOW_MODEL)), StopSignal()
    turn = asyncio.ensure_future(scene.send(stop=stop))
    while not scene.deltas.pieces:
        await asyncio.sleep(0)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert scene.store.turn("u1").commits == []


async def pumped(commands: Commands, scene: Scene, done: int) -> None:
    pump = asyncio.ensure_future(commands.pump())
    commands.look()
    deadline = time.monotonic() + 5
    while len(scene.store.results) < done and not scene.store.calls.count("take_commands"):
        assert time.monotonic() < deadline
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    pump.cancel()


async def test_a_stop_with_nothing_running_says_so() -> None:
    scene = Scene(ScriptedModel())
    scene.store.put_stop("k1")
    await pumped(Commands(scene.store.client(1)), scene, 1)
    assert scene.store.results == {"k1": NOTHING_RAN}


async def test_a_stop_reaches_a_turn_that_began_after_it_only_if_its_message_came_before() -> None:
    scene = Scene(ScriptedModel())
    commands, old, new = Commands(scene.store.client(1)), StopSignal(), StopSignal()
    scene.store.put_stop("k1", created_at=100.0)
    commands.turn_begins(new, received_at=200.0)
    await pumped(commands, scene, 1)
    assert not new.is_set and scene.store.results == {"k1": NOTHING_RAN}
    scene.store.put_stop("k2", created_at=100.0)
    scene.store.calls.clear()
    commands.turn_begins(old, received_at=50.0)
    await pumped(commands, scene, 2)
    assert old.reason is StopReason.USER and "k2" not in scene.store.results
    from hermes_agent.loop.outcome import REPLY_STOPPED, Outcome

    await commands.turn_ended(Outcome("done", EndReason.STOPPED_BY_USER, REPLY_STOPPED))
    assert scene.store.results["k2"] == STOPPED


async def test_where_people_share_an_agent_each_stops_what_he_asked_for_himself() -> None:
    scene = Scene(ScriptedModel())
    commands, annas = Commands(scene.store.client(1)), StopSignal()
    commands.turn_begins(annas, 0.0, "UANNA")
    scene.store.put_stop("bens", sender="UBEN")
    await pumped(commands, scene, 1)
    assert not annas.is_set and scene.store.results == {"bens": NOT_YOURS}
    scene.store.calls.clear()
    scene.store.put_stop("annas", sender="UANNA")
    await pumped(commands, scene, 2)
    assert annas.reason is StopReason.USER
    admins = StopSignal()
    commands.turn_begins(admins, 0.0, "UANNA")
    scene.store.calls.clear()
    scene.store.put_stop("an-admins")
    await pumped(commands, scene, 3)
    assert admins.reason is StopReason.USER
