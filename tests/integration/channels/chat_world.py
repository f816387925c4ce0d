"""A gateway with a Slack account, in front of a store and an agent that follow a script and answer into chats."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hermes_contracts.envelopes import Choice, Inbound, Outbound
from hermes_contracts.store_api import BeginDeliveryReply, BeginDeliveryRequest, Turn
from hermes_gateway.gateway.app import Ports, running
from hermes_gateway.gateway.settings import GatewaySettings
from hermes_gateway.text.split import split_markdown
from hermes_service import signing, streams
from hermes_service.bus import connect
from hermes_service.bus_keys import BusKeys
from hermes_service.rpc import Caller
from local_stack.processes import free_port, tcp_open
from local_stack.servers import bus_process
from tests.fakes.slack_server import APP, SIGNING_SECRET, TEAM, TOKEN, FakeSlack, SlackPerson
from tests.integration.gateway.world import EVERYTHING, Script, World, until, write_files

LONG = "A sentence of the answer. " * 60


def account(slack: FakeSlack, **changes: object) -> dict[str, object]:
    return {
        "name": "acme", "namespace": "team", "profile": "helper", "team": TEAM, "app": APP,
        "signing_secret": SIGNING_SECRET, "bot_token": TOKEN, "api_url": slack.url,
        "allow_users": ["UANNA", "UBEN", "UCARL"], **changes,
    }  # fmt: skip


@dataclass
class ChatScript(Script):
    """Answers where the message says; parts wait for those before them, as the store has them do."""

    answers: dict[str, str] = field(default_factory=dict)
    """Whole answers by text, where an echo is not enough."""
    choices: dict[str, tuple[Choice, ...]] = field(default_factory=dict)
    """Buttons of the last part of an answer, by text."""
    files: dict[str, tuple[tuple[str, bytes, str], ...]] = field(default_factory=dict)
    """Files behind an answer, by text: name, bytes, caption."""

    async def begin_delivery(self, caller: Caller, request: BeginDeliveryRequest) -> BeginDeliveryReply:
        sid, turn, part = request.delivery_id.split(".")[:3]
        before = self.deliveries.get(f"{sid}.{turn}.{int(part) - 1}")
        if int(part) > 1 and (before is None or before.state != "delivered"):
            return BeginDeliveryReply(proceed=False, state="waiting", attempts=0)
        return await super().begin_delivery(caller, request)

    async def settled(self, inbound: Inbound, turn: Turn) -> None:
        place = inbound.reply_to
        if place is None:
            return
        texts = split_markdown(self.answers.get(inbound.text, turn.reply), 3_500)
        files = [self.shelf.put(inbound.sid, turn.turn_id, *file) for file in self.files.get(inbound.text, ())]
        for part, text in enumerate((*texts, *(file.caption for file in files)), 1):
            outbound = Outbound(
                delivery_id=f"{inbound.sid}.{turn.turn_id}.{part}", sid=inbound.sid, turn_id=turn.turn_id, part=part,
                parts=len(texts) + len(files), channel=place.channel, account=place.account, chat=place.chat,
                thread=place.thread, text=text, namespace="team",
                choices=self.choices.get(inbound.text, ()) if part == len(texts) else (),
                file=files[part - len(texts) - 1] if part > len(texts) else None,
            )  # fmt: skip
            await self.deliver(outbound)


@dataclass
class ChatWorld:
    """A workspace and the product."""

    world: World
    slack: FakeSlack
    script: ChatScript

    def person(self, user: str, *, webhooks: str = "", **flags: object) -> SlackPerson:
        self.slack.channels.setdefault(f"D0{user}", [])
        address = f"{webhooks or self.world.webhooks}/slack/acme"
        return SlackPerson(self.slack, self.slack.member(user, **flags), address)

    def write_account(self, **changes: object) -> None:
        accounts = {"accounts": [account(self.slack, **changes)]}
        (self.world.folder / "slack.json").write_text(json.dumps(accounts))

    async def said(self, channel: str, *texts: str, thread: str | None = None, seconds: float = 10.0) -> None:
        """Wait until the app has written exactly this."""
        try:
            await until(lambda: self.slack.texts(channel, thread) == list(texts), seconds)
        except AssertionError:
            assert self.slack.texts(channel, thread) == list(texts)
            raise


@asynccontextmanager
async def chat_world(folder: Path, slack: FakeSlack, **changes: object) -> AsyncIterator[ChatWorld]:
    """Run a gateway with one Slack account, its real bus credential and a real nats-server."""
    keys, port, seed = BusKeys.generate(), free_port(), signing.new_signing_seed()
    nats, url = bus_process(folder, keys, port), f"nats://127.0.0.1:{port}"
    write_files(folder, keys, seed, "http://127.0.0.1:1/answers")
    (folder / "slack.json").write_text(json.dumps({"accounts": [account(slack, **changes)]}))
    await nats.start()
    async with AsyncExitStack() as exits:
        exits.push_async_callback(nats.stop)
        await nats.until(lambda: tcp_open(port))
        admin = await connect(url, keys.user("test", EVERYTHING), name="test", inbox="_INBOX.test")
        exits.push_async_callback(admin.close)
        await streams.ensure_streams(admin.jetstream())
        script = ChatScript(admin, signing.Verifier(signing.public_key(seed)))
        await script.start()
        settings = GatewaySettings(
            bus_url=url, bus_credentials_file=folder / "bus.creds", operations_host="127.0.0.1", operations_port=0,
            api_host="127.0.0.1", api_port=0, webhooks_host="127.0.0.1", webhooks_port=0, shutdown_seconds=1,
            api_keys_file=folder / "keys.json", webhooks_file=folder / "webhooks.json", slack_file=folder / "slack.json",
            telegram_file=folder / "telegram.json",
            signing_seed_file=folder / "seed", delivery_timeout_seconds=2,
        )  # fmt: skip
        async with AsyncExitStack() as gateways:
            world = World(folder, url, keys, nats, admin, script, Ports(0, 0, 0), settings, gateways, AsyncExitStack())
            gateways.push_async_exit(world.first)
            await world.profile("helper")
            world.ports = await world.first.enter_async_context(running(settings))
            async with asyncio.timeout(15), world.http() as http:
                while (await http.get("/v1/models")).json()["data"] == []:
                    await asyncio.sleep(0.02)
                while len(await world.leases()) == 0 or sum((await world.leases()).values()) < 8:
                    await asyncio.sleep(0.02)
            yield ChatWorld(world, slack, script)
    assert "Violation" not in nats.log_path.read_text()
