"""What a webhook brings is worked on with few tools: others are neither offered nor run, and a new prompt keeps to that."""

from __future__ import annotations

from hermes_agent.prompt import tiers
from hermes_agent.testing.model import ScriptedModel, call, say
from tests.unit.agent.agent_scene import Scene


async def test_a_webhooks_agent_has_what_its_route_allows_of_what_the_profile_has() -> None:
    model = ScriptedModel([call(("1", "terminal", '{"command": "echo hi"}')), say("no terminal")])
    scene = Scene(model)
    await scene.send("Review this.", "w1", None, channel="webhook", account="pulls", toolsets=("web", "file"))
    offered = {tool.name for tool in model.requests[0].tools}
    assert "read_file" in offered
    assert "terminal" not in offered
    assert "not available in this run" in scene.results()[0].text
    assert scene.sandbox.ran == []
    prompt = scene.store.prompts[scene.store.turn("w1").inbound.conversation].system
    assert tiers.toolsets_in(prompt) == ("file",)
    assert {tool.name for tool in (await scene.prompts().rebuild(prompt)).tools} == offered
