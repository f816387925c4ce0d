"""A person and her conversations in Slack, with the whole product behind it: takes back, asks again, goes back, chooses."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

import psycopg

from hermes_contracts.access import SlackAccount
from hermes_contracts.crd.profile import ModelChoice, ModelSettings, ProfileSpec
from hermes_contracts.installation import DATABASE, DATABASE_OWNER
from local_stack.runner import LocalRunner
from local_stack.stack import NAMESPACE, LocalProfile, Stack, running_stack, stack_folder
from tests.fakes.slack_server import FakeSlack, SlackPerson
from tests.integration.channels.chat_world import account
from tests.integration.gateway.world import until

CHOICES = (ModelChoice(provider="scripted", name="scripted-small"),)
PROFILES = (
    LocalProfile(spec=ProfileSpec(model=ModelSettings(provider="scripted", name="scripted-1", choices=CHOICES))),
    LocalProfile(name="reviewer"),
    LocalProfile(name="secret"),
)


@dataclass
class Scene:
    stack: Stack
    slack: FakeSlack
    anna: SlackPerson

    async def say(self, text: str, *expected: str) -> None:
        """Write to the agent, and wait for an answer that is done and holds all this."""
        before = len(self.slack.texts("D0UANNA"))
        await self.anna.direct(text)
        await self.answered(before, *expected)

    async def answered(self, before: int, *expected: str) -> None:
        def done() -> bool:
            new = self.slack.texts("D0UANNA")[before:]
            return any("…" not in text and all(word in text for word in expected) for text in new)

        await until(done, 60)

    async def command(self, name: str, argument: str = "") -> str:
        text: str = (await self.anna.command(name, argument)).json()["text"]
        return text

    def rows(self, query: str) -> list[tuple[object, ...]]:
        where = f"host=127.0.0.1 port={self.stack.database.port} dbname={DATABASE} user={DATABASE_OWNER}"
        with psycopg.connect(where, password=self.stack.database.owner_password) as connection:
            connection.execute("set search_path = hermes")
            return connection.execute(query).fetchall()


async def test_a_person_keeps_her_conversations(slack: FakeSlack) -> None:
    bound = SlackAccount.model_validate(account(slack, namespace=NAMESPACE, profile="default", profiles=["reviewer"]))
    slack.channels["D0UANNA"] = []
    with stack_folder() as folder:
        async with running_stack(folder, PROFILES, slack=(bound,)) as stack:
            task = asyncio.create_task(LocalRunner(stack).run())
            try:
                scene = Scene(stack, slack, SlackPerson(slack, "UANNA", f"{stack.webhooks_url}/slack/acme"))
                await _before_the_first_word(scene)
                await _takes_back(scene)
                await _goes_back(scene)
                await _chooses_whom_to_talk_to(scene)
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def _before_the_first_word(scene: Scene) -> None:
    assert "We have not talked yet" in await scene.command("/undo")
    assert "We have not talked yet" in await scene.command("/retry")
    assert "We have not talked yet" in await scene.command("/resume")
    assert "`scripted-1`" in await scene.command("/model")
    assert await scene.command("/model", "gpt-9") == (
        "There is no model `gpt-9` to choose here. There is: `scripted-1`, `scripted-small`."
    )
    said = await scene.command("/model", "scripted-small")
    assert said == "From your next message on my model in this conversation is `scripted-small`."
    assert "“The tour”" in await scene.command("/title", "The tour")


async def _takes_back(scene: Scene) -> None:
    await scene.say("!echo $((6*7)) >> answers; cat answers", "42")
    await scene.say("!echo two $((1+1))", "two 2")
    used = scene.rows("select distinct model from usage where purpose = 'turn'")
    assert used == [("scripted-small",)], "what was chosen before the first word answers it"
    said = await scene.command("/undo")
    assert "“!echo two $((1+1))”" in said and "stays done" in said
    before = len(scene.slack.texts("D0UANNA"))
    assert await scene.command("/retry") == "Noted. The answer comes here."
    await scene.answered(before, "42\n42")
    kept = scene.rows("select count(*) filter (where undone), count(*) filter (where not undone) from messages")
    assert kept == [(8, 4)]
    first = scene.rows("select body from messages where not undone order by sequence limit 1")[0][0]
    assert "answers" in str(first), "the model reads the message once"

    await scene.anna.direct("!sleep 60")
    said = await scene.command("/undo")
    assert "waits for me" in said or "working on a message here" in said, "what was just said is not passed over"
    await until(lambda: scene.rows("select count(*) from turns where state = 'running'") == [(1,)], 30)
    assert "I am working on a message here" in await scene.command("/undo")
    assert "I am working on a message here" in await scene.command("/retry")
    before = len(scene.slack.texts("D0UANNA"))
    await scene.command("/stop")
    await until(lambda: scene.rows("select count(*) from turns where state = 'running'") == [(0,)], 30)


async def _goes_back(scene: Scene) -> None:
    assert "A new conversation begins" in await scene.command("/new")
    assert "has no title yet" in await scene.command("/title")
    assert "`scripted-1`" in await scene.command("/model"), "a choice is the conversation's"
    await scene.say("!echo three $((2+1))", "three 3")
    listed = await scene.command("/resume")
    assert "1. !echo three $((2+1)): 1 message" in listed and "(this one)" in listed and "2. The tour: 4 messages" in listed
    assert "There is no conversation '7' here" in await scene.command("/resume", "7")
    assert "We go on with “The tour”" in await scene.command("/resume", "2")
    assert "“The tour”" in await scene.command("/title")
    await scene.say("!echo four $((2+2))", "four 4")
    places = scene.rows("select cid, count(*) from turns group by cid order by 2")
    assert [count for _, count in places] == [1, 5]


async def _chooses_whom_to_talk_to(scene: Scene) -> None:
    said = await scene.command("/profile")
    assert said == "You talk to `default`. Say `/profile` with a name for another: `reviewer`."
    assert "There is no `secret` to talk to here" in await scene.command("/profile", "secret")
    assert "you talk to `reviewer`" in await scene.command("/profile", "reviewer")
    assert "The agent is `reviewer`" in await scene.command("/whoami")
    await scene.say("!cat answers || echo none $((3+2))", "none 5")
    assert len(scene.rows("select distinct sid from turns")) == 2, "another Profile is another session"
    assert "you talk to `default`" in await scene.command("/profile", "default")
    await scene.say("!cat answers", "42\n42")
