"""A gateway with a bot of Telegram's, in front of a store and an agent that follow a script."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.slack_server import FakeSlack
from tests.fakes.telegram_server import TOKEN, FakeTelegram, TelegramPerson
from tests.integration.channels.chat_world import ChatScript, chat_world
from tests.integration.gateway.world import World, until

ANNA, BEN, EVE = 101, 102, 666
ROOM = -1001


def account(telegram: FakeTelegram, **changes: object) -> dict[str, object]:
    return {
        "name": "bot", "namespace": "team", "profile": "helper", "bot_token": TOKEN, "api_url": telegram.url,
        "allow_users": [str(ANNA), str(BEN)], **changes,
    }  # fmt: skip


@dataclass
class TelegramWorld:
    """Telegram and the product."""

    world: World
    telegram: FakeTelegram
    script: ChatScript

    def person(self, user: int) -> TelegramPerson:
        self.telegram.chats.setdefault(user, [])
        self.telegram.chats.setdefault(ROOM, [])
        return TelegramPerson(self.telegram, user)

    def write_account(self, **changes: object) -> None:
        write_account(self.world.folder, self.telegram, **changes)

    async def said(self, chat: int, *texts: str, topic: int | None = None, seconds: float = 15.0) -> None:
        """Wait until the bot has written exactly this."""
        try:
            await until(lambda: self.telegram.texts(chat, topic) == list(texts), seconds)
        except AssertionError:
            assert self.telegram.texts(chat, topic) == list(texts)
            raise


def write_account(folder: Path, telegram: FakeTelegram, **changes: object) -> None:
    (folder / "telegram.json").write_text(json.dumps({"accounts": [account(telegram, **changes)]}))


@asynccontextmanager
async def telegram_world(folder: Path, telegram: FakeTelegram, **changes: object) -> AsyncIterator[TelegramWorld]:
    """Run a gateway that fetches."""
    write_account(folder, telegram, **changes)
    async with chat_world(folder, FakeSlack(url="http://127.0.0.1:1/api/")) as chat:
        await until(lambda: telegram.count("getUpdates") > 0, 20)
        yield TelegramWorld(chat.world, telegram, chat.script)
