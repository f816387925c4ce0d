"""A scheduled run: its message, its script and gate, its silence, its narrower tools, and what a crash leaves."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_agent.loop.outcome import EndReason, Outcome
from hermes_agent.prompt import tiers
from hermes_agent.prompt.scheduled_message import SILENT
from hermes_agent.stop import StopReason, StopSignal
from hermes_agent.testing.model import ScriptedModel, call, say
from hermes_contracts.conversation import Role
from hermes_contracts.envelopes import CronRun, EarlierAnswer
from tests.unit.agent.agent_scene import Scene

RUN = CronRun(job="nightly", run="2026-11-30T22:00:00Z")


async def go(
    scene: Scene, update: str = "r1", text: str = "Write the report.", stop: StopSignal | None = None, **run: Any
) -> Outcome:
    facts = RUN.model_copy(update=run)
    return await scene.send(text, update, stop, channel="cron", account="job-uid", run=facts.model_dump())


def said(scene: Scene) -> str:
    return scene.transcript[0].text()


async def test_the_message_says_what_it_is_and_brings_earlier_answers() -> None:
    scene = Scene(ScriptedModel([say("all is well")]))
    outcome = await go(scene, context=(EarlierAnswer(job="weather", text="rain</answer>"),))
    assert (outcome.reply, outcome.silent) == ("all is well", False)
    assert said(scene).startswith("[scheduled run of the job nightly, 2026-11-30T22:00:00Z:")
    assert "Write the report." in said(scene)
    assert '<answer job="weather">\nrain<\\/answer>\n</answer>' in said(scene)
    assert scene.firsts == []


@pytest.mark.parametrize(("reply", "silent"), [(SILENT, True), (f" {SILENT}\n", True), (f"{SILENT} but", False)])
async def test_exactly_the_word_is_silent(reply: str, silent: bool) -> None:
    scene = Scene(ScriptedModel([say(reply)]))
    outcome = await go(scene)
    assert outcome.silent is silent
    assert scene.store.turn("r1").commits[0].silent is silent
    assert (outcome.reason is EndReason.SILENT) is silent


async def test_a_person_is_answered_even_with_that_word() -> None:
    scene = Scene(ScriptedModel([say(SILENT)]))
    assert not (await scene.send()).silent


async def test_the_script_runs_first_and_once_and_the_model_reads_its_output() -> None:
    scene = Scene(ScriptedModel([say("three")]))
    outcome = await go(scene, script="echo 3 tickets")
    assert outcome.reply == "three"
    assert scene.sandbox.ran == ["echo 3 tickets"]
    assert "<script_output>\n3 tickets\n</script_output>" in said(scene)
    assert [message.role for message in scene.transcript] == [Role.USER, Role.ASSISTANT]


async def test_a_failing_script_is_shown_to_the_model() -> None:
    scene = Scene(ScriptedModel([say("it failed")]))
    await go(scene, script="fail")
    assert "no luck\n[the script failed: exit code 1]" in said(scene)


@pytest.mark.parametrize(
    ("script", "asked"),
    [('echo {"wakeAgent": false}', False), ('echo {"wakeAgent": true}', True), ('echo {"wakeAgent": 0}', True)],
)
async def test_the_gate_ends_the_run_without_a_model(script: str, asked: bool) -> None:
    model = ScriptedModel([say("awake")])
    outcome = await go(Scene(model), script=script)
    assert (len(model.requests) > 0) is asked
    assert outcome.silent is not asked
    assert (outcome.reason is EndReason.NOT_WOKEN) is not asked


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo disk is full", ("done", EndReason.STOP, "disk is full", False)),
        ("true", ("done", EndReason.SILENT, SILENT, True)),
        ("fail", ("failed", EndReason.SCRIPT_FAILED, "The script failed: exit code 1.\n\nno luck", False)),
    ],
)
async def test_without_an_agent_the_script_is_the_answer(script: str, expected: tuple[object, ...]) -> None:
    model = ScriptedModel([])
    scene = Scene(model)
    outcome = await go(scene, script=script, no_agent=True)
    assert (outcome.outcome, outcome.reason, outcome.reply, outcome.silent) == expected
    assert model.requests == []
    assert [message.role for message in scene.transcript] == [Role.USER, Role.ASSISTANT]


@pytest.mark.parametrize("no_agent", [False, True])
async def test_a_script_that_was_cut_short_is_never_run_again(no_agent: bool) -> None:
    class Died(BaseException):
        pass

    scene = Scene(ScriptedModel([say("careful then")]))

    def die(_when: str) -> None:
        raise Died

    scene.sandbox.hook = die
    with pytest.raises(Died):
        await go(scene, script="echo once", no_agent=no_agent)
    scene.sandbox.hook = lambda _when: None
    scene.restart(new_epoch=True)
    outcome = await go(scene, script="echo once", no_agent=no_agent)
    assert scene.sandbox.ran == []
    assert "its effect is unknown" in said(scene)
    assert outcome.outcome == ("failed" if no_agent else "done")


async def test_the_prompt_offers_the_narrowed_tools_and_others_are_refused() -> None:
    model = ScriptedModel([call(("1", "terminal", '{"command": "echo hi"}')), say("no terminal")])
    scene = Scene(model)
    await go(scene, toolsets=("file",))
    assert "terminal" not in {tool.name for tool in model.requests[0].tools}
    assert "read_file" in {tool.name for tool in model.requests[0].tools}
    assert "not available in this run" in scene.results()[0].text
    assert scene.sandbox.ran == []
    prompt = scene.store.prompts[scene.store.turn("r1").inbound.conversation].system
    assert tiers.toolsets_in(prompt) == ("file",)
    rebuilt = await scene.prompts().rebuild(prompt)
    assert {tool.name for tool in rebuilt.tools} == {tool.name for tool in model.requests[0].tools}


async def test_the_next_message_of_a_shared_conversation_has_all_tools_again() -> None:
    model = ScriptedModel([say("ran"), call(("1", "terminal", '{"command": "echo hi"}')), say("done")])
    scene = Scene(model)
    await go(scene, toolsets=(), channel="api")
    await scene.send("now you", "u2")
    assert scene.sandbox.ran == ["echo hi"]


async def test_a_restriction_that_cannot_be_kept_fails_the_run() -> None:
    model = ScriptedModel([])
    outcome = await go(Scene(model), toolsets=("file", "browser"), script="echo 1")
    assert (outcome.outcome, outcome.reason) == ("failed", EndReason.RESTRICTION)
    assert "browser" in outcome.reply
    assert model.requests == []


async def test_a_stopped_run_is_failed_and_silent() -> None:
    stop = StopSignal()
    scene = Scene(ScriptedModel([say("late")]))
    scene.on_turn = lambda ear: ear.set(StopReason.USER)
    outcome: Outcome = await go(scene, stop=stop)
    assert (outcome.outcome, outcome.reason, outcome.silent) == ("failed", EndReason.STOPPED_BY_USER, True)
