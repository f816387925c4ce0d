"""Buttons below an answer: pressing one says its command, and the message shows what became of it."""

from __future__ import annotations

from hermes_contracts.envelopes import Choice
from tests.integration.channels.chat_world import ChatWorld
from tests.integration.gateway.world import until

CHOICES = (Choice(label="Who am I", command="/whoami"), Choice(label="Stop", command="/stop"))


async def test_a_press_is_the_command_of_whoever_pressed(chat: ChatWorld) -> None:
    chat.slack.channels["C0ROOM"] = []
    chat.script.choices["ask me"] = CHOICES
    anna, ben, eve = chat.person("UANNA"), chat.person("UBEN"), chat.person("UEVE")
    thread = await anna.mention("C0ROOM", "ask me")
    await chat.said("C0ROOM", "You said: ask me", thread=thread)
    await until(lambda: bool(chat.slack.written("C0ROOM")[0].get("blocks")))
    (message,) = chat.slack.written("C0ROOM")
    assert [e["text"]["text"] for e in message["blocks"][-1]["elements"]] == ["Who am I", "Stop"]

    assert (await eve.send_press(eve.press("C0ROOM", message, "Stop"))).status_code == 200
    press = ben.press("C0ROOM", message, "Who am I")
    assert (await ben.send_press(press)).status_code == 200
    await until(lambda: "UBEN" in message["text"])
    assert message["text"].startswith("You said: ask me\n\n")
    assert message["blocks"] == [], "there is nothing to press any more"
    assert (await ben.send_press(press)).status_code == 200, "Slack says it again"
    assert chat.script.commands == {}, "a stranger's press reaches nobody"


async def test_a_press_that_stops_a_turn_is_recorded_once(chat: ChatWorld) -> None:
    chat.script.choices["ask me"] = CHOICES
    anna = chat.person("UANNA")
    await anna.direct("ask me")
    await until(lambda: bool(chat.slack.written("D0UANNA") and chat.slack.written("D0UANNA")[0].get("blocks")))
    (message,) = chat.slack.written("D0UANNA")
    press = anna.press("D0UANNA", message, "Stop")
    for _ in range(2):
        assert (await anna.send_press(press)).status_code == 200
    await until(lambda: len(chat.script.commands) >= 1)
    assert [update for _, update in chat.script.commands] == [_update(press)]


def _update(press: dict[str, object]) -> str:
    channel, message, actions = press["channel"], press["message"], press["actions"]
    assert isinstance(channel, dict)
    assert isinstance(message, dict)
    assert isinstance(actions, list)
    return f"press:{channel['id']}:{message['ts']}:{actions[0]['action_ts']}"
