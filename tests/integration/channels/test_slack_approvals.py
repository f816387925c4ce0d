"""A dangerous command in Slack: asked about with buttons, pressed while the agent sleeps, and its output seen to come."""

from __future__ import annotations

import asyncio
import contextlib

from hermes_contracts.access import SlackAccount
from hermes_contracts.crd.profile import Approvals, ModelSettings, ProfileSpec
from local_stack.runner import LocalRunner
from local_stack.stack import NAMESPACE, LocalProfile, Stack, running_stack, stack_folder
from tests.fakes.slack_server import FakeSlack, SlackPerson
from tests.integration.channels.chat_world import account
from tests.integration.gateway.world import until

CAREFUL = LocalProfile(
    spec=ProfileSpec(model=ModelSettings(provider="scripted", name="scripted-1"), approvals=Approvals(mode="Manual"))
)


async def test_a_button_runs_the_command_and_the_answer_grows(slack: FakeSlack) -> None:
    bound = SlackAccount.model_validate(account(slack, namespace=NAMESPACE, profile="default"))
    with stack_folder() as folder:
        async with running_stack(folder, profiles=(CAREFUL,), slack=(bound,)) as stack:
            runner = LocalRunner(stack, idle_seconds=0.5)
            task = asyncio.create_task(runner.run())
            try:
                await _story(stack, runner, slack)
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def _story(stack: Stack, runner: LocalRunner, slack: FakeSlack) -> None:
    slack.channels |= {"D0UANNA": []}
    anna = SlackPerson(slack, "UANNA", f"{stack.webhooks_url}/slack/acme")
    await anna.direct("!sh -c 'sleep 4; echo $((6*7)) | tee -a effects'")
    await until(lambda: any(message.get("blocks") for message in slack.written("D0UANNA")), 60)
    (question,) = slack.written("D0UANNA")
    assert "May I run this?" in question["text"]
    (session,) = runner.sessions.values()
    await until(lambda: not session.agent.running, 30)

    assert "I ask before dangerous commands." in (await anna.command("/status")).json()["text"]
    press = anna.press("D0UANNA", question, "Once")
    for _ in range(2):
        assert (await anna.send_press(press)).status_code == 200
    await until(lambda: any("It says" in text and "42" in text for text in slack.texts("D0UANNA")), 60)
    await until(lambda: question["blocks"] == [] and "Approved, this once." in question["text"], 10)
    (answer,) = [message for message in slack.written("D0UANNA") if message is not question]
    assert (stack.folder / "sessions" / session.route.sid / "workspace" / "effects").read_text() == "42\n"
    assert any("terminal" in text for text in slack.edits[answer["ts"]]), "the command was shown while it ran"
