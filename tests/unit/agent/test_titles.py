"""A conversation gets its name after its first exchange, and never pays for it."""

from __future__ import annotations

import asyncio
import time

import pytest

from hermes_agent.loop.title import Titles, title_of
from hermes_agent.testing.model import Piece, Reply, ScriptedModel, Wait, say
from hermes_agent.testing.store import FakeStore
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import Finish, FinishReason, Purpose, TextDelta
from tests.unit.agent.agent_scene import CONVERSATION, Scene, inbound


async def named(reply: Reply, provider: str = "anthropic", *, seconds: float = 5.0) -> tuple[str, ScriptedModel]:
    store, model = FakeStore(), ScriptedModel([reply])
    titles = Titles(store.client(1), model, seconds=seconds)
    pump = asyncio.ensure_future(titles.pump())
    titles.first_exchange(inbound(text="How do I bake bread?"), "t1", "With flour.", provider)
    deadline = time.monotonic() + 2
    while titles._waiting or (model.requests and not store.calls and time.monotonic() < deadline - 1):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)
    pump.cancel()
    return store.conversation(CONVERSATION).title, model


async def test_the_first_exchange_gives_a_name() -> None:
    title, model = await named(say('"Baking bread at home."\nmore'))
    assert title == "Baking bread at home"
    request = model.requests[0]
    assert (
        (request.purpose, request.turn_id) == (Purpose.TITLE, "t1")
        and request.tools == ()
        and request.conversation == CONVERSATION
    )
    assert "How do I bake bread?" in request.messages[0].text() and "With flour." in request.messages[0].text()


@pytest.mark.parametrize("provider", ["", "scripted"])
async def test_a_script_is_not_asked(provider: str) -> None:
    title, model = await named(say("Never"), provider)
    assert title == "" and model.requests == []


@pytest.mark.parametrize(
    "reply", [[HermesError(ErrorCode.BUDGET, "x")], say(""), [Wait(5), *say("late")]], ids=["budget", "empty", "slow"]
)
async def test_whatever_goes_wrong_there_is_just_no_name(reply: Reply) -> None:
    title, _ = await named(reply, seconds=0.05)
    assert title == ""


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("**Fix the build**", "Fix the build"),
        ("\n\n  one two three four five six seven eight nine ten", "one two three four five six seven eight"),
        ("Title: Brot backen", "Title: Brot backen"),
        ("a\x00b", "ab"),
        ("...", ""),
        ("", ""),
    ],
)
def test_a_title_is_one_line_of_at_most_eight_words(answer: str, title: str) -> None:
    assert title_of(answer) == title


async def test_the_runner_tells_of_first_answers_only() -> None:
    def from_provider(text: str) -> list[Piece]:
        return [TextDelta(text=text), Finish(reason=FinishReason.STOP, provider="anthropic")]

    scene = Scene(ScriptedModel([from_provider("one"), from_provider("two"), from_provider("three")]))
    await scene.send("a", "u1")
    await scene.send("b", "u2")
    scene.restart()
    await scene.send("c", "u3")
    assert scene.firsts == [("a", "one", "anthropic")]
