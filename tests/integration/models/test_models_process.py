"""The process as it runs in a cluster: its own start and end, a real bus, a store that is slow to come."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jwt
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import BaseModel

from hermes_contracts.bus_permissions import Role, service_permissions
from hermes_contracts.model_api import STREAM_PATH, TOKEN_AUDIENCE, TOKEN_ISSUER
from hermes_contracts.store_api import RECORD_USAGE, Empty, RecordUsageRequest
from hermes_service.bus import connect
from hermes_service.bus_keys import BusKeys
from hermes_service.rpc import Caller, RpcServer
from local_stack.processes import Process, free_port, tcp_open
from local_stack.servers import bus_process
from scripted_model.http_server import listen
from scripted_model.server import Server
from tests.integration.models.harness import SID, ask, script

ROOT = Path(__file__).resolve().parents[3]


@dataclass
class World:
    keys: BusKeys
    bus: Process
    bus_url: str
    models: Process
    http: httpx.AsyncClient
    operations: httpx.AsyncClient
    headers: dict[str, str]
    records: list[RecordUsageRequest] = field(default_factory=list)

    async def until_ready(self, expected: int = 200) -> str:
        async with asyncio.timeout(60):
            while True:
                try:
                    response = await self.operations.get("/readyz")
                    if response.status_code == expected:
                        return response.text
                except httpx.TransportError:
                    pass
                await asyncio.sleep(0.05)

    @asynccontextmanager
    async def store(self) -> AsyncIterator[None]:
        """A store that only takes usage."""
        permissions = service_permissions(Role.STORE)
        client = await connect(self.bus_url, self.keys.user("store", permissions), name="store", inbox=permissions.inbox)

        async def take(caller: Caller, request: BaseModel) -> BaseModel:
            assert caller.role == "models" and isinstance(request, RecordUsageRequest)
            self.records.append(request)
            return Empty()

        await RpcServer(client, {RECORD_USAGE.name: take}).start("store")
        await client.flush()
        try:
            yield
        finally:
            await client.close()


@asynccontextmanager
async def world(tmp_path: Path) -> AsyncIterator[World]:
    keys, bus_port, port, operations = BusKeys.generate(), free_port(), free_port(), free_port()
    private = Ed25519PrivateKey.generate()
    (tmp_path / "public.pem").write_bytes(
        private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    (tmp_path / "bus.creds").write_text(keys.user("models", service_permissions(Role.MODELS)).render())
    profile = {"namespace": "team", "name": "scripted", "spec": {"model": {"provider": "scripted", "name": "m"}}}
    (tmp_path / "profiles.yaml").write_text(yaml.safe_dump([profile]))
    async with AsyncExitStack() as stack:
        scripted = await stack.enter_async_context(listen(Server().handle, "127.0.0.1", 0))
        environment = {
            "PYTHONPATH": ":".join(str(ROOT / part) for part in ("libs", "gateway_image", "tools")),
            "HERMES_LISTEN_HOST": "127.0.0.1",
            "HERMES_LISTEN_PORT": str(port),
            "HERMES_OPERATIONS_PORT": str(operations),
            "HERMES_BUS_URL": f"nats://127.0.0.1:{bus_port}",
            "HERMES_BUS_CREDENTIALS_FILE": str(tmp_path / "bus.creds"),
            "HERMES_TOKEN_PUBLIC_KEY_FILE": str(tmp_path / "public.pem"),
            "HERMES_PROFILES_FILE": str(tmp_path / "profiles.yaml"),
            "HERMES_TENANTS": '["team"]',
            "HERMES_SCRIPTED_URL": f"http://127.0.0.1:{scripted}/v1",
            "HERMES_GRACE_SECONDS": "10",
        }
        models = Process("models", [sys.executable, "-m", "hermes_gateway", "--role", "models"], tmp_path, environment)
        claims = {
            "iss": TOKEN_ISSUER, "aud": TOKEN_AUDIENCE, "sub": SID, "exp": int(time.time()) + 3600,
            "namespace": "team", "profile": "scripted", "epoch": 1,
        }  # fmt: skip
        found = World(
            keys,
            bus_process(tmp_path, keys, bus_port),
            environment["HERMES_BUS_URL"],
            models,
            await stack.enter_async_context(httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30)),
            await stack.enter_async_context(httpx.AsyncClient(base_url=f"http://127.0.0.1:{operations}", timeout=5)),
            {"authorization": "Bearer " + jwt.encode(claims, private, algorithm="EdDSA")},
        )
        stack.push_async_callback(found.bus.stop)
        stack.push_async_callback(models.stop)
        await models.start()
        yield found


def _logged(world: World) -> list[dict[str, Any]]:
    return [json.loads(line) for line in world.models.log_path.read_text().splitlines()]


async def test_a_life_from_a_missing_bus_to_sigterm_with_a_stream_running(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        text = await w.until_ready(503)
        assert "the bus is not connected" in text
        async with asyncio.timeout(60):
            while "http: ok" not in (await w.operations.get("/readyz")).text:
                await asyncio.sleep(0.05)

        # No bus yet: an answer comes all the same, its usage waits.
        response = await w.http.post(STREAM_PATH, content=ask("hello", turn_id="early").model_dump_json(), headers=w.headers)
        assert '"type":"finish"' in response.text

        await w.bus.start()
        await w.bus.until(lambda: tcp_open(int(w.bus_url.rpartition(":")[2])))
        await w.until_ready()
        async with w.store():
            async with asyncio.timeout(30):
                while not w.records:
                    await asyncio.sleep(0.05)
            assert w.records[0].turn_id == "early" and w.records[0].outcome == "ok"

            metrics = (await w.operations.get("/metrics")).text
            assert 'hermes_models_calls_total{outcome="ok",provider="scripted"} 1.0' in metrics
            assert "hermes_models_active_streams 0.0" in metrics

            # SIGTERM in the middle of a stream: no new connections, but this answer is finished and accounted for.
            slow = ask(script({"say": "abcdefgh", "chunk": 1, "pause_ms": 100}), turn_id="last").model_dump_json()
            async with w.http.stream("POST", STREAM_PATH, content=slow, headers=w.headers) as stream:
                lines = stream.aiter_lines()
                received = [await anext(lines)]
                stopping = asyncio.create_task(w.models.stop(30))
                received += [line async for line in lines]
            await stopping
            assert "".join(json.loads(line).get("text", "") for line in received) == "abcdefgh"
            assert json.loads(received[-1])["type"] == "finish"
            assert await w.models.wait() == 0
            assert [record.turn_id for record in w.records] == ["early", "last"]

        events = [line["event"] for line in _logged(w)]
        assert "http.started" in events and events.count("model.call") == 2
        assert all(line.get("component") == "models" for line in _logged(w) if line["event"] == "model.call")
        assert "abcdefgh" not in w.models.log_path.read_text()


async def test_wrong_settings_end_the_process_with_the_variables_name(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(ROOT / "libs") + ":" + str(ROOT / "gateway_image"), "HERMES_LISTEN_PORT": "many"}
    process = Process("models", [sys.executable, "-m", "hermes_gateway", "--role", "models"], tmp_path, environment)
    await process.start()
    assert await process.wait() != 0
    assert "HERMES_LISTEN_PORT" in process.log_path.read_text() and "many" not in process.log_path.read_text()
