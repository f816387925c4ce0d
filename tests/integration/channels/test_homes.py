"""A person says where scheduled runs find him, and there they do, until he says otherwise."""

from __future__ import annotations

from hermes_contracts.envelopes import Outbound
from tests.integration.channels.chat_world import ChatWorld
from tests.integration.gateway.world import until

ROOM = "C0ROOM"
OWNER = "slack:T0TEAM:UANNA"


async def run_ends(chat: ChatWorld, run: str, platform: str = "") -> None:
    """A scheduled run answers, and its job delivers to Anna's home."""
    sid = chat.script.inbound[0].sid
    await chat.script.deliver(
        Outbound(
            delivery_id=f"{sid}.t{run}.1", sid=sid, turn_id=f"t{run}", part=1, parts=1, channel="home", account=OWNER,
            chat=platform, thread="", text=f"Run **{run}**", namespace="team",
        )
    )  # fmt: skip


async def test_a_run_finds_the_home_of_the_moment(chat: ChatWorld) -> None:
    chat.slack.channels[ROOM] = []
    anna = chat.person("UANNA")
    await anna.direct("hello")
    await chat.said("D0UANNA", "You said: hello")
    assert "no home yet" in (await anna.command("/home")).json()["text"]
    await run_ends(chat, "none")
    await until(lambda: any(finish.outcome == "failed" for finish in chat.script.finished))
    assert "say /sethome" in chat.script.finished[-1].error
    assert "This is your home now" in (await anna.command("/sethome")).json()["text"]
    assert "this chat" in (await anna.command("/home")).json()["text"]
    await run_ends(chat, "first")
    await chat.said("D0UANNA", "You said: hello", "Run *first*")
    await anna.mention(ROOM, "!sethome")
    await until(lambda: len(chat.slack.texts(ROOM)) == 1)
    await run_ends(chat, "second", "slack")
    await until(lambda: "Run *second*" in chat.slack.texts(ROOM, ""))
    assert ROOM in (await anna.command("/home")).json()["text"]
    await run_ends(chat, "elsewhere", "telegram")
    await until(lambda: "no home on telegram" in chat.script.finished[-1].error)
    assert "no home on slack any more" in (await anna.command("/sethome", "off")).json()["text"]
    assert "takes nothing else" in (await anna.command("/sethome", "there")).json()["text"]
    assert chat.script.shelf.homes == {}
