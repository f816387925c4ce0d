"""A Slack workspace and a gateway that serves it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.slack_server import FakeSlack, fake_slack
from tests.integration.channels.chat_world import ChatWorld, chat_world


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with fake_slack() as found:
        yield found


@pytest.fixture
async def chat(tmp_path: Path, slack: FakeSlack) -> AsyncIterator[ChatWorld]:
    async with chat_world(tmp_path, slack) as found:
        yield found
