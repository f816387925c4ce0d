"""The whole product behind two platforms: an administrator lets people in from a terminal, and a person is one in both."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hermes_contracts import subjects
from hermes_contracts.access import ApiKeyRecord, SlackAccount
from hermes_service.bus import connect
from local_stack.runner import LocalRunner
from local_stack.stack import NAMESPACE, Stack, running_stack, stack_folder
from tests.fakes.slack_server import FakeSlack, SlackPerson
from tests.fakes.telegram_server import FakeTelegram, TelegramPerson
from tests.integration.channels.chat_world import account as slack_account
from tests.integration.channels.telegram_world import ANNA, BEN, account as telegram_account
from tests.integration.gateway.world import EVERYTHING, until

pytestmark = pytest.mark.timeout(300)

KEY, NARROW = "key-of-the-administrator", "key-of-another-namespace"
ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Installation:
    stack: Stack
    runner: LocalRunner
    slack: FakeSlack
    telegram: FakeTelegram

    def in_slack(self, user: str) -> SlackPerson:
        self.slack.channels.setdefault(f"D0{user}", [])
        return SlackPerson(self.slack, self.slack.member(user), f"{self.stack.webhooks_url}/slack/acme")

    def in_telegram(self, user: int) -> TelegramPerson:
        self.telegram.chats.setdefault(user, [])
        return TelegramPerson(self.telegram, user)

    async def slack_says(self, user: str, pattern: str) -> re.Match[str]:
        return await _said(lambda: self.slack.texts(f"D0{user}"), pattern)

    async def telegram_says(self, user: int, pattern: str) -> re.Match[str]:
        return await _said(lambda: self.telegram.texts(user), pattern)

    async def hermes(self, *words: str, key: str = KEY) -> tuple[int, str, str]:
        """Run the terminal client and return its exit code and what it wrote."""
        environment = {
            "PATH": "/usr/bin:/bin", "HOME": str(self.stack.folder), "LANG": "C.UTF-8", "HERMES_API_KEY": key,
            "HERMES_URL": self.stack.api_url, "PYTHONPATH": f"{ROOT / 'libs'}:{ROOT / 'cli'}",
        }  # fmt: skip
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "hermes_cli", *words, stdout=pipe, stderr=pipe, env=environment
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()


async def _said(texts: object, pattern: str) -> re.Match[str]:
    assert callable(texts)

    def found() -> re.Match[str] | None:
        matches = (re.search(pattern, text) for text in texts() if "…" not in text)
        return next((match for match in matches if match), None)

    await until(lambda: found() is not None, 60)
    match = found()
    assert match is not None
    return match


def _key(text: str, name: str, namespace: str) -> ApiKeyRecord:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return ApiKeyRecord(
        id=name, sha256=digest, owner=name, namespace=namespace, profiles=("default",), scopes=("people",)
    )  # fmt: skip


@asynccontextmanager
async def installation(slack: FakeSlack, telegram: FakeTelegram) -> AsyncIterator[Installation]:
    bound = SlackAccount.model_validate(
        slack_account(
            slack, namespace=NAMESPACE, profile="default", allow_users=["UANNA", "UBEN"], pairing=True, admins=["UANNA"],
            user_commands=["link", "unlink"],
        )
    )  # fmt: skip
    with stack_folder() as folder:
        async with running_stack(folder, slack=(bound,)) as stack:
            keys = json.loads((folder / "keys.json").read_text())
            keys["keys"] += [
                _key(KEY, "ops", NAMESPACE).model_dump(mode="json"),
                _key(NARROW, "elsewhere", "elsewhere").model_dump(mode="json"),
            ]
            (folder / "keys.json").write_text(json.dumps(keys))
            bot = telegram_account(telegram, namespace=NAMESPACE, profile="default")
            (folder / "telegram.json").write_text(json.dumps({"accounts": [bot]}))
            runner = LocalRunner(stack)
            task = asyncio.create_task(runner.run())
            try:
                await until(lambda: telegram.count("getUpdates") > 0, 30)
                yield Installation(stack, runner, slack, telegram)
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def test_people_are_let_in_and_linked(slack: FakeSlack, telegram: FakeTelegram) -> None:
    async with installation(slack, telegram) as found:
        await _let_in_from_a_terminal(found)
        await _one_in_two_chats(found)
        await _what_was_done_is_recorded(found)


async def _let_in_from_a_terminal(found: Installation) -> None:
    eve = found.in_slack("UEVE")
    await eve.direct("!echo one")
    code = (await found.slack_says("UEVE", r"/pair approve ([A-Z2-9]{8})`"))[1]
    listed = json.loads((await found.hermes("pairing", "list", "--json"))[1])
    by_account = {one["account"]: one for one in listed}
    assert set(by_account) == {"slack:acme", "telegram:bot"}
    assert [waiting["person"] for waiting in by_account["slack:acme"]["waiting"]] == ["UEVE"]
    status, _, why = await found.hermes("pairing", "approve", "slack", code, key=NARROW)
    assert (status, "the key looks after: none" in why) == (2, True), why
    status, _, why = await found.hermes("pairing", "approve", "slack:acme", "ZZZZ9999")
    assert (status, "no code like this is waiting" in why) == (4, True), why
    status, _, why = await found.hermes("pairing", "list", key=found.stack.api_key)
    assert (status, "lacks the scope 'people'" in why) == (4, True), why
    status, _, said = await found.hermes("pairing", "approve", "acme", code.lower())
    assert (status, said) == (0, "UEVE may use slack:acme from now on.\n")
    await eve.direct("!echo let $((1+1)) in")
    await found.slack_says("UEVE", "let 2 in")
    table = (await found.hermes("pairing", "list", "slack:acme"))[1]
    assert "UEVE\tlet in\tapi:ops" in table
    status, _, _ = await found.hermes("pairing", "revoke", "slack:acme", "UEVE")
    assert status == 0
    assert "You were given a code" in (await eve.command("/status")).json()["text"]


async def _one_in_two_chats(found: Installation) -> None:
    anna, ben = found.in_slack("UANNA"), found.in_slack("UBEN")
    anna_there, ben_there = found.in_telegram(ANNA), found.in_telegram(BEN)
    await anna.direct("!echo annas-$((6*7)) > secret; echo kept")
    await found.slack_says("UANNA", "kept")
    await anna_there.direct("!cat secret || echo not-$((1+1))-yet")
    await found.telegram_says(ANNA, "not-2-yet")

    slack_room = (await anna.command("/link", channel="C0ROOM")).json()["text"]
    assert "directly" in slack_room
    given = (await anna.command("/link")).json()["text"]
    code = re.search(r"/link ([A-Z2-9]{8})`", given)
    assert code is not None, given
    await anna_there.direct(f"/link {code[1].lower()}")
    await found.telegram_says(ANNA, r"You are .slack:\w+:UANNA. here, too")
    await ben_there.direct(f"/link {code[1]}")
    await found.telegram_says(BEN, "No code like this")
    sessions = len(found.runner.sessions)
    await anna_there.direct("!cat secret; echo in-telegram")
    await found.telegram_says(ANNA, "annas-42")
    assert len(found.runner.sessions) == sessions, "the same pod"
    await anna.direct("!echo $((40+3)) still here")
    await found.slack_says("UANNA", "43 still here")
    await _the_bus_loses_its_copy(found)
    await anna_there.direct("!cat secret || echo alone-$((3+3))")
    await found.telegram_says(ANNA, "alone-6")
    await anna_there.direct("/link")
    another = (await found.telegram_says(ANNA, r"You are linked with[^/]*/unlink[^/]*/link ([A-Z2-9]{8})"))[1]
    await anna_there.direct("!cat secret; echo together-$((4+4))")
    await found.telegram_says(ANNA, "annas-42[^a-z]*together-8")
    await ben.direct("!cat secret || echo not-$((1+1))-yours")
    await found.slack_says("UBEN", "not-2-yours")
    await ben_there.direct("!cat secret || echo not-$((1+1))-yours")
    await found.telegram_says(BEN, "not-2-yours")

    await anna_there.direct("/unlink")
    await found.telegram_says(ANNA, "not linked with")
    await anna_there.direct("!cat secret || echo own-$((2+3))-again")
    await found.telegram_says(ANNA, "own-5-again")

    # Whoever is reached as somebody may end it, too.
    assert "within the last ten minutes" in (await anna.command("/link")).json()["text"]
    await anna_there.direct(f"/link {another}")
    await until(lambda: sum("too, from your next" in text for text in found.telegram.texts(ANNA)) == 2, 30)
    assert f"{ANNA}` of `telegram:" in (await anna.command("/unlink")).json()["text"]
    await anna_there.direct("/whoami")
    await found.telegram_says(ANNA, f"You are `telegram::{ANNA}`. The agent")


async def _the_bus_loses_its_copy(found: Installation) -> None:
    user = found.stack.keys.user("test", EVERYTHING)
    url = f"nats://127.0.0.1:{found.stack.ports['nats']}"
    bus = await connect(url, user, name="test", inbox="_INBOX.test")
    try:
        bucket = await bus.jetstream().key_value(subjects.CONVERSATIONS_BUCKET)
        # Who is reached as himself may have a copy, too, which says nobody.
        links = [key for key in await bucket.keys() if key.startswith("link-") and (await bucket.get(key)).value]
        assert len(links) == 1
        await bucket.delete(links[0])
    finally:
        await bus.close()


async def _what_was_done_is_recorded(found: Installation) -> None:
    status, out, _ = await found.hermes("audit", "--json")
    deeds = [(deed["action"], deed["actor"], deed["person"]) for deed in json.loads(out)]
    assert status == 0
    assert deeds[:4] == [
        ("unlinked", "UANNA", str(ANNA)), ("linked", str(ANNA), str(ANNA)),
        ("unlinked", str(ANNA), str(ANNA)), ("linked", str(ANNA), str(ANNA)),
    ]  # fmt: skip
    assert ("approved", "api:ops", "UEVE") in deeds
    assert ("revoked", "api:ops", "UEVE") in deeds
    assert ("asked", "UEVE", "UEVE") in deeds
    assert json.loads((await found.hermes("audit", "--json", key=NARROW))[1]) == []
    sent = [deed for deed in json.loads((await found.hermes("audit", "--sent", "--json"))[1]) if deed["action"] == "sent"]
    told = [(deed["account"].partition(":")[0], deed["actor"]) for deed in sent]
    assert len(told) == len({(deed["account"], deed["actor"], deed["session"]) for deed in sent}), "once a day"
    assert {who for channel, who in told if channel == "telegram"} == {
        f"telegram::{ANNA}", f"telegram::{BEN}", *(who for channel, who in told if channel == "slack" and "UANNA" in who),
    }  # fmt: skip
