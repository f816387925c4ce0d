"""A real nats-server with our accounts and streams, and a consumer for each session's current epoch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Permissions, Role, agent_permissions, service_permissions
from hermes_service import streams
from hermes_service.bus import BusCredentials, connect
from hermes_service.bus_keys import BusKeys
from local_stack.processes import free_port, tcp_open
from local_stack.servers import bus_process

ALICE = "s" + "a" * 25
BOB = "s" + "b" * 25


@dataclass
class User:
    """A connected user, and the permission errors the server sent it."""

    client: Client
    inbox: str
    errors: list[str] = field(default_factory=list)


@dataclass
class Bus:
    url: str
    keys: BusKeys
    exits: AsyncExitStack

    async def user(self, name: str, permissions: Permissions) -> User:
        credentials: BusCredentials = self.keys.user(name, permissions)
        client = await connect(self.url, credentials, name=name, inbox=permissions.inbox)
        user = User(client, permissions.inbox)

        async def note(error: Exception) -> None:
            user.errors.append(str(error))

        client._error_cb = note
        self.exits.push_async_callback(client.close)
        return user

    async def service(self, role: Role) -> User:
        return await self.user(role, service_permissions(role))

    async def agent(self, sid: str, epoch: int) -> User:
        return await self.user(f"{sid}-{epoch}", agent_permissions(sid, epoch))


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[Bus]:
    keys, port = BusKeys.generate(), free_port()
    server = bus_process(tmp_path, keys, port)
    await server.start()
    try:
        await server.until(lambda: tcp_open(port))
        async with AsyncExitStack() as exits:
            found = Bus(f"nats://127.0.0.1:{port}", keys, exits)
            operator = await found.service(Role.OPERATOR)
            js = operator.client.jetstream()
            await streams.ensure_streams(js)
            for sid, epoch in ((ALICE, 2), (BOB, 1)):
                config = ConsumerConfig(
                    durable_name=subjects.consumer(sid, epoch),
                    filter_subject=subjects.inbound(sid),
                    ack_policy=AckPolicy.EXPLICIT,
                )
                await js.add_consumer(subjects.in_stream(sid), config)
            yield found
    finally:
        await server.stop()
