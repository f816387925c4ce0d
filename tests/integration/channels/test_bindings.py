"""What administrators get wrong with accounts and routes is found by asking the platforms, and told to whom it belongs."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from tests.fakes.slack_server import SIGNING_SECRET, FakeSlack
from tests.fakes.telegram_server import SECRET, FakeTelegram
from tests.integration.channels.chat_world import ChatWorld, account, chat_world
from tests.integration.channels.telegram_world import TelegramWorld, write_account
from tests.integration.gateway.world import ALICE, ALICE_ELSEWHERE, ALICE_OTHER_PROFILE, WEBHOOK_SECRET, World

WRONG: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"bot_token": "xoxb-of-nobody"}, "fail", "bot_token: invalid_auth"),
    ({"app_token": "xapp-of-nobody"}, "fail", "app_token: invalid_auth"),
    ({"team": "T0OTHER"}, "fail", "set team to T0TEAM"),
    ({}, "fail", "set app to A0APP"),
    ({"api_url": "http://127.0.0.1:1/api/"}, "fail", "Slack cannot be asked"),
    ({"allow_users": []}, "fail", "nobody may talk"),
    ({"admins": ["UZOE"]}, "warn", "UZOE may say every command and yet not talk"),
    ({"pairing": True, "group_admins": ["UANNA"]}, "warn", "there are no admins"),
    ({"profile": "missing"}, "fail", "Profile 'missing' is not in namespace team"),
)
"""Fields of an account, and what is said of it. All have an app of their own, which is not the token's."""

Found = dict[str, list[tuple[str, str]]]


async def look(world: World, key: str = ALICE) -> Found:
    """Return what is said, by check: state, and message with what to do."""
    async with world.http(key) as http:
        answer = await http.get("/health/bindings")
    assert answer.status_code == 200, answer.text
    for secret in (SIGNING_SECRET, SECRET, WEBHOOK_SECRET, "xoxb-o", "xoxb-t", "xapp-", "AAtoken"):
        assert secret not in answer.text
    found: Found = {}
    for one in answer.json()["data"]:
        found.setdefault(one["check"], []).append((one["state"], f"{one['message']} {one['todo']}"))
    return found


async def said(world: World, check: str, words: str) -> Found:
    """Wait until the gateway has read its files anew, and says it."""
    async with asyncio.timeout(20):
        while True:
            found = await look(world)
            if any(words in text for _, text in found.get(check, [])):
                return found
            await asyncio.sleep(0.1)


async def test_a_good_account_is_well_and_strangers_to_it_hear_nothing(chat: ChatWorld) -> None:
    found = await look(chat.world)
    assert [state for state, _ in found["slack account acme"]] == ["ok"]
    assert "/slack/acme/events" in found["slack account acme"][0][1]
    assert "is not in namespace team" in found["Profile missing"][0][1]
    for key in (ALICE_ELSEWHERE, ALICE_OTHER_PROFILE):
        assert "slack account acme" not in await look(chat.world, key)
    assert chat.slack.count("auth.test") == 1, "Slack is not asked each time"
    await chat.person("UEVE").direct("let me in")
    forged = chat.person("UANNA")
    answer = await forged.send({"type": "event_callback"}, **{"X-Slack-Signature": "v0=00"})
    assert answer.status_code == 401
    found = await look(chat.world)
    assert "people.denied" in found["slack: strangers"][0][1]
    assert "signing_secret is another app's" in found["slack: signatures"][0][1]


async def test_each_wrong_slack_account_is_named_with_what_to_do(chat: ChatWorld) -> None:
    accounts = [
        account(chat.slack, name=f"wrong-{n}", app=f"A0NUMBER{n}", **changes) for n, (changes, _, _) in enumerate(WRONG)
    ]
    (chat.world.folder / "slack.json").write_text(json.dumps({"accounts": accounts}))
    found = await said(chat.world, "slack account wrong-0", "invalid_auth")
    for number, (_, state, words) in enumerate(WRONG):
        of_it = found[f"slack account wrong-{number}"]
        assert any(have == state and words in text for have, text in of_it), (words, of_it)


async def test_rights_that_the_app_lacks_are_named_with_what_is_missing_then(tmp_path: Path, slack: FakeSlack) -> None:
    slack.scopes = ("im:history", "app_mentions:read", "commands", "files:read", "files:write", "groups:history")
    async with chat_world(tmp_path, slack) as chat:
        found = (await look(chat.world))["slack account acme"]
    assert [state for state, _ in found] == ["warn", "fail"]
    assert "channels:history" in found[0][1] and "chat:write: it cannot answer" in found[1][1]


async def test_what_telegram_says_of_a_bot_is_told(bot: TelegramWorld, telegram: FakeTelegram) -> None:
    check, world = "telegram account bot", bot.world
    assert [state for state, _ in (await look(world))[check]] == ["ok"]
    telegram.webhook = {"url": "https://elsewhere.example/hook?secret=x"}
    write_account(world.folder, telegram, allow_users=["101", "103"], api_url=f"{telegram.url}")
    found = await said(world, check, "another process uses the same bot")
    assert "elsewhere.example" in found[check][0][1] and "secret=x" not in found[check][0][1]

    url = "https://hermes.example/telegram/bot"
    telegram.post_failure = {"last_error_date": int(time.time()), "last_error_message": "Wrong response: 401 Unauthorized"}
    write_account(world.folder, telegram, webhook_url=url, secret_token=SECRET)
    await said(world, check, "secret_token differs")
    write_account(world.folder, telegram, bot_token="4242:" + "B" * 35)
    await said(world, check, "does not know bot_token")


async def test_a_route_whose_answer_can_go_nowhere_is_named(chat: ChatWorld) -> None:
    base = {"namespace": "team", "profile": "helper", "secret": WEBHOOK_SECRET}
    target = {"channel": "slack", "account": "acme", "chat": "C1"}
    routes = [
        {**base, "name": "by-name", "deliver": [target]},
        {**base, "name": "good", "deliver": [{**target, "account": "T0TEAM.A0APP"}]},
    ]
    (chat.world.folder / "webhooks.json").write_text(json.dumps({"routes": routes}))
    found = await said(chat.world, "webhook by-name", "there is no slack account 'acme'")
    assert "T0TEAM.A0APP" in found["webhook by-name"][0][1]
    assert [state for state, _ in found["webhook good"]] == ["ok"]
