"""A gateway with its real, restricted bus credential, on a real nats-server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hermes_gateway.gateway.app import Ports, running
from hermes_gateway.gateway.settings import GatewaySettings
from hermes_service import signing, streams
from hermes_service.bus import connect
from hermes_service.bus_keys import BusKeys
from local_stack.processes import free_port, tcp_open
from local_stack.servers import bus_process
from tests.integration.gateway.world import EVERYTHING, Script, World, write_files


@pytest.fixture
def reply_port() -> int:
    return free_port()


@pytest.fixture
async def world(tmp_path: Path, reply_port: int) -> AsyncIterator[World]:
    keys, port, seed = BusKeys.generate(), free_port(), signing.new_signing_seed()
    nats = bus_process(tmp_path, keys, port)
    url = f"nats://127.0.0.1:{port}"
    write_files(tmp_path, keys, seed, f"http://127.0.0.1:{reply_port}/answers")
    await nats.start()
    async with AsyncExitStack() as exits:
        exits.push_async_callback(nats.stop)
        await nats.until(lambda: tcp_open(port))
        admin = await connect(url, keys.user("test", EVERYTHING), name="test", inbox="_INBOX.test")
        exits.push_async_callback(admin.close)
        await streams.ensure_streams(admin.jetstream())
        script = Script(admin, signing.Verifier(signing.public_key(seed)))
        await script.start()
        settings = GatewaySettings(
            bus_url=url, bus_credentials_file=tmp_path / "bus.creds", operations_host="127.0.0.1", operations_port=0,
            api_host="127.0.0.1", api_port=0, webhooks_host="127.0.0.1", webhooks_port=0, shutdown_seconds=1,
            api_keys_file=tmp_path / "keys.json", webhooks_file=tmp_path / "webhooks.json",
            signing_seed_file=tmp_path / "seed", answer_timeout_seconds=5, answer_poll_seconds=0.5, heartbeat_seconds=1,
        )  # fmt: skip
        async with AsyncExitStack() as gateways:
            found = World(tmp_path, url, keys, nats, admin, script, Ports(0, 0, 0), settings, gateways, AsyncExitStack())
            gateways.push_async_exit(found.first)
            await found.profile("helper")
            await found.profile("sleepy", ready=False, message="Secret openai not found")
            await found.profile("private")
            found.ports = await found.first.enter_async_context(running(settings))
            async with found.http() as http:
                deadline = time.monotonic() + 10
                while (await http.get("/v1/models")).json()["data"] == []:
                    assert time.monotonic() < deadline
                    await asyncio.sleep(0.02)
            yield found
    # The credential is the real one: whatever the gateway does must be in its table.
    assert "Violation" not in nats.log_path.read_text()
