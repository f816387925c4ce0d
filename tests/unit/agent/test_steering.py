"""A person speaks into a running turn: words that are taken along, and a new goal."""

from __future__ import annotations

import asyncio
import time

import pytest

from hermes_agent.loop.outcome import EndReason
from hermes_agent.loop.state import Turn
from hermes_agent.loop.steering import INTERRUPTED, NEW_GOAL, mark
from hermes_agent.prompt.first_message import STEERED
from hermes_agent.stop import Note, StopReason, StopSignal
from hermes_agent.testing.model import Piece, Reply, ScriptedModel, Wait, call, say
from hermes_agent.transport.commands import (
    COMPRESSION_FAILED,
    COMPRESSION_STOPPED,
    NO_TEXT,
    NOT_PASSED_ON,
    REDIRECTED,
    STEERED as STEERED_ANSWER,
    STOPPED,
    TOO_LATE,
    Commands,
)
from hermes_contracts.conversation import Role
from hermes_contracts.model_api import ModelRequest, TextDelta
from hermes_contracts.store_api import Command, CommandKind
from tests.unit.agent.agent_scene import Scene

ECHO = '{"command": "echo hi"}'
SLEEP = '{"command": "sleep 30"}'


class Crash(BaseException):
    """The process is gone."""


class Live:
    """A scene whose commands work, as in the process: put one in the store, look, wait for its answer."""

    def __init__(self, model: ScriptedModel) -> None:
        self.scene = Scene(model)
        self.scene.on_turn = self._begin
        self.restart()

    def restart(self) -> None:
        self.scene.restart()
        self.commands = Commands(self.scene.store.client(self.scene.epoch))

    def _begin(self, stop: StopSignal) -> None:
        self.commands.turn_begins(stop, 0.0)

    def put(self, command_id: str, kind: CommandKind, text: str = "") -> None:
        self.scene.store.commands[command_id] = Command(
            command_id=command_id, kind=kind, arguments={"text": text}, created_at=time.time()
        )
        self.commands.look()

    async def send(self, text: str = "hello", update: str = "u1") -> EndReason:
        pump = asyncio.ensure_future(self.commands.pump())
        try:
            outcome = await self.scene.send(text, update)
            await self.commands.turn_ended(outcome)
        finally:
            pump.cancel()
        self.reply = outcome.reply
        return outcome.reason

    async def until_ran(self, command: str) -> None:
        await until(lambda: command in self.scene.sandbox.ran)

    @property
    def answers(self) -> dict[str, str]:
        return self.scene.store.results

    def texts(self) -> list[tuple[Role, str]]:
        return [(m.role, m.text()) for m in self.scene.transcript]


async def until(condition: object) -> None:
    deadline = time.monotonic() + 5
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        await asyncio.sleep(0)


async def test_words_follow_the_newest_results_as_a_row_of_their_own() -> None:
    live = Live(ScriptedModel([call(("a", "terminal", ECHO)), say("In French: salut.")]))
    live.scene.sandbox.hook = lambda when: live.put("k1", CommandKind.STEER, "in French") if when == "before" else None
    original = live.scene.sandbox.run

    async def slow_run(*args: object, **kwargs: object) -> object:
        await until(lambda: "take_commands" in live.scene.store.calls)
        result = await original(*args, **kwargs)  # type: ignore[arg-type]
        await until(lambda: live.commands._notes)
        return result

    live.scene.sandbox.run = slow_run  # type: ignore[method-assign, assignment]
    assert await live.send() is EndReason.STOP
    roles = [role for role, _ in live.texts()]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER, Role.ASSISTANT]
    assert live.texts()[3][1] == f"{STEERED} {mark(Note('k1', ''))}\nin French"
    assert [m.role for m in live.scene.model.requests[1].messages] == roles[:4], "nothing stands between"
    assert live.answers == {"k1": STEERED_ANSWER}
    steps = [stored.step for stored in live.scene.store.messages[live.scene.model.requests[0].conversation]]
    assert steps == [0, 1, 2, 2, 3], "results and words are one write"


