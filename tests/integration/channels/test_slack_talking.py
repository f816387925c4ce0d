"""People of a workspace talk to their agents."""

from __future__ import annotations

import json
import time

import httpx

from hermes_contracts.envelopes import Inbound
from tests.fakes.slack_server import BOT, TEAM, post_signed
from tests.integration.channels.chat_world import ChatWorld
from tests.integration.channels.pictures import PICTURE
from tests.integration.gateway.world import until


async def test_a_direct_message_is_answered(chat: ChatWorld) -> None:
    anna = chat.person("UANNA")
    await anna.direct("Hello <https://example.com|there> &amp; you")
    await chat.said("D0UANNA", "You said: Hello there (https://example.com) &amp; you")
    (message,) = chat.slack.written("D0UANNA")
    assert "thread_ts" not in message
    (inbound,) = chat.script.inbound
    assert (inbound.owner, inbound.channel) == (f"slack:{TEAM}:UANNA", "slack")


async def test_three_people_one_in_two_threads_and_a_stranger(chat: ChatWorld) -> None:
    chat.slack.channels["C0ROOM"] = []
    anna, ben, carl, eve = (chat.person(user) for user in ("UANNA", "UBEN", "UCARL", "UEVE"))
    first = await anna.mention("C0ROOM", "one")
    second = await anna.mention("C0ROOM", "two")
    await anna.mention("C0ROOM", "one more", thread=first)
    await ben.mention("C0ROOM", "three", thread=first)
    await carl.direct("four")
    await eve.mention("C0ROOM", "five", thread=first)
    await eve.direct("six")
    await eve.direct("seven")
    await chat.said("D0UCARL", "You said: four")
    await chat.said("C0ROOM", "You said: two", thread=second)
    await until(lambda: len(chat.slack.texts("C0ROOM", first)) == 3)
    assert sorted(chat.slack.texts("C0ROOM", first)) == ["You said: one", "You said: one more", "You said: three"]
    # A stranger is told once where nobody else reads it, and reaches no agent.
    await until(lambda: len(chat.slack.texts("D0UEVE")) == 1)
    assert "`UEVE`" in chat.slack.texts("D0UEVE")[0]
    said: dict[str, list[Inbound]] = {}
    for inbound in chat.script.inbound:
        said.setdefault(inbound.owner, []).append(inbound)
    assert set(said) == {f"slack:{TEAM}:{user}" for user in ("UANNA", "UBEN", "UCARL")}
    assert len({inbound.sid for inbounds in said.values() for inbound in inbounds}) == 3
    by_text = {inbound.text: inbound.conversation for inbound in said[f"slack:{TEAM}:UANNA"]}
    assert by_text["one"] == by_text["one more"] != by_text["two"]
    assert len(chat.script.sessions) == 3


async def test_a_mention_that_comes_as_two_events_and_again_is_one_message(chat: ChatWorld) -> None:
    chat.slack.channels["C0ROOM"] = []
    anna = chat.person("UANNA")
    body = anna.event("C0ROOM", f"<@{BOT}> once", "app_mention")
    twin = {**body, "event_id": "EvOTHER", "event": {**body["event"], "type": "message", "channel_type": "channel"}}
    again = {"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_timeout"}
    for answer in (await anna.send(body), await anna.send(twin), await anna.send(body, **again)):
        assert answer.status_code == 200
    await chat.said("C0ROOM", "You said: once")
    await anna.mention("C0ROOM", "twice")
    await until(lambda: len(chat.slack.texts("C0ROOM")) == 2)
    assert [inbound.text for inbound in chat.script.inbound] == ["once", "twice"]


async def test_what_is_not_a_persons_message_is_left_alone(chat: ChatWorld) -> None:
    anna = chat.person("UANNA")
    for changes in ({"subtype": "message_changed"}, {"user": BOT}, {"hidden": True}):
        assert (await anna.send(anna.event("D0UANNA", "no", **changes))).status_code == 200
    elsewhere = {**anna.event("D0UANNA", "no"), "team_id": "T0OTHER"}
    assert (await anna.send(elsewhere)).status_code == 200
    await anna.direct("yes")
    await chat.said("D0UANNA", "You said: yes")
    assert [inbound.text for inbound in chat.script.inbound] == ["yes"]


async def test_only_slack_gets_in(chat: ChatWorld) -> None:
    anna = chat.person("UANNA")
    url, body = f"{chat.world.webhooks}/slack/acme/events", json.dumps(anna.event("D0UANNA", "no")).encode()
    now = str(int(time.time()))
    async with httpx.AsyncClient() as client:
        for headers in (
            {},
            {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": "v0=" + "0" * 64},
            {"X-Slack-Request-Timestamp": "soon", "X-Slack-Signature": "v0=0"},
            {"X-Slack-Request-Timestamp": "1", "X-Slack-Signature": "v0=0"},
        ):
            assert (await client.post(url, content=body, headers=headers)).status_code == 401
        assert (await client.post(url.replace("acme", "other"), content=body)).status_code == 404
        assert (await client.post(url.replace("events", "actions"), content=body)).status_code == 404
    assert (await post_signed(url, b"[]", "application/json")).status_code == 400
    assert (await post_signed(url, b"{", "application/json")).status_code == 400
    challenge = json.dumps({"type": "url_verification", "challenge": "3eZbrw1aB"}).encode()
    answer = await post_signed(url, challenge, "application/json")
    assert (answer.status_code, answer.text) == (200, "3eZbrw1aB")
    assert chat.script.inbound == []


async def test_pictures_and_texts_are_read_and_of_the_others_it_is_said_that_they_came(chat: ChatWorld) -> None:
    anna, slack = chat.person("UANNA"), chat.slack
    files = [
        slack.file("F1", "dot.png", PICTURE),
        slack.file("F2", "notes.txt", "Grüße".encode()),
        slack.file("F3", "data.bin", b"\0\1\2"),
        {"id": "F4", "name": "elsewhere.txt", "size": 5, "url_private_download": "https://evil.example/steal"},
        {"id": "F5", "name": "film.mp4", "size": 10**9, "url_private_download": f"{slack.url}files/F5"},
        {"id": "F6", "name": "gone.txt", "size": 5, "url_private_download": f"{slack.url.removesuffix('api/')}files/F6"},
    ]
    await anna.direct("look at this", subtype="file_share", files=files)
    await until(lambda: len(chat.script.inbound) == 1)
    (inbound,) = chat.script.inbound
    assert [image.size for image in inbound.images] == [len(PICTURE)]
    assert inbound.text.startswith("look at this\n\nFile notes.txt:\n\nGrüße\n\n")
    await until(lambda: any(text.startswith("I cannot see") for text in slack.texts("D0UANNA")))
    (said,) = [text for text in slack.texts("D0UANNA") if text.startswith("I cannot see")]
    for name in ("data.bin", "elsewhere.txt", "film.mp4", "gone.txt"):
        assert name in said
        assert name in inbound.text


async def test_slack_is_told_to_try_again_when_the_bus_is_away(chat: ChatWorld) -> None:
    anna = chat.person("UANNA")
    body = anna.event("D0UANNA", "keep me")
    await chat.world.nats.stop()
    assert (await anna.send(body)).status_code == 503
    await chat.world.nats.start()
    await until(lambda: chat.world.admin.is_connected, 15)
    deadline = time.monotonic() + 20
    while (await anna.send(body)).status_code != 200:
        assert time.monotonic() < deadline
    await chat.said("D0UANNA", "You said: keep me", seconds=40)
