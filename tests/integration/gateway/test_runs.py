"""Somebody starts a run, looks at it, watches it, steers it and stops it; and asks what the server can do."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from tests.integration.gateway.world import ALICE, ALICE_ELSEWHERE, ALICE_OTHER_PROFILE, BOB, NARROW, World, until

RUN = {"model": "helper", "input": "hello"}


async def finished(http: httpx.AsyncClient, run: str) -> dict[str, object]:
    async with asyncio.timeout(10):
        while True:
            shown: dict[str, object] = (await http.get(f"/v1/runs/{run}")).json()
            if shown["status"] not in ("queued", "running"):
                return shown
            await asyncio.sleep(0.02)


async def events(http: httpx.AsyncClient, run: str) -> list[dict[str, object]]:
    answer = await http.get(f"/v1/runs/{run}/events")
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]


async def test_a_run_from_start_to_end_on_any_replica(world: World) -> None:
    other = await world.another_gateway()
    async with world.http() as http:
        started = await http.post("/v1/runs", json=RUN, headers={"X-Hermes-Session-Key": "ada@example"})
        assert started.status_code == 202, started.text
        run = started.json()["run_id"]
        assert started.json()["status"] == "started"
        assert started.headers["X-Hermes-Session-Key"] == "ada@example"
        shown = await finished(http, run)
        assert (shown["object"], shown["status"], shown["output"]) == ("hermes.run", "completed", "You said: hello")
        assert shown["session_id"] == started.headers["X-Hermes-Session-Id"] == started.json()["session_id"]
        usage = shown["usage"]
        assert isinstance(usage, dict)
        assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (10, 5, 15)
        transcript = (await http.get(f"/api/sessions/{shown['session']}/messages")).json()
        assert len(transcript["data"]) == 2
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{other.api}", headers={"Authorization": f"Bearer {ALICE}"}, timeout=20
    ) as elsewhere:
        assert await finished(elsewhere, run) == shown
        seen = await events(elsewhere, run)
    assert [event["event"] for event in seen] == ["message.delta", "run.completed"]
    assert seen[-1]["output"] == seen[0]["delta"] == "You said: hello"


async def test_a_run_is_watched_while_it_goes_on_and_told_things(world: World) -> None:
    async with world.http() as http:
        run = (await http.post("/v1/runs", json={**RUN, "input": "wait for me"})).json()["run_id"]
        watching = asyncio.create_task(events(http, run))
        async with asyncio.timeout(10):
            while (await http.get(f"/v1/runs/{run}")).json()["status"] != "running":
                await asyncio.sleep(0.02)
        steered = await http.post(f"/v1/runs/{run}/steer", json={"text": "be brief"}, headers={"Idempotency-Key": "s-1"})
        assert (steered.status_code, steered.json()["status"]) == (200, "steered")
        stopped = await http.post(f"/v1/runs/{run}/stop")
        assert (stopped.status_code, stopped.json()["status"]) == (200, "stopping")
        assert [(asked.kind, asked.arguments) for asked in world.script.asked] == [
            ("steer", {"text": "be brief"}),
            ("stop", {}),
        ]
        world.script.released.set()
        seen = await watching
        for path, body in (("stop", None), ("steer", {"text": "late"})):
            late = await http.post(f"/v1/runs/{run}/{path}", json=body)
            assert (late.status_code, late.json()["error"]["code"]) == (409, "run_not_active")
    assert seen[-1]["event"] == "run.completed"
    assert "".join(str(event["delta"]) for event in seen if event["event"] == "message.delta") == "Let me think."


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("tool", {"message.delta", "tool.started", "tool.completed", "run.completed"}),
        ("repeat", {"message.delta", "run.notice", "run.restart", "run.completed"}),
        ("fail", {"run.failed"}),
    ],
)
async def test_the_events_of_a_run(world: World, text: str, kinds: set[str]) -> None:
    async with world.http() as http:
        # A first run holds the scripted agent, so that the second is watched before it begins.
        first = (await http.post("/v1/runs", json={**RUN, "input": "wait", "session_id": "s"})).json()["run_id"]
        await until(lambda: len(world.script.inbound) == 1)
        run = (await http.post("/v1/runs", json={**RUN, "input": text, "session_id": "s"})).json()["run_id"]
        assert (await http.post(f"/v1/runs/{run}/stop")).json()["error"]["code"] == "run_not_active"
        watching = asyncio.create_task(events(http, run))
        async with asyncio.timeout(10):
            while await subscriptions(world) < 2:
                await asyncio.sleep(0.02)
        world.script.released.set()
        seen = await watching
        await finished(http, first)
    assert {event["event"] for event in seen} == kinds
    assert all(event["run_id"] == run and event["timestamp"] for event in seen)


async def subscriptions(world: World) -> int:
    async with httpx.AsyncClient() as http:
        text = (await http.get(f"http://127.0.0.1:{world.ports.operations}/metrics")).text
    line = next(line for line in text.splitlines() if line.startswith("hermes_gateway_session_subscriptions "))
    return int(float(line.split()[1]))


async def test_a_repeated_key_is_the_same_run(world: World) -> None:
    async with world.http() as http:
        key = {"Idempotency-Key": "k-1"}
        first = await http.post("/v1/runs", json=RUN, headers=key)
        again = await http.post("/v1/runs", json=RUN, headers=key)
        assert again.json() == first.json()
        assert "Idempotent-Replayed" not in first.headers
        assert again.headers["Idempotent-Replayed"] == "true"
        other = await http.post("/v1/runs", json={**RUN, "input": "other"}, headers=key)
        assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_key_reused")
        assert (await http.post("/v1/runs", json=RUN)).json()["session_id"] != first.json()["session_id"]
        await finished(http, first.json()["run_id"])
    assert [inbound.text for inbound in world.script.inbound] == ["hello"] * 2


async def test_a_run_goes_on_where_a_response_was(world: World) -> None:
    async with world.http() as http:
        made = (await http.post("/v1/responses", json={"model": "helper", "input": "hello"})).json()
        run = await http.post("/v1/runs", json={**RUN, "input": "more", "previous_response_id": made["id"]})
        shown = await finished(http, run.json()["run_id"])
    assert shown["session"] == made["hermes"]["session"]


@pytest.mark.parametrize("key", [BOB, ALICE_ELSEWHERE, ALICE_OTHER_PROFILE])
async def test_a_foreign_run_does_not_exist(world: World, key: str) -> None:
    async with world.http() as http, world.http(key) as foreign:
        run = (await http.post("/v1/runs", json=RUN)).json()["run_id"]
        await finished(http, run)
        for method, path, body in (
            ("GET", "", None), ("GET", "/events", None), ("POST", "/stop", None), ("POST", "/steer", {"text": "x"}),
        ):  # fmt: skip
            answer = await foreign.request(method, f"/v1/runs/{run}{path}", json=body)
            assert answer.status_code == 404, (path, answer.text)
        made = (await http.post("/v1/responses", json={"model": "helper", "input": "hello"})).json()
        assert (await http.get(f"/v1/runs/{made['id']}")).status_code == 404, "a response is no run"


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"model": "helper"}, 400, "input"),
        ({"model": "helper", "input": "  "}, 400, "input"),
        ({"input": "x"}, 400, "model"),
        ({"model": "nobody", "input": "x"}, 404, "model"),
        ({"model": "helper", "input": "x", "conversation_history": [{"role": "user"}]}, 400, "conversation_history"),
        ({"model": "helper", "input": "x", "session_id": "a b"}, 400, "session_id"),
        ({"model": "helper", "input": "x", "session_id": "a", "previous_response_id": "b"}, 400, "conversation"),
    ],
)
async def test_refusals_name_the_field(world: World, body: dict[str, object], status: int, param: str) -> None:
    async with world.http() as http:
        answer = await http.post("/v1/runs", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param), answer.text
    assert await world.pending() == 0


async def test_a_key_needs_the_scope_and_may_leave_its_only_profile_out(world: World) -> None:
    async with world.http(NARROW) as narrow, world.http(BOB) as bob:
        assert (await narrow.post("/v1/runs", json=RUN)).status_code == 403
        assert (await narrow.get("/v1/capabilities")).status_code == 403
        started = await bob.post("/v1/runs", json={"input": "hello"})
        assert (await finished(bob, started.json()["run_id"]))["model"] == "helper"
        bad = await bob.post("/v1/runs", json={"input": "x"}, headers={"X-Hermes-Session-Key": "a b"})
        assert (bad.status_code, bad.json()["error"]["param"]) == (400, "X-Hermes-Session-Key")


async def test_what_is_listed_is_there(world: World) -> None:
    async with world.http() as http, world.http(None) as nobody:
        listed = (await http.get("/v1/capabilities")).json()
        document = (await http.get("/openapi.json")).json()
        assert (await nobody.get("/v1/health")).json() == {"status": "ok"}
        assert (await nobody.get("/v1/capabilities")).status_code == 401
    assert (listed["object"], listed["platform"]) == ("hermes.api_server.capabilities", "hermes-agent")
    for endpoint in listed["endpoints"].values():
        assert endpoint["method"].lower() in document["paths"][endpoint["path"]], endpoint


async def test_people_behind_one_key_are_told_apart_by_the_session_key(world: World) -> None:
    body = {"model": "helper", "messages": [{"role": "user", "content": "hello"}]}
    path, sessions = "/v1/chat/completions", []
    async with world.http() as http:
        for who in ("ada", "ada", "eve"):
            answer = await http.post(path, json=body, headers={"X-Hermes-Session-Key": who})
            sessions.append(answer.headers["Hermes-Session"])
    assert sessions[0] == sessions[1] != sessions[2]
