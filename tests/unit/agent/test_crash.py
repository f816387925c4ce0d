"""The agent dies at every point where it waits for somebody, and the next one goes on: nothing is silently done twice."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

import pytest

from hermes_agent.loop.resume import INTERRUPTED
from hermes_agent.testing.model import Reply, ScriptedModel, call, say
from hermes_contracts.conversation import ToolResultPart
from hermes_contracts.model_api import ModelRequest
from hermes_contracts.store_api import TurnState
from tests.unit.agent.agent_scene import Scene

POINTS = 28


class Crash(BaseException):
    """The process is gone: nothing in it may catch this."""


@dataclass
class Fuse:
    """Blows once, at one point of one kind of wait."""

    at: int
    count: int = 0
    where: str = ""

    def tick(self, where: str) -> None:
        self.count += 1
        if self.count == self.at:
            self.where = where
            raise Crash(where)


def two_rounds(request: ModelRequest) -> Reply:
    """Two calls, then a write, then the answer; told of an interruption it looks before it goes on."""
    called = {c.id for message in request.messages for c in message.tool_calls()}
    if any(isinstance(part, ToolResultPart) and part.text == INTERRUPTED for part in request.messages[-1].parts):
        return call(("look", "terminal", '{"command": "echo look"}'))
    if "pay" not in called:
        return call(("pay", "terminal", '{"command": "echo pay"}'), ("note", "terminal", '{"command": "echo note"}'))
    if "save" not in called:
        return call(("save", "write_file", '{"path": "a.txt", "content": "saved"}'))
    return say("All done.")


def scene_with(fuse: Fuse) -> Scene:
    scene = Scene(ScriptedModel(two_rounds))
    scene.store.hook = lambda name, when: fuse.tick(f"store {name} {when}")
    scene.model.hook = lambda when: fuse.tick(f"model {when}")
    scene.sandbox.hook = lambda when: fuse.tick(f"sandbox {when}")
    return scene


async def points() -> int:
    fuse = Fuse(at=-1)
    await scene_with(fuse).send()
    return fuse.count


async def survive(fuse: Fuse, *, new_epoch: bool) -> Scene:
    scene = scene_with(fuse)
    for life in itertools.count():
        assert life < 3, f"crashed again after {fuse.where}"
        try:
            await scene.send()
            return scene
        except Crash:
            scene.restart(new_epoch=new_epoch)
    raise AssertionError


async def test_the_points_below_are_all_there_are() -> None:
    assert await points() == POINTS


@pytest.mark.parametrize("new_epoch", [False, True], ids=["container-restart", "new-pod"])
@pytest.mark.parametrize("at", range(1, POINTS + 1))
async def test_a_crash_anywhere_repeats_no_side_effect_silently_and_answers_once(at: int, new_epoch: bool) -> None:
    fuse = Fuse(at)
    scene = await survive(fuse, new_epoch=new_epoch)
    turn = scene.store.turn("u1")

    assert fuse.where, "the crash happened"
    assert turn.state is TurnState.DONE and len(turn.commits) == 1 and turn.commits[0].reply == "All done."
    effects = Counter([*scene.sandbox.ran, *scene.sandbox.writes])
    told = {r.call_id for r in scene.results() if r.text == INTERRUPTED}
    for effect, count in effects.items():
        assert count == 1 or told, f"{effect} ran {count} times and nobody was told, after {fuse.where}"
    started = {e.call_id for e in turn.journal if e.state == "started"}
    finished = {e.call_id for e in turn.journal if e.state == "finished"}
    assert started == finished
    calls = [c.id for m in scene.transcript for c in m.tool_calls()]
    assert [r.call_id for r in scene.results()] == calls, "every call has one result, in order"
    assert len(calls) == len(set(calls))


async def test_an_interrupted_call_is_shown_as_such_and_not_run_again() -> None:
    fuse = Fuse(-1)
    scene = scene_with(fuse)

    def die(when: str) -> None:
        if when == "after":
            scene.sandbox.hook = lambda _: None
            raise Crash

    scene.sandbox.hook = die
    with pytest.raises(Crash):
        await scene.send()
    scene.restart(new_epoch=True)
    await scene.send()

    by_id = {r.call_id: r for r in scene.results()}
    assert by_id["pay"].text == INTERRUPTED and by_id["pay"].is_error
    assert by_id["note"].text == INTERRUPTED, "what began with it is uncertain too"
    assert scene.sandbox.ran == ["echo pay", "echo look"]
    assert scene.store.turn("u1").attempt == 2
