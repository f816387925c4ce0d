"""The real process on a real bus, with the rights that an agent has and no others."""

from __future__ import annotations

import asyncio
import time

from hermes_agent.loop.resume import INTERRUPTED
from hermes_agent.testing.model import Reply, Wait, call, say
from hermes_contracts import subjects
from hermes_contracts.bus_permissions import agent_permissions
from hermes_contracts.conversation import ToolResultPart
from hermes_contracts.envelopes import Credentials, Drain
from hermes_contracts.model_api import ModelRequest, TextDelta
from hermes_contracts.store_api import AgentState, TurnState
from hermes_service.bus import BusCredentials
from hermes_service.bus_keys import public_key_of
from tests.integration.agent.agent_world import CONVERSATION, SID, AgentProcess, World, until


async def order(world: World, body: Drain | Credentials, epoch: int = 1) -> None:
    await world.admin.publish(subjects.control_epoch(SID, epoch), body.model_dump_json().encode())


async def ready(world: World, count: int = 1) -> None:
    await until(lambda: world.store.states().count(AgentState.READY) >= count, "the agent is ready")


async def nothing_pending(world: World) -> None:
    deadline = time.monotonic() + 10
    while await world.pending():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def ended(agent: AgentProcess, code: int) -> None:
    async with asyncio.timeout(15):
        assert await agent.process.wait() == code, agent.lines


async def test_messages_that_arrive_during_a_turn_run_next_in_order_and_nothing_is_denied(world: World) -> None:
    world.model._script = lambda r: [Wait(0.02), *say(f"re {r.messages[-1].text()}")]
    await world.start_agent()
    updates = [await world.send(f"m{n}") for n in range(12)]
    await until(lambda: world.settled(updates[-1]), "all are answered")
    texts = [m.text() for m in world.store.transcript(CONVERSATION)]
    assert texts == [t for n in range(12) for t in (f"m{n}", f"re m{n}")]
    await nothing_pending(world)
    assert world.denied() == []


async def test_an_unsigned_message_is_discarded_and_the_next_one_served(world: World) -> None:
    world.model._script = [say("real")]
    agent = await world.start_agent()
    await world.send("forged", signed=False)
    update = await world.send("genuine")
    await until(lambda: world.settled(update), "the genuine one is answered")
    assert [m.text() for m in world.store.transcript(CONVERSATION)] == ["genuine", "real"]
    await nothing_pending(world)
    assert "message.discarded" in agent.events() and world.denied() == []


async def test_stop_ends_a_running_turn_within_a_second(world: World) -> None:
    world.model._script = [[TextDelta(text="thinking"), Wait(30)], say("and on we go")]
    await world.start_agent()
    update = await world.send("long work")
    await until(lambda: any(d.text == "thinking" for d in world.deltas), "the model speaks")
    world.store.put_stop("k1")
    started = time.monotonic()
    await world.hint()
    await until(lambda: world.settled(update), "the turn ends")
    assert time.monotonic() - started < 1
    await until(lambda: world.store.results == {"k1": "Stopped the running turn."}, "the command is answered")
    after = await world.send("go on")
    await until(lambda: world.settled(after), "the next message is served")
    assert world.store.turn(update).commits[0].reply == "Stopped."


async def test_an_idle_agent_drains_and_leaves(world: World) -> None:
    agent = await world.start_agent()
    await ready(world)
    await order(world, Drain())
    await ended(agent, 0)
    assert world.store.states()[-1] is AgentState.DRAINED and world.denied() == []


async def test_drain_lets_a_turn_end_and_takes_no_other(world: World) -> None:
    world.model._script = [[TextDelta(text="slow"), Wait(0.5), *say(" answer")]]
    agent = await world.start_agent()
    first, second = await world.send("one"), await world.send("two")
    await until(lambda: bool(world.deltas), "the model speaks")
    await order(world, Drain(deadline_seconds=10))
    await ended(agent, 0)
    assert world.settled(first) and not world.settled(second) and await world.pending() == 1


async def test_a_turn_longer_than_the_deadline_is_given_back_and_the_next_epoch_goes_on(world: World) -> None:
    calls = 0

    def script(_: ModelRequest) -> Reply:
        nonlocal calls
        calls += 1
        return [TextDelta(text="slow"), Wait(60)] if calls == 1 else say("finished by another")

    world.model._script = script
    agent = await world.start_agent()
    update = await world.send("one")
    await until(lambda: bool(world.deltas), "the model speaks")
    await order(world, Drain(deadline_seconds=0.2))
    await ended(agent, 0)
    assert not world.settled(update) and await world.pending() == 1
    await world.raise_epoch(2)
    await world.start_agent(2)
    await until(lambda: world.settled(update), "the next epoch answers")
    assert world.store.turn(update).attempt == 2
    assert [m.text() for m in world.store.transcript(CONVERSATION)] == ["one", "finished by another"]


