"""The real agent process hands its turns over, and dies in the middle of one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hermes_agent.testing.model import Reply, call, say
from hermes_contracts.agent_config import CodexConfig
from hermes_contracts.conversation import Role
from hermes_contracts.model_api import ModelRequest
from tests.integration.agent.agent_world import CONVERSATION, World, until
from tests.integration.agent.codex_scene import PROGRAM, codex_scene


@pytest.mark.timeout(90)
async def test_a_killed_agents_next_life_learns_what_was_begun_and_nothing_runs_twice(world: World, tmp_path: Path) -> None:
    def reply(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        if last.role is Role.USER and "restarted" in last.text():
            return say("It was counted once.")
        return call(("c1", "exec_command", json.dumps({"cmd": "echo once >> count.txt; sleep 60"})))

    world.model._script = reply
    async with codex_scene(tmp_path, world.model) as scene:
        socket, codex = str(scene.socket), CodexConfig(command=(sys.executable, str(PROGRAM)))
        first = await world.start_agent(socket_path=socket, codex=codex)
        update = await world.send("count up")
        await until((scene.workspace / "count.txt").exists, "the command runs", 60)
        first.kill()
        await first.process.wait()
        await world.raise_epoch(2)
        await world.start_agent(2, socket_path=socket, codex=codex)
        await until(lambda: world.settled(update), "the turn is answered", 60)
        assert (scene.workspace / "count.txt").read_text() == "once\n"
        assert world.store.transcript(CONVERSATION)[-1].text() == "It was counted once."
        assert world.store.turn(update).attempt == 2 and world.denied() == []
