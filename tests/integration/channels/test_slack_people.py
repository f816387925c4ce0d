"""Who may use an account: named people, a chat's members, everyone, and never guests, bots and other organisations."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.slack_server import FakeSlack
from tests.integration.channels.chat_world import ChatWorld, chat_world
from tests.integration.gateway.world import until


async def test_everyone_is_no_guest_no_bot_and_nobody_from_outside(tmp_path: Path, slack: FakeSlack) -> None:
    async with chat_world(tmp_path, slack, allow_users=["UNAMED"], allow_everyone=True) as chat:
        member = chat.person("UMEMBER")
        named_guest = chat.person("UNAMED", is_restricted=True)
        guest = chat.person("UGUEST", is_ultra_restricted=True)
        outsider, connected = chat.person("UOUT"), chat.person("UCONN", team_id="T0OTHER")
        robot = chat.person("UROBOT")
        await guest.direct("guest")
        await outsider.direct("outsider", user_team="T0OTHER")
        await connected.direct("connected")
        await robot.direct("robot", bot_id="B1")
        await named_guest.direct("named")
        slack.fail("users.info", "server_error")
        body = member.event("D0UMEMBER", "member")
        # Whether this is a guest cannot be told now: Slack is asked to come again, and nobody is let in or turned away.
        assert (await member.send(body)).status_code == 503
        assert (await member.send(body)).status_code == 200
        await until(lambda: len(chat.script.inbound) == 2)
        assert [inbound.text for inbound in chat.script.inbound] == ["named", "member"]
        await member.direct("again")
        await until(lambda: len(chat.script.inbound) == 3)
        asked = [arguments["user"] for method, arguments, _ in slack.calls if method == "users.info"]
        assert asked.count("UMEMBER") == 2
        assert {"UNAMED", "UROBOT", "UOUT"}.isdisjoint(asked)


async def test_a_room_may_be_allowed_as_a_whole(tmp_path: Path, slack: FakeSlack) -> None:
    async with chat_world(tmp_path, slack, allow_users=[], allow_chats=["C0ROOM"]) as chat:
        slack.channels |= {"C0ROOM": [], "C0OTHER": []}
        anna = chat.person("UANNA")
        await anna.direct("one")
        await anna.mention("C0OTHER", "two")
        await anna.mention("C0ROOM", "three")
        await until(lambda: len(slack.texts("C0ROOM")) == 1)
        assert [inbound.text for inbound in chat.script.inbound] == ["three"]
        assert slack.texts("C0OTHER") == []


async def test_an_account_that_changes_counts_at_once(chat: ChatWorld) -> None:
    eve = chat.person("UEVE")
    await eve.direct("let me in")
    chat.write_account(allow_users=["UEVE"])
    await until(lambda: chat.slack.texts("D0UEVE") != [])

    async def let_in() -> bool:
        await eve.direct("again")
        return bool(chat.script.inbound)

    for _ in range(100):
        if await let_in():
            break
    await until(lambda: bool(chat.script.inbound), 15)


async def test_a_conversation_of_its_own_for_each_thread(tmp_path: Path, slack: FakeSlack) -> None:
    async with chat_world(tmp_path, slack, session_scope="Conversation") as chat:
        slack.channels["C0ROOM"] = []
        anna, ben = chat.person("UANNA"), chat.person("UBEN")
        thread = await anna.mention("C0ROOM", "one")
        await ben.mention("C0ROOM", "two", thread=thread)
        await ben.mention("C0ROOM", "three")
        await ben.direct("four")
        await until(lambda: len(chat.script.inbound) == 4)
        sid = {inbound.text: inbound.sid for inbound in chat.script.inbound}
        assert sid["one"] == sid["two"]
        assert len(set(sid.values())) == 3
        assert [inbound.sender for inbound in chat.script.inbound] == ["UANNA", "UBEN", "UBEN", "UBEN"]


async def test_profiles_narrow_what_the_account_allows_and_claim_rooms_of_it(tmp_path: Path, slack: FakeSlack) -> None:
    async with chat_world(tmp_path, slack, profiles=["ops", "late"]) as chat:
        slack.channels |= {"C0ROOM": [], "C0OPS": []}
        anna, ben = chat.person("UANNA"), chat.person("UBEN")
        only_ben = {"direct": {"allowUsers": ["UBEN"], "userCommands": ["status"]}}
        ops_room = {"direct": {"enabled": False}, "groups": {"chats": [{"id": "C0OPS"}]}}
        await chat.world.profile("late", channels=(ops_room,))
        await chat.world.profile("ops", channels=({**ops_room},), age=10)
        await chat.world.profile("helper", channels=(only_ben,), age=20)

        async def narrowed() -> bool:
            return "You may not use" in (await anna.command("/status")).json()["text"]

        for _ in range(200):
            if await narrowed():
                break
        assert await narrowed()
        assert "for admins here" in (await ben.command("/usage")).json()["text"]
        await anna.direct("not for me")
        await ben.direct("for me")
        await anna.mention("C0ROOM", "in a room")
        await anna.mention("C0OPS", "in the other room")
        await until(lambda: len(chat.script.inbound) == 3)
        profiles = {i.text: chat.script.sessions[i.sid][0].profile for i in chat.script.inbound}
        assert profiles == {"for me": "helper", "in a room": "helper", "in the other room": "ops"}


async def test_in_a_thread_that_people_share_each_stops_his_own(tmp_path: Path, slack: FakeSlack) -> None:
    changes = {"session_scope": "Conversation", "group_admins": ["UCARL"], "group_user_commands": ["stop"]}
    async with chat_world(tmp_path, slack, **changes) as chat:
        slack.channels |= {"C0ROOM": []}
        anna, ben, carl = chat.person("UANNA"), chat.person("UBEN"), chat.person("UCARL")
        thread = await anna.mention("C0ROOM", "never ends")
        await until(lambda: len(chat.script.inbound) == 1)
        for number, person in enumerate((anna, ben, carl), 1):
            await person.mention("C0ROOM", "!stop", thread=thread)
            await until(lambda number=number: len(chat.script.asked) == number)  # type: ignore[misc]
        await anna.direct("never ends")
        await until(lambda: len(chat.script.inbound) == 2)
        await anna.direct("!stop")
        await until(lambda: len(chat.script.asked) == 4)
        assert [asked.arguments.get("sender") for asked in chat.script.asked] == ["UANNA", "UBEN", None, None]


async def test_in_a_room_some_commands_are_for_admins(tmp_path: Path, slack: FakeSlack) -> None:
    changes = {"group_admins": ["UANNA"], "group_user_commands": ["status"]}
    async with chat_world(tmp_path, slack, **changes) as chat:
        slack.channels |= {"C0ROOM": []}
        anna, ben = chat.person("UANNA"), chat.person("UBEN")
        await ben.mention("C0ROOM", "!queue later")
        await until(lambda: len(slack.texts("C0ROOM")) == 1)
        assert slack.texts("C0ROOM")[0].startswith("`/queue` is for admins here.")
        await ben.direct("!queue in my own chat")
        await anna.mention("C0ROOM", "!queue now")
        await until(lambda: len(chat.script.inbound) == 2)
        assert [inbound.text for inbound in chat.script.inbound] == ["in my own chat", "now"]
