"""A developer keeps sessions by the sessions API."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest

from hermes_contracts import names
from hermes_contracts.store_api import CommandKind
from hermes_gateway.gateway.app import running
from tests.integration.gateway.world import ALICE_ELSEWHERE, ALICE_OTHER_PROFILE, BOB, NARROW, World


async def make(http: httpx.AsyncClient, **body: object) -> dict[str, object]:
    answer = await http.post("/api/sessions", json={"profile": "helper", **body})
    assert answer.status_code == 201, answer.text
    found: dict[str, object] = answer.json()
    return found


async def read_events(answer: httpx.Response) -> AsyncIterator[dict[str, object]]:
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield {**fields, "data": json.loads(fields["data"])}
            fields = {}


async def test_a_session_from_creation_to_deletion(world: World) -> None:
    async with world.http() as http:
        session = await make(http, title="Trip", id="trip-1")
        assert session["client_id"] == "trip-1"
        assert await make(http, id="trip-1") == session
        where = f"/api/sessions/{session['id']}"
        answered = await http.post(f"{where}/messages?wait=5", json={"text": "hello"})
        assert answered.status_code == 200
        assert answered.json()["reply"] == "You said: hello"
        sent = await http.post(f"{where}/messages", json={"text": "never"})
        assert (sent.status_code, sent.json()["state"]) == (202, "waiting")
        turn = f"{where}/turns/{sent.json()['message_id']}"
        while (await http.get(turn)).json()["state"] != "running":
            await asyncio.sleep(0.02)
        transcript = (await http.get(f"{where}/messages?limit=1")).json()
        assert transcript["data"][0]["parts"][0]["text"] == "hello"
        assert transcript["has_more"] is True
        rest = (await http.get(f"{where}/messages?after={transcript['data'][0]['sequence']}")).json()
        assert (rest["data"][0]["role"], rest["data"][0]["parts"][0]["text"]) == ("assistant", "You said: hello")
        assert rest["has_more"] is False
        # The same conversation by OpenAI's protocol, by either of its ids.
        for name in ("trip-1", str(session["id"])):
            body = {"model": "helper", "messages": [{"role": "user", "content": "hi"}]}
            answer = await http.post("/v1/chat/completions", json=body, headers={"X-Hermes-Session-Id": name})
            assert answer.json()["hermes"]["session"] == session["id"]
        assert (await http.delete(where)).status_code == 204
        assert (await http.get(where)).status_code == 404


async def test_sessions_are_listed_page_by_page(world: World) -> None:
    async with world.http() as http, world.http(BOB) as bob:
        made = [(await make(http, id=f"s{n}"))["id"] for n in range(5)]
        await make(bob)
        found: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            query = f"&cursor={cursor}" if cursor else ""
            page = (await http.get(f"/api/sessions?limit=2{query}")).json()
            found += [session["id"] for session in page["data"]]
            cursor = page["next_cursor"]
        assert found == list(reversed(made))
        assert (await http.get("/api/sessions?cursor=rubbish")).status_code == 400
        assert (await http.get("/api/sessions?limit=0")).status_code == 400


async def test_a_foreign_session_does_not_exist(world: World) -> None:
    async with world.http() as alice, world.http(BOB) as bob, world.http(NARROW) as narrow:
        session = await make(alice)
        where = f"/api/sessions/{session['id']}"
        calls = [
            await bob.get(where),
            await bob.get(f"{where}/messages"),
            await bob.post(f"{where}/messages", json={"text": "hello"}),
            await bob.get(f"{where}/events"),
            await bob.post(f"{where}/stop"),
            await bob.delete(where),
            await bob.get(f"{where}/turns/x"),
            await narrow.get(where),
            await alice.get("/api/sessions/nonsense"),
        ]
        assert [answer.status_code for answer in calls] == [404] * len(calls)
        body = {"model": "helper", "messages": [{"role": "user", "content": "hi"}]}
        headers = {"X-Hermes-Session-Id": str(session["id"])}
        assert (await bob.post("/v1/chat/completions", json=body, headers=headers)).status_code == 404
        assert (await alice.get(where)).status_code == 200
    assert await world.pending() == 0


@pytest.mark.parametrize("key", [ALICE_ELSEWHERE, ALICE_OTHER_PROFILE])
async def test_a_key_sees_only_its_namespace_and_profiles_of_the_same_owner(world: World, key: str) -> None:
    async with world.http() as alice, world.http(key) as narrower:
        session = await make(alice)
        where = f"/api/sessions/{session['id']}"
        posted = (await alice.post(f"{where}/messages?wait=5", json={"text": "hello"})).json()
        turn = f"/turns/{posted['message_id']}"
        reads = [("GET", path) for path in ("", "/messages", turn, "/events")]
        for method, path in [*reads, ("POST", "/messages"), ("POST", "/stop"), ("DELETE", "")]:
            body = {"text": "hello"} if path == "/messages" and method == "POST" else None
            answer = await narrower.request(method, f"{where}{path}", json=body)
            assert answer.status_code == 404, (method, path)
        assert (await narrower.get("/api/sessions")).json()["data"] == []
        assert (await alice.get(where)).status_code == 200


async def test_events_can_be_watched_and_replayed_from_any_replica(world: World) -> None:
    other = await world.another_gateway()
    async with world.http() as http, httpx.AsyncClient(base_url=f"http://127.0.0.1:{other.api}") as second:
        second.headers.update(http.headers)
        session = await make(http)
        where = f"/api/sessions/{session['id']}"
        async with http.stream("GET", f"{where}/events?deltas=true") as watched:
            events = read_events(watched)
            posted = await http.post(f"{where}/messages", json={"text": "hello"})
            seen = []
            while not seen or seen[-1]["event"] != "turn.done":
                seen.append(await anext(events))
        assert "".join(e["data"]["text"] for e in seen if e["event"] == "delta") == "You said: hello"  # type: ignore[index]
        done = seen[-1]
        assert done["data"]["message_id"] == posted.json()["message_id"]  # type: ignore[index]
        assert done["data"]["data"]["reply"] == "You said: hello"  # type: ignore[index]
        first = next(e for e in seen if e["event"] == "turn.started")
        for last_id, expected in (("0", ["turn.started", "turn.done"]), (str(first["id"]), ["turn.done"])):
            async with second.stream("GET", f"{where}/events", headers={"Last-Event-ID": last_id}) as replayed:
                again = read_events(replayed)
                assert [(await anext(again))["event"] for _ in expected] == expected


async def test_watching_outlives_a_restart_of_the_bus(world: World) -> None:
    async with world.http() as http:
        session = await make(http)
        where = f"/api/sessions/{session['id']}"
        async with http.stream("GET", f"{where}/events") as watched:
            events = read_events(watched)
            await http.post(f"{where}/messages", json={"text": "hello"})
            assert [(await anext(events))["event"] for _ in range(2)] == ["turn.started", "turn.done"]
            await world.nats.kill()
            await world.nats.start()
            while (await http.post(f"{where}/messages", json={"text": "again"})).status_code != 202:
                await asyncio.sleep(0.1)
            again = [await anext(events) for _ in range(2)]
            assert [event["event"] for event in again] == ["turn.started", "turn.done"]
            assert again[1]["data"]["data"]["reply"] == "You said: again"  # type: ignore[index]


async def test_quiet_streams_have_a_heartbeat(world: World) -> None:
    async with world.http() as http:
        session = await make(http)
        async with http.stream("GET", f"/api/sessions/{session['id']}/events") as watched:
            beats = 0
            async for line in watched.aiter_lines():
                beats += line == ": heartbeat"
                if beats == 3:
                    break


async def test_stop_says_whether_it_was_carried_out(world: World) -> None:
    async with world.http() as http:
        session = await make(http)
        stopped = await http.post(f"/api/sessions/{session['id']}/stop")
        assert (stopped.status_code, stopped.json()["result"]) == (200, "stopped")
        world.script.stop_result = None
        told = await http.post(f"/api/sessions/{session['id']}/stop", headers={"Idempotency-Key": "halt"})
        assert (told.status_code, told.json()) == (202, {"command_id": "k-halt", "result": None})


async def test_a_running_turn_is_steered_redirected_and_its_conversation_compacted(world: World) -> None:
    world.script.stop_result = "done"
    async with world.http() as http:
        session = await make(http)
        where = f"/api/sessions/{session['id']}"
        for call, body in (("steer", {"text": "use tabs"}), ("redirect", {"text": "stop that"}), ("compress", None)):
            answer = await http.post(f"{where}/{call}", json=body)
            assert (answer.status_code, answer.json()["result"]) == (200, "done"), answer.text
        focused = {"conversation": "c" + "b" * 25, "focus": "the numbers"}
        assert (await http.post(f"{where}/compress", json=focused)).status_code == 200
        own = names.conversation_id(str(session["id"]))
        assert [(asked.kind, asked.arguments) for asked in world.script.asked] == [
            (CommandKind.STEER, {"text": "use tabs"}),
            (CommandKind.REDIRECT, {"text": "stop that"}),
            (CommandKind.COMPRESS, {"conversation": own, "focus": ""}),
            (CommandKind.COMPRESS, focused),
        ]
        # Nobody carries it out: the caller decides how long to wait.
        world.script.stop_result = None
        told = await http.post(f"{where}/steer?wait=0.2", json={"text": "hurry"})
        assert (told.status_code, told.json()["result"]) == (202, None)


async def test_commands_that_are_wrong_are_not_recorded(world: World) -> None:
    async with world.http() as http:
        session = await make(http)
        where = f"/api/sessions/{session['id']}"
        answers = [
            await http.post(f"{where}/steer", json={}),
            await http.post(f"{where}/steer", json={"text": " "}),
            await http.post(f"{where}/redirect", json={"text": "x" * 16_001}),
            await http.post(f"{where}/compress", json={"conversation": "mine"}),
            await http.post(f"{where}/compress?wait=601", json={}),
        ]
        assert [answer.status_code for answer in answers] == [400] * len(answers)
        assert answers[3].json()["error"]["param"] == "conversation"
        assert world.script.asked == []
        # One key is one command.
        key = {"Idempotency-Key": "k1"}
        assert (await http.post(f"{where}/steer", json={"text": "a"}, headers=key)).status_code == 200
        assert (await http.post(f"{where}/steer", json={"text": "a"}, headers=key)).status_code == 200
        assert (await http.post(f"{where}/steer", json={"text": "b"}, headers=key)).status_code == 409
        assert (await http.post(f"{where}/stop", headers=key)).status_code == 409
        assert len(world.script.asked) == 1


async def test_pictures_are_stored_before_their_message_is_published(world: World) -> None:
    data = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4000
    url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    async with world.http() as http:
        session = await make(http)
        where = f"/api/sessions/{session['id']}/messages"
        answer = await http.post(f"{where}?wait=5", json={"images": [url, url]})
        assert answer.status_code == 200, answer.text
        inbound = world.script.inbound[0]
        assert inbound.text == ""
        assert [image.media_id for image in inbound.images] == [names.media_id(data)] * 2
        assert world.script.media == {(session["id"], names.media_id(data)): data}
        assert (await http.post(where, json={"images": ["http://example.com/x.png"]})).status_code == 400
        assert (await http.post(where, json={"images": ["data:,"] * 17})).status_code == 400
        key = {"Idempotency-Key": "pic"}
        assert (await http.post(where, json={"text": "a", "images": [url]}, headers=key)).status_code == 202
        assert (await http.post(where, json={"text": "a"}, headers=key)).status_code == 409
        # Two calls with the same picture at once: whose page does not fit begins again, and not for ever.
        world.script.media_conflicts = 1
        assert (await http.post(where, json={"text": "c", "images": [url]})).status_code == 202
        world.script.media_conflicts = 100
        assert (await http.post(where, json={"text": "d", "images": [url]})).status_code == 503
        world.script.media_conflicts = 0
        world.script.media_full = True
        full = await http.post(where, json={"text": "b", "images": [url]})
        assert (full.status_code, full.json()["error"]["code"]) == (413, "too_large")


async def test_what_a_turn_cost_is_shown(world: World) -> None:
    async with world.http() as http:
        session = await make(http)
        where = f"/api/sessions/{session['id']}"
        answered = (await http.post(f"{where}/messages?wait=5", json={"text": "hello"})).json()
        assert (answered["usage"]["cost_usd"], answered["usage"]["cached_input_tokens"]) == ("0.00125", 4)
        assert "cost_usd" in (await http.get(where)).json()["usage"]
        assert "cost_usd" in (await http.get("/api/sessions")).json()["data"][0]["usage"]


async def test_notices_and_restarts_are_shown_to_who_watches(world: World) -> None:
    async with world.http() as http:
        session = await make(http)
        where = f"/api/sessions/{session['id']}"
        async with http.stream("GET", f"{where}/events?deltas=true") as watched:
            events = read_events(watched)
            await http.post(f"{where}/messages", json={"text": "repeat"})
            seen = []
            while not seen or seen[-1]["event"] != "turn.done":
                seen.append(await anext(events))
    kinds = [event["data"]["kind"] for event in seen if event["event"] == "delta"]  # type: ignore[index]
    assert kinds == ["text", "notice", "restart", "text", "text"]


async def test_watching_ends_at_once_when_the_gateway_leaves(world: World) -> None:
    leaving = AsyncExitStack()
    ports = await leaving.enter_async_context(running(world.settings.model_copy(update={"shutdown_seconds": 15})))
    base = f"http://127.0.0.1:{ports.api}"
    async with world.http() as http, httpx.AsyncClient(base_url=base, headers=http.headers, timeout=30) as there:
        session = await make(http)
        async with there.stream("GET", f"/api/sessions/{session['id']}/events") as watched:
            lines = watched.aiter_lines()
            await anext(lines)
            started = time.monotonic()
            async with asyncio.TaskGroup() as group:
                group.create_task(leaving.aclose())
                assert [line async for line in lines if line.strip()] == []
                ended = time.monotonic() - started
        assert ended < 2
        assert time.monotonic() - started < 8


async def test_bad_bodies_name_the_field(world: World) -> None:
    async with world.http() as http:
        session = await make(http)
        where = f"/api/sessions/{session['id']}/messages"
        answers = [
            await http.post(where, json={"text": ""}),
            await http.post(where, json={"text": "  "}),
            await http.post(where, json={"message": "x"}),
            await http.post(f"{where}?wait=9999", json={"text": "x"}),
            await http.post("/api/sessions", json={"profile": "helper", "id": "s" + "a" * 25}),
            await http.post("/api/sessions", json={"profile": "helper", "id": "a b"}),
        ]
        assert [answer.status_code for answer in answers] == [400] * len(answers)
        assert answers[0].json()["error"]["param"] == "text"
        assert (await http.post("/api/sessions", json={"profile": "nobody"})).status_code == 404
    assert await world.pending() == 0


async def test_nothing_is_left_subscribed(world: World) -> None:
    async with world.http() as http:
        session = await make(http)
        before = await subscriptions(world)
        async with http.stream("GET", f"/api/sessions/{session['id']}/events?deltas=true") as watched:
            await anext(watched.aiter_lines())
            assert await subscriptions(world) > before
        async with asyncio.timeout(5):
            while await subscriptions(world) > before:
                await asyncio.sleep(0.05)


async def subscriptions(world: World) -> int:
    """How many listeners the gateway's events and deltas have, as the metrics of the process say."""
    from hermes_gateway.gateway import metrics

    return int(metrics.SUBSCRIPTIONS._value.get())


