"""Turns handed to a program in the sandbox: what a person asked for is done, told, stopped and never done twice."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from hermes_agent.codex.turn import KEEPS_ITSELF_SHORT, NARROWED
from hermes_agent.loop.outcome import EndReason
from hermes_agent.stop import Note, StopReason, StopSignal
from hermes_agent.testing.model import Reply, ScriptedModel, Wait, call, say
from hermes_contracts.agent_config import ApprovalsConfig
from hermes_contracts.conversation import Role, TextPart, ToolCallPart
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import ModelError, ModelRequest
from tests.integration.agent.codex_scene import CONVERSATION, CodexScene, codex_scene

pytestmark = pytest.mark.timeout(60)


def runs(command: str, call_id: str = "c1") -> Reply:
    return call((call_id, "exec_command", json.dumps({"cmd": command})), text="I look.")


def by_words(answers: dict[str, Reply]) -> Callable[[ModelRequest], Reply]:
    """Answer results with "done: ...", and words by what they hold."""

    def reply(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        if last.role is Role.TOOL:
            return say("done")
        text = last.parts[-1].text if isinstance(last.parts[-1], TextPart) else ""
        return next((answer for word, answer in answers.items() if word in text), say("hello"))

    return reply


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[CodexScene]:
    async with codex_scene(tmp_path, ScriptedModel()) as made:
        yield made


def scripted(scene: CodexScene, answers: dict[str, Reply]) -> ScriptedModel:
    scene.model = ScriptedModel(by_words(answers))
    return scene.model


async def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_program_does_the_work_and_the_transcript_the_journal_and_the_usage_tell_it(scene: CodexScene) -> None:
    model = scripted(scene, {"make": runs("echo made > made.txt; echo hi")})
    outcome = await scene.send("please make a file", instructions="answer in verse")
    assert (outcome.outcome, outcome.reason, outcome.reply) == ("done", EndReason.STOP, "done")
    assert (scene.workspace / "made.txt").read_text() == "made\n"
    question, asked, result, answer = scene.transcript
    assert question.text() == "please make a file" and answer.text() == "done"
    part = asked.parts[-1]
    assert isinstance(part, ToolCallPart) and part.name == "terminal" and "made.txt" in part.arguments
    assert asked.text() == "I look." and scene.results()[0].text == "hi\n[exit code 0]" and result.role is Role.TOOL
    turn = scene.store.turn("u1")
    assert [entry.state for entry in turn.journal] == ["started", "finished"]
    assert sum(usage.model_calls for usage in scene.used) == len(model.requests) == 2
    assert "You are Hermes, terse." in model.requests[0].system and "answer in verse" in model.requests[0].system
    assert model.requests[0].tools[0].name == "exec_command"
    assert scene.deltas.text() == "I look.done" and ("tool_started", "terminal") in scene.deltas.pieces


async def test_a_conversation_goes_on_in_its_thread_when_the_agent_is_another_one(scene: CodexScene) -> None:
    model = scripted(scene, {"make": runs("echo hi")})
    await scene.send("please make a file")
    scene.restart()
    await scene.send("and then?", "u2")
    texts = [message.text() for message in model.requests[-1].messages]
    assert texts[0] == "please make a file" and texts[-1] == "and then?"
    assert [m.model_dump() for m in model.requests[-1].messages[:3]] == [
        m.model_dump() for m in model.requests[1].messages[:3]
    ]


async def test_what_was_taken_back_is_not_in_the_programs_thread_either(scene: CodexScene) -> None:
    model = scripted(scene, {"remember": say("noted"), "secret": say("I keep the secret hunter2")})
    await scene.send("remember 42")
    await scene.send("the secret is hunter2", "u2")
    assert scene.store.undo(CONVERSATION)
    await scene.send("which number?", "u3")
    seen = "".join(message.text() for message in model.requests[-1].messages)
    assert "remember 42" in seen and "hunter2" not in seen


async def test_a_thread_that_is_lost_with_the_workspace_is_told_what_was_said(scene: CodexScene) -> None:
    model = scripted(scene, {"remember": say("I keep 42 in mind")})
    await scene.send("remember 42")
    for thread in (scene.workspace / ".hermes" / "codex" / "threads").iterdir():
        thread.unlink()
    await scene.send("which number?", "u2")
    told = model.requests[-1].messages[-1].text()
    assert "user: remember 42" in told and "assistant: I keep 42 in mind" in told and told.endswith("which number?")


async def test_a_turn_that_died_is_told_so_and_does_nothing_twice(scene: CodexScene) -> None:
    model = scripted(scene, {"restarted": say("it was done once"), "count": runs("echo once >> count.txt; sleep 60")})
    dying = asyncio.ensure_future(scene.send("count up"))
    await until((scene.workspace / "count.txt").exists)
    dying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dying
    assert [entry.state for entry in scene.store.turn("u1").journal] == ["started"]
    scene.restart()
    outcome = await scene.send("count up")
    assert outcome.reply == "it was done once"
    last = model.requests[-1].messages[-1].text()
    assert "The agent was restarted" in last and last.endswith("count up")
    assert (scene.workspace / "count.txt").read_text() == "once\n"
    assert (await scene.send("count up")).reply == "it was done once" and len(model.requests) == 2


async def test_stop_ends_the_program_and_its_commands_within_a_second(scene: CodexScene) -> None:
    scripted(scene, {"wait": runs("echo $$ > pid; sleep 60; touch never")})
    stop = StopSignal()
    running = asyncio.ensure_future(scene.send("wait", stop=stop))
    await until(lambda: (scene.workspace / "pid").exists() and bool((scene.workspace / "pid").read_text()))
    pressed = time.monotonic()
    stop.set(StopReason.USER)
    outcome = await running
    assert time.monotonic() - pressed < 1.0
    assert outcome.reason is EndReason.STOPPED_BY_USER and scene.results()[-1].text.startswith(
        "Stopped while it was running"
    )
    pid = (scene.workspace / "pid").read_text().strip()
    await until(lambda: not Path("/proc", pid).exists())
    assert scene.store.turn("u1").journal[-1].state == "finished"


@pytest.mark.parametrize("answers", [True, False])
async def test_a_stop_while_a_step_is_written_leaves_no_step_in_doubt(scene: CodexScene, answers: bool) -> None:
    scripted(scene, {"wait": runs("sleep 60")}).hook = lambda _when: scene.answers.clear()
    stop = StopSignal()

    def begun() -> bool:
        return "u1" in {turn.inbound.update_id for turn in scene.store.turns.values()} and bool(
            scene.store.turn("u1").journal
        )

    running = asyncio.ensure_future(scene.send("wait", stop=stop))
    await until(begun)
    stop.set(StopReason.USER)
    if answers:
        scene.answers.set()
        assert (await running).reason is EndReason.STOPPED_BY_USER
        assert [entry.state for entry in scene.store.turn("u1").journal] == ["started", "finished"]
        assert scene.results()[-1].text.startswith("Stopped while it was running")
    else:
        with pytest.raises(HermesError, match="did not say whether a step was written"):
            await running


async def test_words_reach_the_program_while_it_works_and_a_new_goal_replaces_the_old_one(scene: CodexScene) -> None:
    model = scripted(
        scene,
        {
            "wait": runs("touch begun; while [ ! -e go ]; do sleep 0.05; done"),
            "plain": say("plainly"),
            "brief": say("briefly"),
        },
    )
    stop = StopSignal()
    kept: list[Note] = []
    stop.on_stored = kept.append
    running = asyncio.ensure_future(scene.send("wait", stop=stop))
    await until((scene.workspace / "begun").exists)
    stop.steer(Note("k1", "be brief"))
    await until(lambda: bool(kept))
    (scene.workspace / "go").touch()
    assert (await running).reply == "briefly" and model.requests[-1].messages[-1].text() == "be brief"
    (scene.workspace / "begun").unlink()
    (scene.workspace / "go").unlink()
    stop = StopSignal()
    running = asyncio.ensure_future(scene.send("wait again", "u2", stop))
    await until((scene.workspace / "begun").exists)
    stop.redirect(Note("k2", "say it plain"))
    outcome = await running
    assert outcome.reply == "plainly" and any("[new goal]" in message.text() for message in scene.transcript)


async def test_words_that_the_program_takes_no_more_follow_its_answer(scene: CodexScene) -> None:
    scene.faulty("unsteerable")
    scripted(scene, {"wait": [Wait(0.2), *say("first")], "plain": say("second")})
    stop = StopSignal()
    running = asyncio.ensure_future(scene.send("wait", stop=stop))
    await until(lambda: bool(scene.model.requests))
    stop.steer(Note("k1", "say it plain"))
    assert (await running).reply == "first\n\nsecond"


async def test_what_the_profile_forbids_is_declined_and_what_needs_a_person_too(scene: CodexScene) -> None:
    scene.approvals = ApprovalsConfig(mode="manual", deny=("git push*",))
    scripted(
        scene, {"push": runs("git push origin"), "tidy": runs("touch kept; rm -rf ~/x", "c2"), "look": runs("ls", "c3")}
    )
    await scene.send("push it")
    assert "forbidden here by the rule" in scene.results()[-1].text and scene.results()[-1].is_error
    await scene.send("tidy up", "u2")
    assert "nobody can be asked while Codex works" in scene.results()[-1].text
    assert not (scene.workspace / "kept").exists()
    await scene.send("look", "u3")
    assert scene.results()[-1].text.endswith("[exit code 0]")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("dies", "ended in the middle of the work (exit code 101; it said: thread panicked: out of luck)"),
        ("rubbish", "cannot be read (a line that is not JSON)"),
        ("huge", "cannot be read (a line of more than"),
        ("crowds", "began more than 64 things at once"),
    ],
)
async def test_a_program_that_breaks_becomes_one_plain_sentence(scene: CodexScene, fault: str, words: str) -> None:
    scene.faulty(fault)
    outcome = await scene.send("hello")
    assert (outcome.outcome, outcome.reason) == ("failed", EndReason.PROGRAM_FAILED) and words in outcome.reply
    scene.faulty("")
    assert (await scene.send("hello again", "u2")).reply == "done"


async def test_a_silent_program_is_stopped_and_one_that_asks_for_more_gets_nothing(scene: CodexScene) -> None:
    scene.faulty("silent")
    scene.limit(stall_seconds=1.5)
    assert (await scene.send("hello")).reason is EndReason.STALLED
    scene.limit(stall_seconds=60.0)
    scene.faulty("asks")
    assert (await scene.send("hello", "u2")).reply == "done"


async def test_a_missing_program_says_what_to_do(scene: CodexScene) -> None:
    scene.command = ("no-such-codex",)
    outcome = await scene.send("hello")
    assert outcome.reason is EndReason.PROGRAM_FAILED
    assert "no-such-codex" in outcome.reply and "sandbox.image" in outcome.reply and "model.codex.command" in outcome.reply


async def test_the_models_failures_and_the_turns_limits_end_it_in_their_own_words(scene: CodexScene) -> None:
    broke = ModelError(code=ErrorCode.BUDGET, message="5 of 5 US dollars are spent")
    scripted(scene, {"spend": [broke], "again": [HermesError(ErrorCode.TIMEOUT, "silent", retryable=True)]})
    outcome = await scene.send("spend")
    assert outcome.reason is EndReason.BUDGET and "5 of 5 US dollars" in outcome.reply
    outcome = await scene.send("again", "u2")
    assert outcome.reason is EndReason.MODEL_ERROR and "after 2 attempts" in outcome.reply
    scene.limit(max_iterations=2)
    scene.restart()
    scene.model = ScriptedModel(lambda request: runs("true", f"c{len(request.messages)}"))
    outcome = await scene.send("for ever", "u3")
    assert outcome.outcome == "done" and outcome.reason is EndReason.ITERATION_LIMIT and "2 steps" in outcome.reply


async def test_a_message_with_fewer_tools_is_not_handed_over_and_compress_says_why_not(scene: CodexScene) -> None:
    outcome = await scene.send("hello", toolsets=["file"])
    assert (outcome.reason, outcome.reply) == (EndReason.RESTRICTION, NARROWED)
    await scene.send("hello", "u2")
    assert scene.runner is not None
    assert await scene.runner.compact("", "", "k1", StopSignal()) == KEEPS_ITSELF_SHORT


async def test_the_way_to_the_model_opens_to_the_turns_token_only(scene: CodexScene) -> None:
    script = (
        "for p in $(ls /proc | grep -E '^[0-9]+$'); do tr '\\0' ' ' < /proc/$p/cmdline; echo; done 2>/dev/null "
        "| grep -o 'http://127.0.0.1:[0-9]*/v1' | head -1 > url; "
        "curl -s -o /dev/null -w '%{http_code}' -X POST -H 'authorization: Bearer wrong' -d '{}' $(cat url)/responses"
    )
    scripted(scene, {"knock": runs(script)})
    await scene.send("knock")
    assert scene.results()[-1].text.startswith("401")
