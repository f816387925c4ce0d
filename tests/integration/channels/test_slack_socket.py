"""An app without an address: events come over a connection that a gateway opens, and one of the replicas holds it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_gateway.gateway.app import running
from tests.fakes.slack_server import FakeSlack
from tests.fakes.slack_socket import APP_TOKEN, FakeSockets, fake_sockets
from tests.integration.channels.chat_world import ChatWorld, chat_world
from tests.integration.gateway.world import until


@pytest.fixture
async def sockets(slack: FakeSlack) -> AsyncIterator[FakeSockets]:
    async with fake_sockets() as found:
        slack.sockets = found
        yield found


@pytest.fixture
async def chat(tmp_path: Path, slack: FakeSlack, sockets: FakeSockets) -> AsyncIterator[ChatWorld]:
    async with chat_world(tmp_path, slack, app_token=APP_TOKEN) as found:
        await until(lambda: len(sockets.open) == 1, 15)
        yield found


async def test_messages_commands_and_what_was_not_acknowledged(chat: ChatWorld, sockets: FakeSockets) -> None:
    anna = chat.person("UANNA")
    sockets.drop = 1
    await sockets.deliver("events_api", anna.event("D0UANNA", "hello"))
    await chat.said("D0UANNA", "You said: hello")
    assert sockets.retries == [0, 1], "Slack did not get the first acknowledgement"
    assert len(chat.script.inbound) == 1, "one message, however often Slack sends it"
    said = await sockets.deliver(
        "slash_commands",
        {"command": "/hermes", "text": "whoami", "team_id": "T0TEAM", "api_app_id": "A0APP", "user_id": "UANNA",
         "channel_id": "D0UANNA", "trigger_id": "1.2.abc"},
    )  # fmt: skip
    assert said["response_type"] == "ephemeral"
    assert "slack:T0TEAM:UANNA" in said["text"]


async def test_order_is_kept_over_reconnects(chat: ChatWorld, sockets: FakeSockets) -> None:
    anna = chat.person("UANNA")
    for number in range(12):
        if number == 4:
            await sockets.refresh()
        if number == 8:
            await sockets.cut()
        await sockets.deliver("events_api", anna.event("D0UANNA", f"number {number}"))
    await until(lambda: len(chat.script.inbound) >= 12, 20)
    assert [inbound.text for inbound in chat.script.inbound] == [f"number {n}" for n in range(12)]
    assert sockets.opened >= 3


async def test_nothing_is_acknowledged_that_is_not_on_disk(chat: ChatWorld, sockets: FakeSockets) -> None:
    anna = chat.person("UANNA")
    await chat.world.nats.stop()
    with pytest.raises(AssertionError, match="nobody acknowledged"), contextlib.ExitStack():
        sockets_before = len(sockets.retries)
        await _few(sockets, anna.event("D0UANNA", "while the bus is away"))
    assert len(sockets.retries) > sockets_before
    await chat.world.nats.start()
    await sockets.deliver("events_api", anna.event("D0UANNA", "when it is back"), patience_seconds=5.0)
    await until(lambda: len(chat.script.inbound) >= 1, 20)


async def _few(sockets: FakeSockets, body: dict[str, object]) -> None:
    await sockets.deliver("events_api", body, patience_seconds=0.2)


async def test_one_of_two_replicas_listens_and_the_other_takes_over(chat: ChatWorld, sockets: FakeSockets) -> None:
    async with running(chat.world.settings):
        assert len(sockets.open) == 1
        await chat.world.retire_first_gateway()
        await until(lambda: len(sockets.open) == 1, 20)
        anna = chat.person("UANNA")
        await sockets.deliver("events_api", anna.event("D0UANNA", "still there?"))
        await chat.said("D0UANNA", "You said: still there?", seconds=20)