async def test_words_that_come_with_the_answer_are_answered_in_the_same_turn() -> None:
    live = Live(ScriptedModel([[TextDelta(text="One"), Wait(0.05), *say(" answer.")], say("Another answer.")]))
    turn = asyncio.ensure_future(live.send())
    await until(lambda: live.scene.deltas.pieces)
    live.put("k1", CommandKind.STEER, "and more")
    assert await turn is EndReason.STOP
    assert live.reply == "One answer.\n\nAnother answer."
    assert [text for _, text in live.texts()][1:] == [
        "One answer.", f"{STEERED} {mark(Note('k1', ''))}\nand more", "Another answer.",
    ]  # fmt: skip
    assert live.answers == {"k1": STEERED_ANSWER}


async def test_the_whole_reply_survives_a_crash_between_two_answers() -> None:
    crashed = False

    def script(request: ModelRequest) -> Reply:
        nonlocal crashed
        if request.messages[-1].text().startswith(STEERED):
            if not crashed:
                crashed = True
                raise Crash
            return say("Second.")
        return [TextDelta(text="First"), Wait(0.05), *say(".")]

    live = Live(ScriptedModel(script))
    signal = StopSignal()
    signal.steer(Note("k1", "more"))
    with pytest.raises(Crash):
        await live.scene.send(stop=signal)
    live.restart()
    live.put("k1", CommandKind.STEER, "more")
    assert await live.send() is EndReason.STOP
    assert live.reply == "First.\n\nSecond."
    assert sum("more" in text for _, text in live.texts()) == 1, "written once although the command came twice"


async def test_nothing_runs_nothing_is_passed_on_and_the_person_hears_it() -> None:
    live = Live(ScriptedModel([say("Hi.")]))
    pump = asyncio.ensure_future(live.commands.pump())
    live.put("k1", CommandKind.STEER, "more")
    live.put("k2", CommandKind.REDIRECT, "else")
    live.put("k3", CommandKind.STEER, "  ")
    await until(lambda: len(live.answers) == 3)
    pump.cancel()
    assert live.answers == {"k1": NOT_PASSED_ON, "k2": NOT_PASSED_ON, "k3": NO_TEXT}


async def test_words_for_a_turn_that_is_stopped_are_given_back() -> None:
    live = Live(ScriptedModel([call(("a", "terminal", SLEEP))]))
    turn = asyncio.ensure_future(live.send())
    await live.until_ran("sleep 30")
    live.put("k1", CommandKind.STEER, "more")
    await until(lambda: live.commands._notes)
    live.put("k2", CommandKind.STOP)
    assert await turn is EndReason.STOPPED_BY_USER
    # The words were in the row that follows the results of the stopped tool: they are in the transcript.
    assert live.answers["k2"] == STOPPED and live.answers["k1"] in {STEERED_ANSWER, TOO_LATE}


GOALS: list[tuple[str, list[list[Piece]], str, list[Role]]] = [
    ("while the model speaks", [[TextDelta(text="Writing the essay"), Wait(30)]], "Writing the essay",
     [Role.USER, Role.ASSISTANT, Role.USER, Role.ASSISTANT]),
    ("while a tool runs", [call(("a", "terminal", SLEEP), ("b", "terminal", ECHO))], "sleep 30",
     [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT, Role.USER, Role.ASSISTANT]),
]  # fmt: skip


@pytest.mark.parametrize(("story", "script", "when", "roles"), GOALS, ids=[goal[0] for goal in GOALS])
async def test_a_new_goal_drops_what_is_being_done_within_a_second(
    story: str, script: list[list[Piece]], when: str, roles: list[Role]
) -> None:
    del story
    live = Live(ScriptedModel([*script, say("The poem.")]))
    turn = asyncio.ensure_future(live.send("Write an essay."))
    await until(lambda: when in [*live.scene.sandbox.ran, *(text for _, text in live.scene.deltas.pieces)])
    started = time.monotonic()
    live.put("k1", CommandKind.REDIRECT, "Write a poem instead.")
    assert await turn is EndReason.STOP
    assert time.monotonic() - started < 1 and live.reply == "The poem."
    assert [role for role, _ in live.texts()] == roles
    assert live.texts()[-3][1] == INTERRUPTED
    assert live.texts()[-2][1] == f"{NEW_GOAL} {mark(Note('k1', ''))}\nWrite a poem instead."
    assert live.answers == {"k1": REDIRECTED} and live.scene.sandbox.finished == []
    if "sleep" in when:
        assert ["the user gave a new goal" in r.text for r in live.scene.results()] == [True, True]
    else:
        assert ("restart", "") in live.scene.deltas.pieces


