"""A team in Slack: three people with an agent each, one of them in two threads, and a stranger."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from release.kubectl import get_all, until
from tests.e2e.framework.fake_platform import FakePlatform, fake_platform
from tests.e2e.framework.installation import SLACK, commands, namespace_of

pytestmark = pytest.mark.timeout(300)

STORY = "slack"
NAMESPACE = namespace_of(STORY)


@pytest.fixture
async def slack() -> AsyncIterator[FakePlatform]:
    async with fake_platform(SLACK, "slack_pod", "/slack/acme") as found:
        yield found


async def said(slack: FakePlatform, channel: str, thread: str = "") -> list[str]:
    messages: list[dict[str, Any]] = (await slack.state())["channels"].get(channel, [])
    return [m["text"] for m in messages if m["user"] == "U0BOT" and m.get("thread_ts", "") == thread]


async def answered(slack: FakePlatform, channel: str, *texts: str, thread: str = "") -> None:
    async def look() -> bool:
        return await said(slack, channel, thread) == list(texts)

    await until(f"{texts} in {channel} {thread}", look, deadline_seconds=120)


async def test_three_people_have_an_agent_each_and_a_stranger_has_none(slack: FakePlatform) -> None:
    write = commands("echo $RANDOM > mine && test $(ls | wc -l) = 1", say="written")
    read = commands("test -e mine", say="read")
    await slack.act(user="UANNA", do="direct", text=write)
    first = await slack.act(user="UANNA", do="mention", channel="C0ROOM", text=read)
    second = await slack.act(user="UBEN", do="mention", channel="C0ROOM", text=write)
    await slack.act(user="UCARL", do="direct", text=write)
    await slack.act(user="UEVE", do="mention", channel="C0ROOM", text=write, thread=first)
    await answered(slack, "D0UANNA", "written")
    await answered(slack, "C0ROOM", "read", thread=first)
    await answered(slack, "C0ROOM", "written", thread=second)
    await answered(slack, "D0UCARL", "written")

    # One pod a person, wherever he writes: a second thread, and its own conversation in the same workspace.
    again = await slack.act(user="UANNA", do="mention", channel="C0ROOM", text=read)
    await answered(slack, "C0ROOM", "read", thread=again)
    sessions = await get_all("hermessessions", NAMESPACE)
    assert sorted(s["spec"]["owner"] for s in sessions) == [f"slack:T0TEAM:{who}" for who in ("UANNA", "UBEN", "UCARL")]
    assert await said(slack, "D0UEVE") == []
    status = await slack.act(user="UANNA", do="command", text="status")
    assert "I am not doing anything" in status["text"]


async def test_a_command_of_slack_reaches_a_running_agent_within_a_second(slack: FakePlatform) -> None:
    thread = await slack.act(user="UBEN", do="mention", channel="C0ROOM", text=commands("sleep 600", say="never"))

    async def shown() -> bool:
        return any("terminal" in text for text in await said(slack, "C0ROOM", thread))

    await until("the preview to show the command", shown, deadline_seconds=120)
    stopped = await slack.act(user="UBEN", do="command", text="stop")
    assert "stop" in stopped["text"].lower()

    async def ended() -> bool:
        texts = await said(slack, "C0ROOM", thread)
        return bool(texts) and "terminal" not in texts[-1]

    await until("the answer of the stopped turn", ended, deadline_seconds=30)
