"""People talk to a bot of Telegram's: alone, in groups and topics, with buttons, and through everything that goes wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_contracts.envelopes import Choice
from hermes_gateway.gateway.app import running
from tests.fakes.telegram_server import SECRET, FakeTelegram
from tests.integration.channels.pictures import PICTURE
from tests.integration.channels.telegram_world import ANNA, BEN, EVE, ROOM, TelegramWorld, telegram_world
from tests.integration.gateway.world import until


async def test_private_chats_groups_topics_and_a_stranger(bot: TelegramWorld) -> None:
    anna, ben, eve = bot.person(ANNA), bot.person(BEN), bot.person(EVE)
    await anna.direct("Hello *you*")
    await bot.said(ANNA, "You said: Hello you")
    await anna.write(ROOM, "not for the bot")
    await anna.write(ROOM, "@hermes_bot 😀 for you")
    await ben.write(ROOM, "in a topic @hermes_bot", topic=7)
    await bot.said(ROOM, "You said: in a topic", topic=7)
    await until(lambda: "You said: 😀 for you" in bot.telegram.texts(ROOM))
    (ours,) = [m for m in bot.telegram.written(ROOM) if "message_thread_id" not in m]
    await anna.write(ROOM, "an answer to you", reply_to_message=ours)
    await until(lambda: "You said: an answer to you" in bot.telegram.texts(ROOM), 20)
    await eve.direct("let me in")
    await until(lambda: len(bot.telegram.texts(EVE)) == 1)
    assert str(EVE) in bot.telegram.texts(EVE)[0]
    await eve.write(ROOM, "@hermes_bot and me?")
    await anna.direct("/whoami@hermes_bot")
    await until(lambda: f"telegram::{ANNA}" in bot.telegram.texts(ANNA)[-1])
    assert {i.owner for i in bot.script.inbound} == {f"telegram::{ANNA}", f"telegram::{BEN}"}
    assert len({i.sid for i in bot.script.inbound}) == 2
    assert len({i.conversation for i in bot.script.inbound if i.owner.endswith(str(ANNA))}) == 2
    assert bot.telegram.count("sendChatAction") > 0
    assert {"stop", "help"} <= {command["command"] for command in bot.telegram.commands}


async def test_what_telegram_cannot_read_as_markup_is_sent_as_it_is(bot: TelegramWorld) -> None:
    anna = bot.person(ANNA)
    bot.script.answers["hard"] = (
        "1. _a [b](http://x.y/(z)) **c\n\n| a | b |\n|---|---|\n| 1! | (2) |\n\n> q.\n\n```py\nx = `1`\n```"
    )
    await anna.direct("hard")
    await until(lambda: any("x = `1`" in text for text in bot.telegram.texts(ANNA)), 20)
    (text,) = bot.telegram.texts(ANNA)
    for words in ("_a", "**c", "1!", "(2)", "q.", "x = `1`"):
        assert words in text.replace("\\", ""), text


async def test_long_answers_come_in_parts_as_telegram_counts(bot: TelegramWorld) -> None:
    anna = bot.person(ANNA)
    bot.script.answers["long"] = "\n\n".join("😀" * 900 for _ in range(4))
    await anna.direct("long")
    await until(lambda: "".join(bot.telegram.texts(ANNA)).count("😀") == 3600, 30)
    assert len(bot.telegram.texts(ANNA)) >= 2


async def test_a_press_says_its_command_and_the_message_shows_it(bot: TelegramWorld) -> None:
    bot.script.choices["ask me"] = (Choice(label="Who am I", command="/whoami"), Choice(label="Stop", command="/stop"))
    anna, ben = bot.person(ANNA), bot.person(BEN)
    await anna.write(ROOM, "@hermes_bot ask me")
    await until(lambda: bool(bot.telegram.written(ROOM) and bot.telegram.written(ROOM)[0].get("reply_markup")), 20)
    (message,) = bot.telegram.written(ROOM)
    press = await ben.press(ROOM, message, "Who am I")
    await until(lambda: f"telegram::{BEN}" in message["text"], 20)
    assert message["text"].startswith("You said: ask me")
    assert "reply_markup" not in message
    await until(lambda: press in bot.telegram.answered)


@pytest.mark.parametrize("fault", ["rate_limit", "server_error", "lost_before"])
async def test_an_answer_survives_what_goes_wrong_before_it_is_there(bot: TelegramWorld, fault: str) -> None:
    anna = bot.person(ANNA)
    bot.telegram.fail("sendMessage", fault)  # type: ignore[arg-type]
    await anna.direct("hello")
    await bot.said(ANNA, "You said: hello", seconds=30)


async def test_whoever_blocked_the_bot_is_given_up(bot: TelegramWorld) -> None:
    anna = bot.person(ANNA)
    bot.telegram.blocked.add(ANNA)
    await anna.direct("hello")
    await until(lambda: any(d.state == "failed" for d in bot.script.deliveries.values()), 20)


async def test_photos_and_texts_are_read_and_of_the_others_it_is_said_that_they_came(bot: TelegramWorld) -> None:
    anna = bot.person(ANNA)
    bot.telegram.files |= {"big": PICTURE, "notes": b"- milk", "voice": b"OggS\0"}
    await bot.telegram.tell({"update_id": bot.telegram.number(), "message": {"photo": [{"no": "size"}]}})
    photo = [{"file_id": "small", "file_size": 1}, {"file_id": "big", "file_size": len(PICTURE)}]
    await anna.direct("", caption="what is this", photo=photo)
    await anna.direct("", document={"file_id": "notes", "file_name": "list.md", "file_size": 6})
    await anna.direct("", voice={"file_id": "voice", "file_size": 5, "duration": 1})
    await until(lambda: len(bot.script.inbound) == 3, 20)
    look, notes, voice = bot.script.inbound
    assert (look.text, [image.size for image in look.images]) == ("what is this", [len(PICTURE)])
    assert notes.text == "File list.md:\n\n- milk"
    assert "voice (a recording, which nobody here can listen to: write what it says)" in voice.text
    await until(lambda: any("cannot see everything" in text for text in bot.telegram.texts(ANNA)), 20)


async def test_updates_are_taken_off_the_list_when_they_are_on_disk(bot: TelegramWorld) -> None:
    anna = bot.person(ANNA)
    await bot.world.nats.stop()
    for number in range(3):
        await anna.direct(f"number {number}")
    await until(lambda: bot.telegram.count("getUpdates") > 1, 20)
    assert len(bot.telegram.updates) == 3
    await bot.world.nats.start()
    await until(lambda: len(bot.script.inbound) >= 3, 60)
    assert [i.text for i in bot.script.inbound] == ["number 0", "number 1", "number 2"]


async def test_one_of_two_replicas_fetches_and_the_other_takes_over(bot: TelegramWorld) -> None:
    async with running(bot.world.settings):
        await bot.world.retire_first_gateway()
        anna = bot.person(ANNA)
        await anna.direct("still there?")
        await bot.said(ANNA, "You said: still there?", seconds=40)


@pytest.fixture
async def posting(tmp_path: Path, telegram: FakeTelegram) -> AsyncIterator[TelegramWorld]:
    async with telegram_world(tmp_path, telegram) as found:
        url = f"{found.world.webhooks}/telegram/bot"
        found.write_account(webhook_url=url, secret_token=SECRET)
        await until(lambda: telegram.webhook.get("url") == url, 30)
        yield found


async def test_updates_are_posted_where_there_is_an_address(posting: TelegramWorld) -> None:
    anna = posting.person(ANNA)
    await anna.direct("by post")
    await posting.said(ANNA, "You said: by post", seconds=20)
    async with posting.world.http() as http:
        address = f"{posting.world.webhooks}/telegram/bot"
        wrong = await http.post(address, json={}, headers={"X-Telegram-Bot-Api-Secret-Token": "wrong"})
        assert wrong.status_code == 401
        assert (
            await http.post(address, content=b"[", headers={"X-Telegram-Bot-Api-Secret-Token": SECRET})
        ).status_code == 400
