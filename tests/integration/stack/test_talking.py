"""A person talks, a webhook comes in, somebody reads the transcript: the whole product, without a cluster."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from typing import Any

import httpx
import pytest

from release.kubectl import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "a-secret-of-this-test-only"


def _script(*steps: dict[str, Any], said: str = "please") -> str:
    return "\n".join([said, *(f"#script {json.dumps(step)}" for step in steps)])


def _run(*lines: str, say: str) -> str:
    calls = [{"calls": [{"name": "terminal", "arguments": {"command": line}}]} for line in lines]
    return _script(*calls, {"say": say})


async def test_a_conversation_goes_on_where_it_was(world: Any) -> None:
    assert "hello" in await world.say("first", "hello")
    assert await world.say("first", _run("echo 42 > answer", say="written")) == "written"
    assert (await world.workspace("first") / "answer").read_text() == "42\n"
    assert "42" in await world.say("first", "!cat answer")
    roles = [m["role"] for m in await world.transcript("first")]
    assert roles[:2] == ["user", "assistant"]
    assert roles.count("user") == 3


async def test_each_request_extends_the_one_before(world: Any) -> None:
    for text in ("one", _run("true", say="two"), "three"):
        await world.say("stable", text)
    async with httpx.AsyncClient(base_url=world.stack.scripted_url) as client:
        seen = (await client.get("/requests")).json()
    assert seen, "the scripted model remembers what it was asked"


async def _asked_last(world: Any) -> list[str]:
    """Return hashes of the messages that the model was asked with last."""
    async with httpx.AsyncClient(base_url=world.stack.scripted_url) as client:
        found: list[str] = (await client.get("/requests")).json()["requests"][-1]["prefix"]
    return found


async def test_an_exchange_is_taken_back_and_a_message_is_said_again(world: Any) -> None:
    await world.say("regret", "my dog is called Rex")
    first = await _asked_last(world)
    await world.say("regret", "my cat is called Tom")
    assert len(await _asked_last(world)) == len(first) + 2
    sid = (await world.session("regret"))["id"]
    key = {"Idempotency-Key": "undo-1"}
    undone = [await world.api("POST", f"/api/sessions/{sid}/undo", headers=key) for _ in range(2)]
    assert [one.status_code for one in undone] == [200, 200]
    assert undone[0].json() == undone[1].json() and undone[0].json()["taken"] == ["my cat is called Tom"]
    other = await world.api("POST", f"/api/sessions/{sid}/undo", headers=key, json={"exchanges": 2})
    assert other.status_code == 409, "a key means one request"

    again = [await world.api("POST", f"/api/sessions/{sid}/retry", headers={"Idempotency-Key": "again"}) for _ in range(2)]
    assert [one.status_code for one in again] == [202, 202] and again[0].json() == again[1].json()
    turn = f"/api/sessions/{sid}/turns/{again[0].json()['message_id']}"

    async def done() -> bool:
        return str((await world.api("GET", turn)).json()["state"]) == "done"

    await until("the answer to what was said again", done)
    assert await _asked_last(world) == first, "byte for byte what was asked before anything was taken back"
    said = [(m["undone"], m["parts"][0]["text"]) for m in await world.transcript("regret") if m["role"] == "user"]
    assert said == [
        (True, "my dog is called Rex"), (True, "my cat is called Tom"), (False, "my dog is called Rex"),
    ]  # fmt: skip
    assert (await world.api("POST", f"/api/sessions/{sid}/undo", json={"exchanges": 5})).json()["taken"] == [said[2][1]]
    for command in ("undo", "retry"):
        refused = await world.api("POST", f"/api/sessions/{sid}/{command}")
        assert refused.status_code == 409 and refused.json()["error"]["code"] == "nothing"


async def test_a_conversation_is_named_and_its_model_chosen(world: Any) -> None:
    await world.say("settings", "hello")
    path = f"/api/sessions/{(await world.session('settings'))['id']}/settings"
    assert (await world.api("GET", path)).json() == {"title": "", "model": "scripted-1", "models": ["scripted-1"]}
    assert (await world.api("PATCH", path, json={"title": " A  tour "})).json()["title"] == "A tour"
    assert (await world.session("settings"))["title"] == "A tour"
    refused = await world.api("PATCH", path, json={"model": "gpt-9", "title": "no"})
    assert refused.status_code == 400 and "There is: `scripted-1`" in refused.json()["error"]["message"]
    assert (await world.api("PATCH", path, json={"model": "default"})).json()["title"] == "A tour"


async def test_a_webhook_is_answered_once_though_its_receiver_was_down(world: Any) -> None:
    world.receiver.refuse = 2
    body = json.dumps({"text": _script({"say": "build is green"})}).encode()
    for _ in range(3):
        assert (await _post_webhook(world, body, "delivery-1")).status_code == 200

    async def arrived() -> bool:
        return bool(world.receiver.received)

    await until("the answer at the receiver", arrived)
    await world.say("first", "a turn later")
    assert [m["text"] for m in world.receiver.received] == ["build is green"]


async def _post_webhook(world: Any, body: bytes, delivery: str, *, secret: str = SECRET, age: float = 0) -> httpx.Response:
    stamp = str(int(time.time() - age))
    signature = hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    headers = {
        "Hermes-Timestamp": stamp,
        "Hermes-Signature": f"v1={signature}",
        "Hermes-Delivery-Id": delivery,
        "Content-Type": "application/json",
    }
    async with httpx.AsyncClient(base_url=world.stack.webhooks_url) as client:
        return await client.post("/webhooks/ci", content=body, headers=headers)


async def test_a_forged_or_stale_webhook_starts_nothing(world: Any) -> None:
    before = len((await world.api("GET", "/api/sessions")).json()["data"])
    body = b'{"text": "hi"}'
    assert (await _post_webhook(world, body, "d2", secret="another-secret-entirely")).status_code == 401
    assert (await _post_webhook(world, body, "d3", age=3600)).status_code == 401
    assert len((await world.api("GET", "/api/sessions")).json()["data"]) == before


async def test_stop_ends_a_running_turn(world: Any) -> None:
    await world.say("stop", "hello")
    turn = asyncio.create_task(world.say("stop", _run("touch started; sleep 100000", say="never")))
    started = await world.workspace("stop") / "started"

    async def running() -> bool:
        return started.exists()

    await until("the command to run", running)
    sid = (await world.session("stop"))["id"]
    begun = time.monotonic()
    assert (await world.api("POST", f"/api/sessions/{sid}/stop")).status_code in (200, 202)
    assert "topped" in await turn
    assert time.monotonic() - begun < 10
    assert "fine" in await world.say("stop", "!echo fine")


async def test_a_session_sleeps_and_wakes_with_its_conversation(world: Any) -> None:
    await world.say("sleepy", "remember 8128")
    sid = (await world.session("sleepy"))["id"]
    first = world.runner.sessions[sid].epoch
    await world.runner.suspend(sid)
    assert not world.runner.sessions[sid].agent.running
    await world.say("sleepy", "good morning")
    assert world.runner.sessions[sid].epoch == first + 1
    texts = json.dumps(await world.transcript("sleepy"))
    assert "8128" in texts
    assert "good morning" in texts


async def test_a_foreign_session_is_not_found(world: Any) -> None:
    await world.say("private", "mine alone")
    sid = (await world.session("private"))["id"]
    headers = {"Authorization": f"Bearer {world.stack.api_key}-other"}
    async with httpx.AsyncClient(base_url=world.stack.api_url, headers=headers) as other:
        for method, path in (("GET", ""), ("GET", "/messages"), ("POST", "/stop"), ("DELETE", ""), ("GET", "/events")):
            response = await other.request(method, f"/api/sessions/{sid}{path}")
            assert response.status_code == 404, (method, path, response.text)
            assert "mine alone" not in response.text


async def test_a_gateway_that_stops_says_where_the_answer_will_be(world: Any) -> None:
    await world.say("moving", "hello")
    workspace = await world.workspace("moving")
    text = _run("touch started; until [ -e go ]; do sleep 0.1; done", say="the answer")
    who = {"Authorization": f"Bearer {world.stack.api_key}", "X-Hermes-Session-Id": "moving"}
    headers = {**who, "Idempotency-Key": "moving-1"}
    body = {"model": "default", "messages": [{"role": "user", "content": text}]}

    async def running() -> bool:
        return (workspace / "started").exists()

    async with httpx.AsyncClient(base_url=world.stack.api_url, headers=headers, timeout=60) as client:
        waiting = asyncio.create_task(client.post("/v1/chat/completions", json=body))
        await until("the command to run", running)
        gateway = world.stack.processes["gateway"]
        await gateway.stop(patience_seconds=40)
        told = await waiting
    assert told.status_code == 504
    assert "shutting down" in told.json()["error"]["message"]
    assert "/turns/moving-1" in told.json()["error"]["message"]
    await gateway.start()
    await world.stack.ready("gateway")
    (workspace / "go").touch()
    assert await world.say("moving", text, key="moving-1") == "the answer"
