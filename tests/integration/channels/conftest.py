"""A Slack workspace, a bot of Telegram's, and gateways that serve them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.slack_server import FakeSlack, fake_slack
from tests.fakes.telegram_server import FakeTelegram, fake_telegram
from tests.integration.channels.chat_world import ChatWorld, chat_world
from tests.integration.channels.telegram_world import TelegramWorld, telegram_world


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with fake_slack() as found:
        yield found


@pytest.fixture
async def chat(tmp_path: Path, slack: FakeSlack) -> AsyncIterator[ChatWorld]:
    async with chat_world(tmp_path, slack) as found:
        yield found


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with fake_telegram() as found:
        yield found


@pytest.fixture
async def bot(tmp_path: Path, telegram: FakeTelegram) -> AsyncIterator[TelegramWorld]:
    async with telegram_world(tmp_path, telegram) as found:
        yield found
