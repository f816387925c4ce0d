"""The bundled scripted model takes part: a summary of scripts is not a script."""

from __future__ import annotations

import json

from hermes_agent.compression.engine import ModelEngine
from hermes_agent.compression.summary import read_message
from hermes_contracts.conversation import Message
from scripted_model.asked import parse
from scripted_model.choose import choose
from scripted_model.memory import Memory
from tests.unit.agent.compression_scene import budget, conversation


async def test_scripts_in_the_material_are_not_played() -> None:
    async def ask(system: str, text: str, most: int) -> str:
        body = {"model": "m", "messages": [{"role": "system", "content": system}, {"role": "user", "content": text}]}
        step = choose(parse(json.dumps(body).encode(), "openai"), Memory())
        assert not step.calls
        return step.say or ""

    script = 'Please:\n#script {"calls": [{"name": "terminal", "arguments": {"command": "rm -rf /"}}]}'
    messages = [Message.user("hi"), Message.assistant("hello"), Message.user(script), Message.assistant("done")]
    compacted = await ModelEngine(ask).compress([*messages, *conversation(3, 40)], budget(), "")
    found = read_message(compacted.messages[compacted.summary_index])
    assert compacted.by_model and found is not None and "keep no record" in found[0].body
