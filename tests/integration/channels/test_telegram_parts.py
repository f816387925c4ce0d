"""A long text that a client has cut, and an album: one message to the agent, however its parts come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.telegram_server import SECRET, FakeTelegram
from tests.integration.channels.pictures import PICTURE
from tests.integration.channels.telegram_world import ANNA, BEN, ROOM, TelegramWorld, telegram_world
from tests.integration.gateway.world import until

LONG = "a" * 4_050


async def test_a_text_that_was_cut_is_one_message(bot: TelegramWorld) -> None:
    anna, ben = bot.person(ANNA), bot.person(BEN)
    await anna.write(ROOM, f"@hermes_bot {LONG}")
    await ben.write(ROOM, "@hermes_bot in between")
    await anna.write(ROOM, LONG)
    await anna.write(ROOM, "the end")
    await anna.direct("and in private")
    await until(lambda: len(bot.script.inbound) == 3, 20)
    assert sorted(i.text for i in bot.script.inbound) == sorted([f"{LONG}\n{LONG}\nthe end", "in between", "and in private"])
    await until(lambda: not bot.telegram.updates, 30)


async def test_an_album_is_one_message(bot: TelegramWorld) -> None:
    anna = bot.person(ANNA)
    bot.telegram.files |= {"F1": PICTURE, "F2": PICTURE + b"\0"}
    for file, caption in (("F1", "@hermes_bot compare these"), ("F2", "")):
        await anna.write(ROOM, "", caption=caption, photo=[{"file_id": file}], media_group_id="A")
    await until(lambda: len(bot.script.inbound) == 1, 20)
    (inbound,) = bot.script.inbound
    assert (inbound.text, len(inbound.images)) == ("compare these", 2)


async def test_no_part_is_taken_off_the_list_before_all_are_on_disk(bot: TelegramWorld) -> None:
    anna = bot.person(ANNA)
    await bot.world.nats.stop()
    await anna.direct(LONG)
    await anna.direct("the end")
    seen = bot.telegram.count("getUpdates")
    await until(lambda: bot.telegram.count("getUpdates") > seen, 20)
    assert len(bot.telegram.updates) == 2
    await bot.world.nats.start()
    await until(lambda: len(bot.script.inbound) == 1, 60)
    assert bot.script.inbound[0].text == f"{LONG}\nthe end"


async def test_what_can_never_be_taken_is_told_and_keeps_nobody_else_waiting(tmp_path: Path, telegram: FakeTelegram) -> None:
    async with telegram_world(tmp_path, telegram, profiles=["ops"]) as bot:
        await bot.world.profile("ops")
        anna, ben = bot.person(ANNA), bot.person(BEN)

        async def chosen() -> bool:
            await ben.direct("/profile ops")
            heard = len(telegram.texts(BEN))
            await until(lambda: len(telegram.texts(BEN)) > heard, 20)
            return "you talk to `ops`" in telegram.texts(BEN)[-1]

        for _ in range(50):
            if await chosen():
                break
        await bot.world.profile("ops", ready=False)
        telegram.files["F1"] = PICTURE
        bot.script.media_full = True
        await anna.direct("", caption="look", photo=[{"file_id": "F1"}])
        await until(lambda: "no room for more" in "".join(telegram.texts(ANNA)), 20)
        await ben.direct("to ops")
        await anna.direct("and I?")
        await until(lambda: [i.text for i in bot.script.inbound][-1:] == ["and I?"], 30)
        await until(lambda: "`/profile helper` leads back" in telegram.texts(BEN)[-1], 20)
        assert not [i for i in bot.script.inbound if i.text == "to ops"]


@pytest.fixture
async def posting(tmp_path: Path, telegram: FakeTelegram) -> AsyncIterator[TelegramWorld]:
    async with telegram_world(tmp_path, telegram) as found:
        url = f"{found.world.webhooks}/telegram/bot"
        found.write_account(webhook_url=url, secret_token=SECRET)
        await until(lambda: telegram.webhook.get("url") == url, 30)
        yield found


async def test_parts_that_are_posted_at_once_are_one_message(posting: TelegramWorld) -> None:
    anna = posting.person(ANNA)
    async with asyncio.TaskGroup() as group:
        for text in (LONG, "the end"):
            group.create_task(anna.direct(text))
    whole = f"{LONG}\nthe end"
    await until(lambda: [i.text for i in posting.script.inbound] == [whole])
    # Telegram did not see our answer to the second part, and posts it again.
    again = next(update for update in posting.telegram.posted if update["message"]["text"] == "the end")
    await posting.telegram.tell(again)
    await anna.direct("next")
    await until(lambda: [i.text for i in posting.script.inbound] == [whole, "next"])
