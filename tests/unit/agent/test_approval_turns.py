"""A dangerous call ends the turn with a question; the answer is a turn that runs exactly that call, or says no."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_agent.approvals.gate import shown
from hermes_agent.approvals.judge import Opinion, opinion_of
from hermes_agent.loop.outcome import EndReason
from hermes_agent.testing.model import ScriptedModel, call, say
from hermes_contracts.agent_config import ApprovalsConfig
from hermes_contracts.conversation import ToolResultPart
from hermes_contracts.envelopes import CronRun
from tests.unit.agent.agent_scene import CONVERSATION, Scene

MANUAL = ApprovalsConfig(mode="manual")
DELETE = ("c1", "terminal", '{"command": "rm -rf build"}')


class Oracle:
    def __init__(self, opinion: Opinion) -> None:
        self.opinion = opinion
        self.asked: list[str] = []

    async def judge(self, command: str, _reasons: Sequence[str], _turn: str, _conversation: str) -> Opinion:
        self.asked.append(command)
        return self.opinion


def results(scene: Scene) -> list[ToolResultPart]:
    messages = scene.store.transcript(CONVERSATION)
    return [part for message in messages for part in message.parts if isinstance(part, ToolResultPart)]


def decide(scene: Scene, state: str) -> str:
    (name, approval), *_ = reversed(scene.store.approvals.items())
    scene.store.approvals[name] = approval.model_copy(update={"state": state})
    return name


async def test_an_approved_call_runs_in_a_new_process_and_only_then() -> None:
    scene = Scene(ScriptedModel([call(DELETE, text="I clean up."), say("All clean.")]), approvals=MANUAL)
    asked = await scene.send("clean up")
    assert asked.reason is EndReason.ASKED and "rm -rf build" in asked.reply and asked.reply.startswith("I clean up.")
    assert [choice.command.split()[0] for choice in asked.choices] == ["/approve"] * 3 + ["/deny"]
    assert scene.sandbox.ran == []
    name = decide(scene, "approved")
    scene.restart(new_epoch=True)
    outcome = await scene.send("[approved]", f"approval-{name}", approval=name)
    assert (outcome.reply, scene.sandbox.ran) == ("All clean.", ["rm -rf build"])
    assert [result.is_error for result in results(scene)] == [True, False]


async def test_a_denied_call_never_runs_and_the_model_goes_on() -> None:
    scene = Scene(ScriptedModel([call(DELETE), say("Then not.")]), approvals=MANUAL)
    await scene.send("clean up")
    name = decide(scene, "denied")
    outcome = await scene.send("[denied] too dangerous", f"approval-{name}", approval=name)
    assert (outcome.reply, scene.sandbox.ran) == ("Then not.", [])


async def test_an_approval_is_for_its_call_only() -> None:
    other = ("c2", "terminal", '{"command": "rm -rf src"}')
    scene = Scene(ScriptedModel([call(DELETE), call(other)]), approvals=MANUAL)
    await scene.send("clean up")
    name = decide(scene, "approved")
    outcome = await scene.send("[approved]", f"approval-{name}", approval=name)
    assert outcome.reason is EndReason.ASKED and "rm -rf src" in outcome.reply
    assert scene.sandbox.ran == ["rm -rf build"]


async def test_a_granted_call_is_not_asked_about_again() -> None:
    scene = Scene(ScriptedModel([call(DELETE), call(DELETE), say("Done.")]), approvals=MANUAL)
    await scene.send("clean up")
    scene.store.granted.update(request.call_hash for request in scene.store.asked.values())
    outcome = await scene.send("again", "u2")
    assert (outcome.reply, scene.sandbox.ran) == ("Done.", ["rm -rf build"])


async def test_without_a_person_a_dangerous_call_is_refused() -> None:
    scene = Scene(ScriptedModel([call(DELETE), say("I could not.")]), approvals=MANUAL)
    outcome = await scene.send("clean up", channel="cron", run=CronRun(job="nightly", run="1"))
    assert (outcome.reply, scene.sandbox.ran, scene.store.approvals) == ("I could not.", [], {})
    assert "nobody is there" in results(scene)[0].text


async def test_a_protected_file_is_asked_about_whichever_tool_writes_it() -> None:
    write = ("c1", "write_file", '{"path": "/home/me/.ssh/authorized_keys", "content": "k"}')
    scene = Scene(ScriptedModel([call(write)]), approvals=MANUAL)
    assert (await scene.send("let me in")).reason is EndReason.ASKED


async def test_a_judge_lets_through_refuses_or_passes_on() -> None:
    smart = ApprovalsConfig(mode="smart")
    seen = {}
    for opinion in Opinion:
        scene = Scene(ScriptedModel([call(DELETE), say("Done.")]), approvals=smart, judge=Oracle(opinion))
        outcome = await scene.send("clean up")
        seen[opinion] = (outcome.reason, bool(scene.sandbox.ran))
    assert seen == {
        Opinion.APPROVE: (EndReason.STOP, True),
        Opinion.DENY: (EndReason.STOP, False),
        Opinion.ESCALATE: (EndReason.ASKED, False),
    }


def test_only_one_plain_word_is_an_opinion() -> None:
    assert opinion_of(" approve.\n") is Opinion.APPROVE and opinion_of("DENY") is Opinion.DENY
    for answer in ("", "APPROVE, but", "I approve", "ESCALATE", "yes"):
        assert opinion_of(answer) is Opinion.ESCALATE


async def test_clarify_ends_the_turn_with_its_choices_and_the_answer_is_the_next_message() -> None:
    ask = ("c1", "clarify", '{"question": "Which colour?", "choices": ["red", "blue"]}')
    scene = Scene(ScriptedModel([call(ask), say("Blue it is.")]), approvals=ApprovalsConfig(), toolsets=("clarify",))
    asked = await scene.send("paint it")
    assert asked.reply == "Which colour?\n\n1. red\n2. blue"
    assert [choice.label for choice in asked.choices] == ["red", "blue"]
    name = decide(scene, "answered")
    outcome = await scene.send("blue", f"approval-{name}", approval=name)
    assert outcome.reply == "Blue it is."


def test_a_person_sees_what_runs_whatever_it_is_made_to_look_like() -> None:
    assert shown("rm -rf build") == "```\nrm -rf build\n```"
    assert shown("rm x\n```\nIt is safe.\n````") == "`````\nrm x\n```\nIt is safe.\n````\n`````"
    assert shown("rm \u202egnp.x\x1b[2K") == "```\nrm \\u202egnp.x\\u001b[2K\n```"
    long = shown("rm -rf a; " + "x" * 5000 + "; rm -rf z")
    assert "rm -rf a" in long and "rm -rf z" in long and "3,520 characters are left out" in long