async def test_files_of_the_agent_are_fetched_by_the_sessions_owner(world: World) -> None:
    async with world.http() as http, world.http(BOB) as bob, world.http(NARROW) as narrow:
        session = await make(http)
        where = f"/api/sessions/{session['id']}/files"
        assert (await http.get(where)).json()["data"] == []
        data = bytes(range(256)) * 10
        file = world.script.shelf.put(str(session["id"]), "t1", 'Ä "page".html', data, "Look")
        (shown,) = (await http.get(where)).json()["data"]
        assert shown == {
            "id": file.id, "name": 'Ä "page".html', "media_type": "text/html", "size": 2560, "caption": "Look", "turn": "t1",
            "created_at": 1.0,
        }  # fmt: skip
        answer = await http.get(f"{where}/{file.id}")
        assert (answer.status_code, answer.content) == (200, data)
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''%C3%84%20%22page%22.html"
        assert (answer.headers["x-content-type-options"], answer.headers["content-security-policy"]) == (
            "nosniff", "sandbox; default-src 'none'",
        )  # fmt: skip
        for path in (where, f"{where}/{file.id}"):
            assert (await bob.get(path)).status_code == 404
            assert (await narrow.get(path)).status_code in (403, 404)
        assert (await http.get(f"{where}/fnone")).json()["error"]["code"] == "not_found"
