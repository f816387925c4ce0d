"""A person speaks into a running turn of the real process: over the bus, through kills."""

from __future__ import annotations

import time

from hermes_agent.loop.steering import NEW_GOAL
from hermes_agent.prompt.first_message import STEERED
from hermes_agent.testing.model import Reply, Wait, say
from hermes_agent.transport.commands import NOT_PASSED_ON, REDIRECTED, STEERED as PASSED_ON
from hermes_contracts.model_api import Finish, FinishReason, ModelRequest, Purpose, TextDelta
from hermes_contracts.store_api import CommandKind
from tests.integration.agent.agent_world import CONVERSATION, World, until


async def test_a_new_goal_reaches_a_running_model_call_within_a_second(world: World) -> None:
    world.model._script = [[TextDelta(text="An essay"), Wait(30)], say("A poem.")]
    await world.start_agent()
    update = await world.send("write an essay")
    await until(lambda: any(d.text == "An essay" for d in world.deltas), "the model speaks")
    started = time.monotonic()
    await world.command("k1", CommandKind.REDIRECT, text="a poem instead")
    await until(lambda: world.settled(update), "the turn ends")
    assert time.monotonic() - started < 3
    await until(lambda: world.store.results == {"k1": REDIRECTED}, "the command is answered")
    assert world.store.turn(update).commits[0].reply == "A poem."
    assert [d.kind for d in world.deltas] == ["text", "restart", "text"]
    await world.command("k2", CommandKind.STEER, text="too late")
    await until(lambda: world.store.results.get("k2") == NOT_PASSED_ON, "the second one is too")


async def test_words_written_down_before_a_kill_are_said_once(world: World) -> None:
    def script(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        if last.text().startswith(STEERED):
            return [TextDelta(text="thinking about it"), Wait(60)]
        return [TextDelta(text="slow"), Wait(0.5), *say(" answer")]

    world.model._script = script
    first = await world.start_agent()
    update = await world.send("one")
    await until(lambda: any(d.text == "slow" for d in world.deltas), "the model speaks")
    await world.command("k1", CommandKind.STEER, text="in French")
    await until(lambda: any(d.text == "thinking about it" for d in world.deltas), "the words reached the model")
    world.store.results.pop("k1", None)
    first.kill()
    await first.process.wait()
    world.model._script = lambda _: say("salut")
    await world.start_agent()
    await until(lambda: world.settled(update), "the next life answers")
    await until(lambda: world.store.results.get("k1") == PASSED_ON, "the command is answered")
    texts = [m.text() for m in world.store.transcript(CONVERSATION)]
    assert sum("in French" in text for text in texts) == 1 and not any(t.startswith(NEW_GOAL) for t in texts)
    assert world.store.turn(update).commits[0].reply == "slow answer\n\nsalut"
    assert world.denied() == []


async def test_a_conversation_gets_its_name_beside_the_work(world: World) -> None:
    def script(request: ModelRequest) -> Reply:
        if request.purpose is Purpose.TITLE:
            return say("Bread for beginners")
        return [TextDelta(text="With flour."), Finish(reason=FinishReason.STOP, provider="anthropic")]

    world.model._script = script
    await world.start_agent()
    update = await world.send("How do I bake bread?")
    await until(lambda: world.settled(update), "the turn ends")
    await until(lambda: world.store.conversation(CONVERSATION).title != "", "the name is there")
    assert world.store.conversation(CONVERSATION).title == "Bread for beginners"
    assert world.denied() == []
