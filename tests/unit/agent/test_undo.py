"""What a person takes back or chooses between two turns reaches an agent that has been awake all the time."""

from __future__ import annotations

import random

from hermes_agent.stop import StopSignal
from hermes_agent.testing.model import ScriptedModel, say
from hermes_contracts.model_api import ModelRequest
from tests.unit.agent.agent_scene import CONVERSATION, Scene
from tests.unit.agent.compression_scene import CountingModel, compacting, words


def _texts(request: ModelRequest) -> list[str]:
    return [message.text() for message in request.messages]


async def test_an_agent_that_stayed_awake_does_not_remember_what_was_taken_back() -> None:
    scene = Scene(ScriptedModel([say("a"), say("b"), say("c"), say("d")]))
    await scene.send("my dog is Rex", "u1")
    await scene.send("my cat is Tom", "u2")
    assert scene.store.undo(CONVERSATION)
    await scene.send("and now?", "u3")
    assert _texts(scene.model.requests[-1]) == ["my dog is Rex", "a", "and now?"]
    assert scene.model.requests[-1].system == scene.model.requests[0].system
    loads = scene.store.calls.count("load")
    await scene.send("go on", "u4")
    assert scene.store.calls.count("load") == loads, "what is held is good again"


async def test_a_conversation_of_which_all_was_taken_back_begins_with_its_prompt() -> None:
    scene = Scene(ScriptedModel([say("a"), say("b")]))
    await scene.send("one", "u1")
    assert scene.store.undo(CONVERSATION) and not scene.store.undo(CONVERSATION)
    await scene.send("two", "u2")
    assert _texts(scene.model.requests[-1]) == ["two"]
    assert scene.store.calls.count("freeze_prompt") == 1


async def test_a_chosen_model_is_asked_from_the_next_turn_on_and_no_byte_of_the_prompt_moves() -> None:
    scene = Scene(ScriptedModel([say("a"), say("b"), say("c")]))
    await scene.send("one", "u1")
    scene.store.conversation(CONVERSATION).model = "small"
    await scene.send("two", "u2")
    scene.store.conversation(CONVERSATION).model = ""
    await scene.send("three", "u3")
    assert [request.model for request in scene.model.requests] == ["", "small", ""]
    assert len({request.system for request in scene.model.requests}) == 1


async def test_a_summary_by_hand_holds_nothing_that_was_taken_back() -> None:
    model = CountingModel(lambda _: say("Noted."), window=200_000)
    scene = Scene(model, compaction=compacting())
    for number in range(1, 16):
        await scene.send(f"message {number}: {words(random.Random(number), 200)}", f"u{number}")
    assert scene.store.undo(CONVERSATION)
    scene.store.put_compress("k1", conversation=CONVERSATION)
    assert scene.runner is not None
    assert "Compacted" in await scene.runner.compact(CONVERSATION, "", "k1", StopSignal())
    kept = [message.text() for message in scene.store.conversation(CONVERSATION).compactions[-1].messages]
    read = [*kept, *(message.text() for request in model.summaries for message in request.messages)]
    assert any("message 14:" in text for text in read)
    assert not any("message 15:" in text for text in read)
