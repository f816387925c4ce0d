"""Two people talk to a bot of Telegram's: alone, and in a group where it listens when it is mentioned."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from release.kubectl import get_all, until
from tests.e2e.framework.fake_platform import FakePlatform, fake_platform
from tests.e2e.framework.installation import TELEGRAM, Script, commands, namespace_of

pytestmark = pytest.mark.timeout(300)

STORY = "telegram"
NAMESPACE = namespace_of(STORY)
ANNA, BEN, ROOM = 101, 102, -1001
FILE = Script(
    (
        {"calls": [{"name": "terminal", "arguments": {"command": "printf a,b > r.csv"}}]},
        {"calls": [{"name": "send_file", "arguments": {"path": "r.csv", "caption": "Numbers"}}]},
        {"say": "There."},
    )
).text()


@pytest.fixture
async def telegram() -> AsyncIterator[FakePlatform]:
    async with fake_platform(TELEGRAM, "telegram_pod", "/telegram/bot") as found:
        yield found


async def answered(telegram: FakePlatform, chat: int, *texts: str, topic: int | None = None) -> None:
    async def look() -> bool:
        told = (await telegram.state())["chats"].get(str(chat), [])
        ours = [m for m in told if m["from"]["is_bot"] and m.get("message_thread_id") == topic]
        return [m["text"] for m in ours if "text" in m] == list(texts)

    await until(f"{texts} in chat {chat}", look, deadline_seconds=120)


async def test_a_private_chat_and_a_group(telegram: FakePlatform) -> None:
    write = commands("echo mine > mine && test $(ls | wc -l) = 1", say="written")
    read = commands("test -e mine", say="read")
    await telegram.act(user=ANNA, text=write)
    await answered(telegram, ANNA, "written")
    await telegram.act(user=BEN, chat=ROOM, text=f"nobody asked\n{write}")
    await telegram.act(user=BEN, chat=ROOM, text=f"@hermes_bot please\n{write}", topic=7)
    await telegram.act(user=ANNA, chat=ROOM, text=f"@hermes_bot please\n{read}")
    await answered(telegram, ROOM, "written", topic=7)
    await answered(telegram, ROOM, "read")
    await telegram.act(user=ANNA, text=FILE)

    async def arrived() -> bool:
        told = (await telegram.state())["chats"][str(ANNA)]
        return [m["posted"] for m in told if "posted" in m] == [["document", "r.csv", "a,b", "Numbers"]]

    await until("the file in Anna's chat", arrived, deadline_seconds=120)
    sessions = await get_all("hermessessions", NAMESPACE)
    assert sorted(s["spec"]["owner"] for s in sessions) == [f"telegram::{who}" for who in (ANNA, BEN)], "one pod a person"
