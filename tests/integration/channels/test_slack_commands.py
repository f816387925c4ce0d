"""Commands in a chat: with a slash, with an exclamation mark, and as Slack's own slash commands."""

from __future__ import annotations

import time

from hermes_contracts.store_api import CommandKind
from tests.fakes.slack_server import TEAM
from tests.integration.channels.chat_world import ChatWorld
from tests.integration.gateway.world import until


async def test_help_lists_every_command(chat: ChatWorld) -> None:
    anna = chat.person("UANNA")
    answer = await anna.command("/hermes")
    assert answer.json()["response_type"] == "ephemeral"
    for name in ("new", "stop", "status", "usage", "compress", "steer", "queue", "sessions", "whoami"):
        assert f"`/{name}" in answer.json()["text"]
    await anna.direct("!help")
    await until(lambda: len(chat.slack.texts("D0UANNA")) == 1)
    assert chat.slack.texts("D0UANNA")[0] == answer.json()["text"]
    assert chat.script.inbound == []


async def test_a_new_conversation_begins_in_one_place_only(chat: ChatWorld) -> None:
    chat.slack.channels["C0ROOM"] = []
    anna = chat.person("UANNA")
    await anna.direct("one")
    thread = await anna.mention("C0ROOM", "two")
    body = anna.event("D0UANNA", "!new")
    assert (await anna.send(body)).status_code == 200
    await anna.direct("three")
    assert (await anna.send(body)).status_code == 200  # Slack says it again
    await anna.direct("four")
    await anna.mention("C0ROOM", "five", thread=thread)
    await anna.command("/new")
    await anna.direct("six")
    await until(lambda: len(chat.script.inbound) == 6)
    place = {inbound.text: inbound.conversation for inbound in chat.script.inbound}
    assert place["three"] == place["four"]
    assert place["two"] == place["five"]
    assert len({place[text] for text in ("one", "two", "three", "six")}) == 4
    assert len({inbound.sid for inbound in chat.script.inbound}) == 1
    await until(lambda: len(chat.slack.texts("D0UANNA")) == 5)
    assert chat.slack.texts("D0UANNA").count("A new conversation begins here. The old one is kept.") == 1


async def test_stop_reaches_the_running_turn(chat: ChatWorld) -> None:
    anna = chat.person("UANNA")
    answer = await anna.command("/stop")
    assert "nothing to do" in answer.json()["text"]
    await anna.direct("never ends")
    await until(lambda: len(chat.script.inbound) == 1)
    began = time.monotonic()
    answer = await anna.command("/stop")
    assert answer.json()["text"] == "stopped"
    assert time.monotonic() - began < 3
    await anna.direct("!steer look left")
    await anna.direct("/compress the numbers")
    await until(lambda: len(chat.script.asked) == 3)
    assert [asked.kind for asked in chat.script.asked] == [CommandKind.STOP, CommandKind.STEER, CommandKind.COMPRESS]
    assert chat.script.asked[1].arguments == {"text": "look left"}
    asked = chat.script.asked[2]
    assert asked.arguments == {"conversation": chat.script.inbound[0].conversation, "focus": "the numbers"}
    assert {command.owner for command in chat.script.asked} == {f"slack:{TEAM}:UANNA"}


async def test_a_command_nobody_carries_out_yet_is_noted(chat: ChatWorld) -> None:
    anna = chat.person("UANNA")
    chat.script.stop_result = None
    await anna.direct("never ends")
    await until(lambda: len(chat.script.inbound) == 1)
    began = time.monotonic()
    assert (await anna.command("/stop")).json()["text"] == "Noted: I stop as soon as I can."
    assert time.monotonic() - began < 3


async def test_questions_are_answered(chat: ChatWorld) -> None:
    anna = chat.person("UANNA")
    await anna.direct("hello")
    await chat.said("D0UANNA", "You said: hello")
    assert f"`slack:{TEAM}:UANNA`" in (await anna.command("/whoami")).json()["text"]
    assert "not doing anything" in (await anna.command("/hermes", "status")).json()["text"]
    assert "0 model calls" in (await anna.command("/usage")).json()["text"]
    assert chat.script.inbound[0].sid in (await anna.command("/sessions")).json()["text"]
    assert "There is no command `/fly`" in (await anna.command("/hermes", "fly away")).json()["text"]
    assert "`/steer &lt;text&gt;`" in (await anna.command("/steer")).json()["text"]
    await anna.direct("!ls is for the agent")
    await anna.command("/queue", "do this next")
    await until(lambda: len(chat.script.inbound) == 3)
    assert [inbound.text for inbound in chat.script.inbound] == ["hello", "!ls is for the agent", "do this next"]


async def test_a_stranger_learns_nothing(chat: ChatWorld) -> None:
    eve = chat.person("UEVE")
    for command in ("/status", "/sessions", "/help"):
        assert "You may not use this agent" in (await eve.command(command)).json()["text"]
    assert (await eve.command("/stop", channel="C0ROOM")).json()["text"] == "You may not use this agent."
    assert chat.script.asked == []
