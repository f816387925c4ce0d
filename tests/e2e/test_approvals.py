"""A dangerous command in Slack waits for its button while the agent's pod is gone; pressed, it runs and its output comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from release.kubectl import apply, condition, get, get_all, kubectl, until
from tests.e2e.framework.fake_platform import FakePlatform, fake_platform
from tests.e2e.framework.installation import SLACK, namespace_of, profile

pytestmark = pytest.mark.timeout(300)

STORY = "slack"
NAMESPACE = namespace_of(STORY)
CHAT = "D0UCARL"


@pytest.fixture
async def slack() -> AsyncIterator[FakePlatform]:
    async with fake_platform(SLACK, "slack_pod", "/slack/acme") as found:
        yield found


@pytest.fixture
async def careful() -> AsyncIterator[None]:
    """The Profile asks before dangerous commands meanwhile, and its agents are soon asleep."""
    await _use("Isolated")
    await _use("", approvals={"mode": "Manual"}, idleTimeoutSeconds=5)
    yield
    await _use("Isolated")


async def _use(unasked: str, **spec: Any) -> None:
    """Change the Profile, and wait until the operator says whether commands are asked about."""
    await apply(profile(STORY, **spec))

    async def said() -> bool:
        found = condition(await get("profile", "default", NAMESPACE), "CommandsUnasked")
        return str(found.get("reason", "")) == unasked

    await until(f"condition CommandsUnasked to be {unasked!r}", said)
    await kubectl("delete", "hermessessions", "--all", "-n", NAMESPACE, "--wait")


async def messages(slack: FakePlatform) -> list[dict[str, Any]]:
    return [m for m in (await slack.state())["channels"].get(CHAT, []) if m["user"] == "U0BOT"]


@pytest.mark.usefixtures("careful")
async def test_a_dangerous_command_waits_for_its_button_while_the_agent_sleeps(slack: FakePlatform) -> None:
    await slack.act(user="UCARL", do="direct", text="!mkdir old && rm -rf old && echo $((6*7))")

    async def asked() -> dict[str, Any] | None:
        return next((m for m in await messages(slack) if m.get("blocks")), None)

    question = await until("the question with its buttons", asked, deadline_seconds=120)
    assert "rm -rf old" in question["text"]

    async def asleep() -> bool:
        return not await get_all("pods", NAMESPACE, "hermes.run/sid")

    await until("the agent to sleep", asleep, deadline_seconds=90)
    await slack.act(user="UCARL", do="press", channel=CHAT, message=question["ts"], label="Once")

    async def ran() -> bool:
        return any("It says" in m["text"] and "42" in m["text"] for m in await messages(slack))

    await until("the command's output in the answer", ran, deadline_seconds=120)
    told = await messages(slack)
    assert len(told) == 2, "the question, and one answer"
    assert told[0].get("blocks") == [], "nothing is left to press"
