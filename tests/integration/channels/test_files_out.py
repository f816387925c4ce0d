"""Files that the agent sends reach people once and behind the answer, and what cannot is visible."""

from __future__ import annotations

from hermes_contracts.envelopes import Outbound
from tests.fakes.slack_server import Fault
from tests.integration.channels.chat_world import ChatWorld
from tests.integration.channels.pictures import PICTURE
from tests.integration.channels.telegram_world import ANNA, TelegramWorld
from tests.integration.gateway.world import until

CSV = b"name,value\r\n" + b"\xff\x00,1\n" * 500
ROOM = "C0ROOM"


async def test_slack_shows_files_behind_the_answer_in_its_thread(chat: ChatWorld) -> None:
    chat.slack.channels[ROOM] = []
    anna = chat.person("UANNA")
    chat.script.files["report"] = (("Q1 <draft>.csv", CSV, "All of *it* & more"), ("plot.png", PICTURE, ""))
    chat.script.shelf.away = True
    thread = await anna.mention(ROOM, "report")
    await until(lambda: sum(finish.outcome == "delivered" for finish in chat.script.finished) == 3, 20)
    assert chat.slack.sent_files(ROOM, thread) == [
        ("Q1 <draft>.csv", CSV, "All of _it_ &amp; more"), ("plot.png", PICTURE, ""),
    ]  # fmt: skip
    assert [list(message).count("files") for message in chat.slack.written(ROOM)] == [0, 1, 1]
    assert chat.slack.texts(ROOM, thread) == ["You said: report"]
    done = [finish.platform_message_id for finish in chat.script.finished if finish.outcome == "delivered"]
    assert done[1:] == [message["files"][0]["id"] for message in chat.slack.written(ROOM)[1:]]


FAULTS: tuple[tuple[str, Fault], ...] = (
    ("files.getUploadURLExternal", "rate_limit"),
    ("upload", "lost_before"),
    ("files.completeUploadExternal", "rate_limit"),
    ("files.completeUploadExternal", "lost_after"),
)


async def test_a_file_comes_once_whatever_slack_does(chat: ChatWorld) -> None:
    anna = chat.person("UANNA")
    chat.script.files["report"] = (("r.csv", CSV, ""),)
    for number, (step, fault) in enumerate(FAULTS, 1):
        chat.slack.fail(step, fault)
        await anna.direct("report")
        await until(lambda n=number: sum(done.outcome == "delivered" for done in chat.script.finished) == 2 * n, 30)  # type: ignore[misc]
        assert [name for name, _, _ in chat.slack.sent_files("D0UANNA")] == ["r.csv"] * number, (step, fault)
    assert chat.slack.texts("D0UANNA") == ["You said: report"] * len(FAULTS)


async def test_a_file_that_is_gone_fails_visibly_and_the_next_message_goes_on(chat: ChatWorld) -> None:
    anna = chat.person("UANNA")
    chat.script.files["report"] = (("r.csv", CSV, ""),)
    await anna.direct("hello")
    await chat.said("D0UANNA", "You said: hello")
    sid = chat.script.inbound[0].sid
    file = chat.script.shelf.put(sid, "tgone", "gone.csv", CSV)
    del chat.script.shelf.files[sid, file.id]
    part = Outbound(
        delivery_id=f"{sid}.tgone.1", sid=sid, turn_id="tgone", part=1, parts=1, channel="slack", account="T0TEAM.A0APP",
        chat="D0UANNA", thread="", text="", namespace="team", file=file,
    )  # fmt: skip
    await chat.script.deliver(part)
    await until(lambda: any(finish.outcome == "failed" for finish in chat.script.finished))
    (failed,) = [finish for finish in chat.script.finished if finish.outcome == "failed"]
    assert failed.error == "the file is not stored any more"
    await anna.direct("again")
    await chat.said("D0UANNA", "You said: hello", "You said: again")


async def test_telegram_shows_pictures_as_pictures_and_the_rest_as_documents(bot: TelegramWorld) -> None:
    anna = bot.person(ANNA)
    bot.script.files["report"] = (
        ("plot.png", PICTURE, "A *dot*."), ("panorama.png", PICTURE + b"\0", "wide"), ("Grüße 😀.csv", CSV, ""),
    )  # fmt: skip
    bot.telegram.fail("sendPhoto", "rate_limit")
    bot.telegram.fail("sendDocument", "server_error", "lost_before")
    await anna.direct("report")
    await until(lambda: len(bot.telegram.sent_files(ANNA)) == 3, 60)
    assert bot.telegram.sent_files(ANNA) == [
        ("photo", "plot.png", PICTURE, "A *dot*."), ("document", "panorama.png", PICTURE + b"\0", "wide"),
        ("document", "Grüße 😀.csv", CSV, ""),
    ]  # fmt: skip
    await bot.said(ANNA, "You said: report")
