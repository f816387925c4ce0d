"""One running world a test: see agent_world.py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_agent.testing.model import ScriptedModel
from hermes_agent.testing.store import FakeStore
from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role, service_permissions
from hermes_contracts.envelopes import Delta
from hermes_service import bus
from hermes_service.bus_keys import BusKeys
from hermes_service.rpc import Caller, RpcServer
from tests.integration.agent.agent_world import (
    AGENT_STORE_METHODS,
    EVERYTHING,
    SID,
    ModelsPage,
    NatsServer,
    World,
    in_stream_config,
)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    keys = BusKeys.generate()
    nats = NatsServer(tmp_path, keys.server_config())
    await nats.start()
    admin = await bus.connect(nats.url, keys.user("admin", EVERYTHING), name="admin", inbox=EVERYTHING.inbox)
    service = service_permissions(Role.STORE)
    store_bus = await bus.connect(nats.url, keys.user("store", service), name="store", inbox=service.inbox)
    store = FakeStore()

    async def handle(name: str, caller: Caller, request: object) -> object:
        return store.handle(caller.epoch, name, request)  # type: ignore[arg-type]

    handlers = {name: (lambda caller, request, n=name: handle(n, caller, request)) for name in AGENT_STORE_METHODS}
    await RpcServer(store_bus, handlers).start("store")  # type: ignore[arg-type]
    await store_bus.flush()
    await admin.jetstream().add_stream(in_stream_config())
    model = ScriptedModel()
    page = ModelsPage(model)
    world = World(nats, keys, admin, store, model, await page.start(), tmp_path)
    world.tokens = page.tokens

    async def keep(message: object) -> None:
        world.deltas.append(Delta.model_validate_json(message.data))  # type: ignore[attr-defined]

    await admin.subscribe(subjects.deltas_of(SID), cb=keep)
    await world.raise_epoch(1)
    yield world
    for agent in world.agents:
        if agent.process.returncode is None:
            agent.process.kill()
        await agent.process.wait()
        assert agent.reader is not None
        await agent.reader
    await page.stop()
    await admin.close()
    await store_bus.close()
    await nats.stop()