async def test_a_new_goal_that_was_written_down_before_a_crash_is_not_written_twice() -> None:
    calls = 0

    def script(_: ModelRequest) -> Reply:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise Crash
        return say("Done.")

    live = Live(ScriptedModel(script))
    signal = StopSignal()
    signal.redirect(Note("k1", "else"))
    live.scene.model._script = lambda request: script(request)
    calls = 1
    with pytest.raises(Crash):
        await live.scene.send(stop=signal)
    live.restart()
    live.put("k1", CommandKind.REDIRECT, "else")
    assert await live.send() is EndReason.STOP
    assert sum(text.startswith(NEW_GOAL) for _, text in live.texts()) == 1
    assert live.answers == {"k1": REDIRECTED}


async def test_a_stop_comes_before_a_new_goal() -> None:
    signal = StopSignal()
    signal.redirect(Note("k1", "else"))
    signal.set(StopReason.USER)
    outcome = await Scene(ScriptedModel()).send(stop=signal)
    assert outcome.reason is EndReason.STOPPED_BY_USER


async def test_two_new_goals_are_both_written_and_the_last_one_stands() -> None:
    scene, signal = Scene(ScriptedModel([say("ok")])), StopSignal()
    signal.redirect(Note("k1", "one"))
    signal.redirect(Note("k2", "two"))
    assert (await scene.send(stop=signal)).reply == "ok"
    goals = [m.text().split("\n")[1] for m in scene.model.requests[0].messages if m.text().startswith(NEW_GOAL)]
    assert goals == ["one", "two"] and signal.reason is None


class SlowCompactor:
    """Compacts until it is let go or stopped."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.asked: list[tuple[str, str, str]] = []
        self.error: Exception | None = None

    async def compact(self, conversation: str, focus: str, command_id: str, stop: StopSignal) -> str:
        self.asked.append((conversation, focus, command_id))
        await stop.race(self.go.wait())
        if self.error:
            raise self.error
        return "From 120,000 to 18,000 tokens."


async def test_compressing_by_hand_runs_beside_other_commands_and_can_be_stopped() -> None:
    live, compactor = Live(ScriptedModel()), SlowCompactor()
    live.commands = Commands(live.scene.store.client(1), compactor)
    pump = asyncio.ensure_future(live.commands.pump())
    live.scene.store.put_compress("k1", "the build", "c1")
    live.commands.look()
    await until(lambda: compactor.asked)
    live.commands.look()
    live.put("k2", CommandKind.STEER, "more")
    await until(lambda: "k2" in live.answers)
    assert compactor.asked == [("c1", "the build", "k1")], "looking again starts it only once"
    compactor.go.set()
    await until(lambda: live.answers.get("k1") == "From 120,000 to 18,000 tokens.")
    compactor.go.clear()
    live.scene.store.put_compress("k3", "", "c1")
    live.commands.look()
    await until(lambda: len(compactor.asked) == 2)
    live.put("k4", CommandKind.STOP)
    await until(lambda: {"k3", "k4"} <= set(live.answers))
    assert live.answers["k3"] == COMPRESSION_STOPPED and live.answers["k4"] == STOPPED
    compactor.go.set()
    compactor.error = RuntimeError("a bug")
    live.scene.store.put_compress("k5", "", "c1")
    live.commands.look()
    await until(lambda: live.answers.get("k5") == COMPRESSION_FAILED)
    pump.cancel()


async def test_a_turn_and_compressing_by_hand_exclude_each_other() -> None:
    order: list[str] = []

    class ByHand:
        async def by_hand(self, turn: Turn, focus: str) -> str:
            order.append(f"compacts {len(turn.transcript.messages)} rows as {turn.turn_id}, about {focus}")
            return "Done."

    live = Live(ScriptedModel([[TextDelta(text="slow"), Wait(0.05), *say(" answer")]]))
    turn = asyncio.ensure_future(live.send())
    await until(lambda: live.scene.deltas.pieces)
    assert live.scene.runner is not None
    live.scene.runner._by_hand = ByHand()
    compacting = asyncio.ensure_future(live.scene.runner.compact("", "food", "k1", StopSignal()))
    await turn
    assert await compacting == "Done."
    assert order == ["compacts 2 rows as k1, about food"], "after the commit; the newest conversation, when none is named"
