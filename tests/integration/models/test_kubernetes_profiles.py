"""Profiles by watch and Secrets by need, against an API server that a test can break."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio import client

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.models.kubernetes_profiles import KubernetesProfiles
from tests.integration.models.harness import wait_for

PROFILES = "/apis/hermes.run/v1alpha1/namespaces/team/profiles"
SECRET = "/api/v1/namespaces/team/secrets/{name}"


class ApiServer:
    """The few routes this process uses."""

    def __init__(self) -> None:
        self.profiles: dict[str, dict[str, Any]] = {}
        self.secrets: dict[str, dict[str, Any]] = {}
        self.watchers: list[asyncio.Queue[dict[str, Any] | None]] = []
        self.down = False
        self.secret_reads = 0
        self.lists = 0

    def put(self, name: str, model: str, kind: str = "ADDED") -> None:
        item = {
            "metadata": {"name": name, "namespace": "team", "resourceVersion": "7"},
            "spec": {"model": {"provider": "scripted", "name": model}},
        }
        self.profiles[name] = item
        self.tell(kind, item)

    def tell(self, kind: str, item: dict[str, Any]) -> None:
        for watcher in self.watchers:
            watcher.put_nowait({"type": kind, "object": item})

    def cut_watches(self) -> None:
        for watcher in self.watchers:
            watcher.put_nowait(None)
        self.watchers.clear()

    async def list_or_watch(self, request: web.Request) -> web.StreamResponse:
        if self.down:
            return web.json_response({"kind": "Status"}, status=503)
        if request.query.get("watch") not in ("true", "True"):
            self.lists += 1
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": list(self.profiles.values())})
        response = web.StreamResponse()
        await response.prepare(request)
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.watchers.append(queue)
        while (event := await queue.get()) is not None:
            await response.write(json.dumps(event).encode() + b"\n")
        return response

    async def get(self, request: web.Request) -> web.Response:
        found = self.profiles.get(request.match_info["name"])
        return web.json_response(found or {}, status=503 if self.down else 200 if found else 404)

    async def secret(self, request: web.Request) -> web.Response:
        self.secret_reads += 1
        found = self.secrets.get(request.match_info["name"])
        return web.json_response(found or {}, status=503 if self.down else 200 if found else 404)


@asynccontextmanager
async def cluster(clock: list[float]) -> AsyncIterator[tuple[ApiServer, KubernetesProfiles]]:
    server = ApiServer()
    app = web.Application()
    app.router.add_get(PROFILES, server.list_or_watch)
    app.router.add_get(PROFILES + "/{name}", server.get)
    app.router.add_get(SECRET, server.secret)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    profiles = KubernetesProfiles(
        ["team"],
        secret_cache_seconds=30,
        connect=lambda: client.ApiClient(client.Configuration(host=url)),
        clock=lambda: clock[0],
    )
    running = asyncio.create_task(profiles.run())
    try:
        yield server, profiles
    finally:
        running.cancel()
        await asyncio.wait({running})
        server.cut_watches()
        await runner.cleanup()


async def test_profiles_follow_the_cluster() -> None:
    async with cluster([0.0]) as (server, profiles):
        server.put("one", "first")
        assert profiles.problem() == "Profiles not read yet in: team"
        await wait_for(lambda: profiles.problem() is None and server.watchers)
        found = await profiles.profile("team", "one")
        assert found is not None and found.model.name == "first"

        server.put("one", "second", "MODIFIED")
        await wait_for(lambda: profiles._profiles["team"]["one"].model.name == "second")
        server.tell("DELETED", server.profiles.pop("one"))
        await wait_for(lambda: "one" not in profiles._profiles["team"])
        assert await profiles.profile("team", "one") is None


async def test_a_profile_too_new_for_the_watch_is_read() -> None:
    async with cluster([0.0]) as (server, profiles):
        await wait_for(lambda: server.watchers)
        server.profiles["new"] = {"metadata": {"name": "new"}, "spec": {"model": {"provider": "scripted", "name": "m"}}}
        assert await profiles.profile("team", "new") is not None


async def test_what_is_known_stays_known_while_the_api_server_is_away() -> None:
    async with cluster([0.0]) as (server, profiles):
        server.put("one", "first")
        await wait_for(lambda: server.watchers)
        server.down = True
        server.cut_watches()
        assert await profiles.profile("team", "one") is not None
        with pytest.raises(HermesError) as caught:
            await profiles.profile("team", "other")
        assert caught.value.code is ErrorCode.UNAVAILABLE and caught.value.retryable
        server.profiles.clear()
        server.put("two", "x")
        server.down = False
        await wait_for(lambda: "two" in profiles._profiles["team"])
        assert "one" not in profiles._profiles["team"]


async def test_a_secret_is_read_at_need_and_forgotten_soon() -> None:
    clock = [0.0]
    async with cluster(clock) as (server, profiles):
        await wait_for(lambda: server.watchers)
        data = {"api-key": base64.b64encode(b"k1\n").decode(), "hosts": base64.b64encode(b"A.example, b.example").decode()}
        server.secrets["key"] = {"metadata": {"name": "key"}, "type": "hermes.run/provider", "data": data}
        for _ in range(3):
            secret = await profiles.secret("team", "key")
        assert (secret.api_keys, secret.hosts) == (("k1",), {"a.example", "b.example"})
        assert server.secret_reads == 1 and "k1" not in repr(secret)
        data["api-key"] = base64.b64encode(b"k2").decode()
        clock[0] = 31.0
        assert (await profiles.secret("team", "key")).api_keys == ("k2",)
        server.down = True
        clock[0] = 62.0
        with pytest.raises(HermesError) as caught:
            await profiles.secret("team", "key")
        assert caught.value.code is ErrorCode.UNAVAILABLE
        server.down = False
        with pytest.raises(HermesError) as caught:
            await profiles.secret("team", "other")
        assert caught.value.code is ErrorCode.NOT_CONFIGURED