async def test_sigterm_finishes_what_runs(world: World) -> None:
    world.model._script = [[TextDelta(text="slow"), Wait(0.3), *say(" done")]]
    agent = await world.start_agent()
    update = await world.send("one")
    await until(lambda: bool(world.deltas), "the model speaks")
    agent.process.terminate()
    await ended(agent, 0)
    assert world.settled(update) and world.store.states()[-1] is AgentState.DRAINED
    await nothing_pending(world)


async def test_a_fenced_agent_stops_at_once_acknowledges_nothing_and_says_so(world: World) -> None:
    world.model._script = [[TextDelta(text="slow"), Wait(0.3), *say(" late")], say("by the new one")]
    old = await world.start_agent()
    update = await world.send("one")
    await until(lambda: bool(world.deltas), "the model speaks")
    await world.raise_epoch(2)
    await ended(old, 3)
    assert not world.settled(update) and await world.pending() == 1
    await world.start_agent(2)
    await until(lambda: world.settled(update), "the new epoch answers")
    assert len(world.store.turn(update).commits) == 1


async def test_a_killed_container_comes_back_in_the_same_epoch_and_does_not_wait_for_the_ack(world: World) -> None:
    calls = 0

    def script(request: ModelRequest) -> Reply:
        nonlocal calls
        calls += 1
        told = [p for m in request.messages for p in m.parts if isinstance(p, ToolResultPart) and p.text == INTERRUPTED]
        if told:
            return say("I checked.")
        return call(("c1", "terminal", '{"command": "sleep 100"}'))

    world.model._script = script
    first = await world.start_agent()
    update = await world.send("one")
    later = await world.send("two")
    await until(lambda: any(d.kind == "tool_started" for d in world.deltas), "the call began")
    first.kill()
    await first.process.wait()
    world.model._script = lambda r: script(r) if r.messages[0].text() == "one" and len(r.messages) < 4 else say("second")
    started = time.monotonic()
    await world.start_agent()
    await until(lambda: world.settled(later), "both are answered")
    assert time.monotonic() - started < 15, "without waiting for ack_wait"
    assert world.store.turn(update).commits[0].reply == "I checked."
    texts = [m.text() for m in world.store.transcript(CONVERSATION) if m.text()]
    assert texts == ["one", "I checked.", "two", "second"]
    assert world.denied() == []


async def test_the_bus_restarts_in_mid_turn_and_between_turns(world: World) -> None:
    world.model._script = [[TextDelta(text="slow"), Wait(1.0), *say(" but sure")], say("after"), say("at rest")]
    await world.start_agent()
    first = await world.send("one")
    await until(lambda: bool(world.deltas), "the model speaks")
    await world.nats.stop()
    await world.nats.start()
    await until(lambda: world.settled(first), "the turn goes on", 30)
    second = await world.send("two")
    await until(lambda: world.settled(second), "the next one is served", 30)
    await nothing_pending(world)
    await world.nats.stop()
    await world.nats.start()
    started = time.monotonic()
    third = await world.send("three")
    await until(lambda: world.settled(third), "it pulls again", 30)
    assert time.monotonic() - started < 6, "at the reconnect, not at the missed heartbeat"
    assert len(world.model.requests) == 3
    assert [t.state for t in world.store.turns.values()] == [TurnState.DONE] * 3


async def test_renewed_credentials_outlive_the_first_ones(world: World) -> None:
    world.model._script = lambda _: say("here")
    started = time.monotonic()
    folder = world.session_folder(world.config(1), lifetime_seconds=12)
    agent = await world.start_agent(folder=folder)
    await ready(world)
    seed = BusCredentials.load(folder / "bus.creds").seed
    jwt = world.keys.user_jwt(public_key_of(seed), "agent", agent_permissions(SID, 1), lifetime_seconds=600)
    await order(world, Credentials(bus_jwt=jwt, models_token="token-2"))
    await until(lambda: "bus.reconnected" in agent.events(), "the second JWT is used")
    expired = started + 12
    await until(lambda: time.monotonic() > expired, "the first JWT is over", 20)
    update = await world.send("still there?")
    await until(lambda: world.settled(update), "it is served")
    assert world.tokens[-1] == "token-2"


async def test_an_expired_credential_ends_the_process_instead_of_leaving_it_deaf(world: World) -> None:
    folder = world.session_folder(world.config(1), lifetime_seconds=10)
    agent = await world.start_agent(folder=folder)
    await ready(world)
    async with asyncio.timeout(25):
        assert await agent.process.wait() == 1


async def test_an_unusable_folder_is_named_without_its_content(world: World) -> None:
    folder = world.session_folder(world.config(1))
    (folder / "session.json").write_text('{"sid": "secret-thing"}')
    agent = await world.start_agent(folder=folder)
    await ended(agent, 2)
    await until(lambda: bool(agent.lines), "it says why")
    assert "session.json: sid: String should match" in agent.lines[0] and "secret-thing" not in agent.lines[0]
