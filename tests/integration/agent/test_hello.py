from __future__ import annotations

from pathlib import Path

from hermes_agent.testing.model import say
from hermes_contracts.store_api import AgentState
from tests.integration.agent.agent_world import CONVERSATION, World, until


async def test_a_message_is_answered_acknowledged_and_streamed(world: World) -> None:
    world.model._script = [say("Hello to you.")]
    agent = await world.start_agent()
    update = await world.send("hello")

    await until(lambda: world.settled(update), "the turn is committed")

    commit = world.store.turn(update).commits[0]
    assert (commit.reply, commit.outcome, commit.reason) == ("Hello to you.", "done", "stop")
    assert [m.text() for m in world.store.transcript(CONVERSATION)] == ["hello", "Hello to you."]
    await until(lambda: "".join(d.text for d in world.deltas) == "Hello to you.", "the deltas are there")
    await until(lambda: world.store.states()[-1] is AgentState.IDLE, "the agent says that it is idle")
    while await world.pending():
        pass
    status = Path(f"/proc/{agent.process.pid}/status").read_text()
    resident_mib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024
    print(f"resident after a turn: {resident_mib:.1f} MiB; start: {world.store.reports[0].startup_milliseconds}")
    assert resident_mib < 90, "70 in its image; a development environment brings libraries that are used when they are there"
    ready = world.store.reports[0]
    assert ready.state is AgentState.READY and set(ready.startup_milliseconds) >= {"imports", "connected"}
    assert agent.process.returncode is None and world.denied() == []
