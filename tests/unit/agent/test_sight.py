"""A picture for a model that takes none is described once by another, and what a request says of it never changes."""

from __future__ import annotations

import itertools

import pytest

from hermes_agent.loop.outcome import EndReason
from hermes_agent.loop.sight import LOOKING, NO_EYES, NOT_SEEN
from hermes_agent.stop import Note, StopReason, StopSignal
from hermes_agent.testing.model import Reply, ScriptedModel, Wait, call, say, step_of
from hermes_contracts.conversation import ImagePart
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import ModelError, ModelRequest, Purpose
from hermes_contracts.store_api import MAX_DESCRIPTION_CHARACTERS
from tests.unit.agent.agent_scene import Scene
from tests.unit.agent.test_prefix import prefix

ECHO = ("a", "terminal", '{"command": "echo hi"}')


def picture(letter: str = "a") -> ImagePart:
    return ImagePart(media_id="m" + letter * 25, media_type="image/png", size=10)


def shown(request: ModelRequest) -> list[str]:
    return [part.media_id for message in request.messages for part in message.parts if isinstance(part, ImagePart)]


def blind(vision: Reply | None = None, *, works: bool = True) -> Scene:
    """A scene whose main model takes no pictures; it `works` when it runs a command before it answers."""

    def reply(request: ModelRequest) -> Reply:
        if request.purpose is Purpose.VISION:
            return vision or say(f" A cat, {shown(request)[0][1]}. ")
        return call(ECHO) if works and step_of(request) == 0 else say("A cat.")

    return Scene(ScriptedModel(reply), sees=lambda: False)


def purposes(scene: Scene) -> list[Purpose]:
    return [request.purpose for request in scene.model.requests]


async def test_a_picture_is_described_once_and_its_cost_is_the_turns() -> None:
    scene = blind(works=False)
    assert (await scene.send("what is it?", images=(picture(), picture()))).reply == "A cat."
    (asked, *turns) = scene.model.requests
    assert asked.purpose is Purpose.VISION and shown(asked) == [picture().media_id]
    assert "what is it?" in asked.messages[0].text()
    assert scene.store.descriptions == {picture().media_id: "A cat, a."}
    assert [request.purpose for request in turns] == [Purpose.TURN] and shown(turns[0]) == [picture().media_id] * 2
    assert scene.store.turn("u1").commits[0].usage.model_calls == 2 and ("notice", LOOKING) in scene.deltas.pieces
    scene.restart(new_epoch=True)
    await scene.send("and again?", "u2", images=(picture(), picture("b")))
    assert purposes(scene).count(Purpose.VISION) == 2, "the one that is known is not looked at again"


async def test_requests_keep_their_bytes_across_pictures_and_restarts() -> None:
    scene = blind()
    for number in range(4):
        if number % 2:
            scene.restart(new_epoch=True)
        await scene.send(f"message {number}", f"u{number}", images=(picture("ab"[number % 2]),))
    pairs = zip(scene.model.requests, scene.model.bodies, strict=True)
    bodies = [body for request, body in pairs if request.purpose is Purpose.TURN]
    assert len(bodies) == 8
    for before, after in itertools.pairwise(bodies):
        assert after.startswith(prefix(before))


async def test_a_model_that_sees_is_shown_the_picture() -> None:
    scene = blind()
    scene.sees = lambda: True
    await scene.send(images=(picture(),))
    assert purposes(scene) == [Purpose.TURN] * 2 and not scene.store.descriptions


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ([ModelError(code=ErrorCode.NOT_CONFIGURED, message="no eyes")], NO_EYES),
        ([ModelError(code=ErrorCode.BUDGET, message="spent")], NOT_SEEN),
        ([HermesError(ErrorCode.UNAVAILABLE, "away", retryable=True)], NOT_SEEN),
        (say(""), NOT_SEEN),
    ],
)
async def test_the_person_is_told_of_a_picture_that_nobody_saw(answer: Reply, sentence: str) -> None:
    scene = blind(answer)
    outcome = await scene.send("what is it?", images=(picture(),))
    assert outcome.reply == f"{sentence}\n\nA cat." and outcome.reason is EndReason.STOP
    assert scene.transcript[-1].text() == "A cat.", "the model is not made to have said it"
    await scene.send("thanks", "u2")
    assert purposes(scene).count(Purpose.VISION) == 1, "nothing is put into an old message's place later"


async def test_a_long_description_is_cut() -> None:
    scene = blind(say("x" * (MAX_DESCRIPTION_CHARACTERS + 1)))
    await scene.send(images=(picture(),))
    assert len(scene.store.descriptions[picture().media_id]) == MAX_DESCRIPTION_CHARACTERS


async def test_a_turn_that_is_resumed_does_not_change_what_was_sent() -> None:
    scene = blind([ModelError(code=ErrorCode.OVERLOADED, message="busy")])

    def die(name: str, when: str) -> None:
        if name == "commit":
            raise KeyboardInterrupt(when)

    scene.store.hook = die
    with pytest.raises(KeyboardInterrupt):
        await scene.send(images=(picture(),))
    scene.store.hook = lambda _name, _when: None
    scene.restart(new_epoch=True)
    assert (await scene.send(images=(picture(),))).reply == f"{NOT_SEEN}\n\nA cat."
    assert purposes(scene).count(Purpose.VISION) == 1


async def test_stop_and_a_new_goal_interrupt_a_look() -> None:
    scene, stop = blind([Wait(60), *say("late")]), StopSignal()
    scene.model.hook = lambda _when: stop.set(StopReason.USER)
    assert (await scene.send(images=(picture(),), stop=stop)).reason is EndReason.STOPPED_BY_USER

    scene, ear = blind([Wait(60), *say("late")]), StopSignal()

    def redirect(_when: str) -> None:
        scene.model.hook = lambda _: None
        scene.sees = lambda: True
        ear.redirect(Note("c1", "never mind the picture"))

    scene.model.hook = redirect
    assert (await scene.send(images=(picture(),), stop=ear)).reply == "A cat."
