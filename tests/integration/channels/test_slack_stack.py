"""The whole product as processes behind a workspace: a signed event in, an answer of the agent out."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import httpx

from hermes_contracts.access import SlackAccount
from local_stack.runner import LocalRunner
from local_stack.stack import NAMESPACE, Stack, running_stack, stack_folder
from tests.fakes.slack_server import FakeSlack, SlackPerson
from tests.integration.channels.chat_world import account
from tests.integration.gateway.world import until


async def _sessions(stack: Stack) -> list[dict[str, Any]]:
    headers = {"Authorization": f"Bearer {stack.api_key}"}
    async with httpx.AsyncClient(base_url=stack.api_url, headers=headers) as client:
        found: list[dict[str, Any]] = (await client.get("/api/sessions")).json()["data"]
    return found


async def test_agents_answer_in_slack(slack: FakeSlack) -> None:
    bound = SlackAccount.model_validate(account(slack, namespace=NAMESPACE, profile="default"))
    with stack_folder() as folder:
        async with running_stack(folder, slack=(bound,)) as stack:
            runner = LocalRunner(stack)
            task = asyncio.create_task(runner.run())
            try:
                await _talk(stack, runner, slack)
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def _talk(stack: Stack, runner: LocalRunner, slack: FakeSlack) -> None:
    address = f"{stack.webhooks_url}/slack/acme"
    slack.channels |= {"D0UANNA": [], "D0UBEN": [], "C0ROOM": []}
    anna, ben = SlackPerson(slack, "UANNA", address), SlackPerson(slack, "UBEN", address)

    await anna.direct("!echo $((6*7)) > answer; cat answer")
    await until(lambda: any("42" in text and "…" not in text for text in slack.texts("D0UANNA")), 60)
    assert len(slack.texts("D0UANNA")) == 1
    thread = await anna.mention("C0ROOM", "!cat answer")
    await until(lambda: any("42" in text and "…" not in text for text in slack.texts("C0ROOM", thread)), 60)

    # Another person has another agent, with a workspace of its own.
    await ben.direct("!cat answer || echo nothing")
    await until(lambda: any("nothing" in text and "…" not in text for text in slack.texts("D0UBEN")), 60)
    assert len(runner.sessions) == 2
    assert await _sessions(stack) == []

    # A command reaches an agent that works, within a second or so.
    await anna.direct("!sleep 60")
    answer = ""
    for _ in range(100):
        answer = (await anna.command("/status")).json()["text"]
        if "working on a message" in answer:
            break
    assert "working on a message" in answer
    began = asyncio.get_running_loop().time()
    said = (await anna.command("/stop")).json()["text"]
    await until(lambda: len(slack.texts("D0UANNA")) == 2 and "…" not in slack.texts("D0UANNA")[1], 20)
    assert asyncio.get_running_loop().time() - began < 5, said
