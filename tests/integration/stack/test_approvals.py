"""A dangerous command waits for a person while its pod is gone; the answer wakes the session and the command runs once."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import pytest_asyncio
from psycopg import sql

from hermes_contracts.crd.profile import Approvals, ModelSettings, ProfileSpec
from hermes_contracts.installation import DATABASE, DATABASE_OWNER
from local_stack.runner import LocalRunner
from local_stack.stack import LocalProfile, Stack, running_stack, stack_folder
from tests.integration.gateway.world import until

CAREFUL = LocalProfile(
    spec=ProfileSpec(
        model=ModelSettings(provider="scripted", name="scripted-1"),
        approvals=Approvals(mode="Manual", deny=("git push*",)),
        toolsets=("terminal", "file", "clarify"),
    )
)


class Person:
    """Talks over the API."""

    def __init__(self, stack: Stack, http: httpx.AsyncClient) -> None:
        self._stack, self._http = stack, http

    async def call(self, method: str, path: str, body: Any = None, **params: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._stack.api_key}"}
        return await self._http.request(
            method, f"{self._stack.api_url}{path}", headers=headers, json=body, params=params, timeout=60
        )

    async def begin(self, name: str) -> str:
        return str((await self.call("POST", "/api/sessions", {"profile": "default", "id": name})).json()["id"])

    async def say(self, sid: str, text: str) -> str:
        return str((await self.call("POST", f"/api/sessions/{sid}/messages", {"text": text}, wait=50)).json()["reply"])

    async def pending(self, sid: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.call("GET", f"/api/sessions/{sid}/approvals")).json()["data"]
        return found

    async def answer(self, sid: str, approval: str, decision: str, **more: str) -> httpx.Response:
        return await self.call("POST", f"/api/sessions/{sid}/approvals/{approval}", {"decision": decision, **more})

    async def settled(self, sid: str, message_id: str) -> dict[str, Any]:
        async with asyncio.timeout(50):
            while True:
                turn: dict[str, Any] = (await self.call("GET", f"/api/sessions/{sid}/turns/{message_id}")).json()
                if turn["state"] in ("done", "failed", "dead"):
                    return turn
                await asyncio.sleep(0.05)

    async def run_that(self, run_id: str, status: str) -> dict[str, Any]:
        """Wait until a run has a status, and return it."""
        async with asyncio.timeout(50):
            while True:
                shown: dict[str, Any] = (await self.call("GET", f"/v1/runs/{run_id}")).json()
                if shown["status"] == status:
                    return shown
                await asyncio.sleep(0.05)


@dataclass
class World:
    person: Person
    stack: Stack
    runner: LocalRunner

    async def asleep(self, sid: str) -> None:
        async with asyncio.timeout(30):
            while sid in self.runner.sessions and self.runner.sessions[sid].agent.running:
                await asyncio.sleep(0.05)

    def workspace(self, sid: str) -> Path:
        return self.stack.folder / "sessions" / sid / "workspace"

    def a_day_passes(self, sid: str) -> None:
        """Move what the database knows of a session's turns and questions a day into the past."""
        database = self.stack.database
        who = f"host=127.0.0.1 port={database.port} dbname={DATABASE} user={DATABASE_OWNER}"
        with psycopg.connect(who, password=database.owner_password) as connection:
            connection.execute("set search_path = hermes")
            columns = connection.execute(_TIMES).fetchall()
            for table, names in columns:
                earlier = sql.SQL(", ").join(
                    sql.SQL("{0} = {0} - interval '1 day'").format(sql.Identifier(name)) for name in names
                )
                connection.execute(sql.SQL("update {} set {} where sid = %s").format(sql.Identifier(table), earlier), (sid,))


_TIMES = """
select table_name, array_agg(column_name::text) from information_schema.columns
where table_schema = 'hermes' and data_type = 'timestamp with time zone' and table_name in ('approvals', 'turns', 'sessions')
group by table_name
"""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def world() -> AsyncIterator[World]:
    with stack_folder() as folder:
        async with running_stack(folder, profiles=(CAREFUL,)) as stack, httpx.AsyncClient() as http:
            runner = LocalRunner(stack, idle_seconds=0.5)
            task = asyncio.create_task(runner.run())
            try:
                yield World(Person(stack, http), stack, runner)
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


def script(*steps: dict[str, Any]) -> str:
    return "\n".join(("please", *(f"#script {json.dumps(step)}" for step in steps)))


def run(command: str) -> dict[str, Any]:
    return {"calls": [{"name": "terminal", "arguments": {"command": command}}]}


@pytest.mark.asyncio(loop_scope="module")
async def test_the_answer_wakes_the_session_and_the_command_runs_once(world: World) -> None:
    person = world.person
    sid = await person.begin("sleeper")
    asked = await person.say(sid, script(run("sh -c 'echo ran >> effects'"), {"say": "done"}))
    assert "May I run this?" in asked and "echo ran" in asked
    (question,) = await person.pending(sid)
    await world.asleep(sid)
    assert not (world.workspace(sid) / "effects").exists()
    replies = await asyncio.gather(*(person.answer(sid, question["approval_id"], "approve") for _ in range(3)))
    assert {reply.status_code for reply in replies} == {200}, [reply.text for reply in replies]
    turn = await person.settled(sid, replies[0].json()["message_id"])
    assert (turn["state"], turn["reply"]) == ("done", "done")
    assert (world.workspace(sid) / "effects").read_text() == "ran\n"
    late = await person.answer(sid, question["approval_id"], "deny")
    assert late.status_code == 409 and await person.pending(sid) == []
    assert (world.workspace(sid) / "effects").read_text() == "ran\n"


@pytest.mark.asyncio(loop_scope="module")
async def test_no_is_heard_and_a_rule_cannot_be_approved_away(world: World) -> None:
    person = world.person
    sid = await person.begin("careful")
    await person.say(sid, script(run("rm -rf src"), {"say": "done"}))
    (question,) = await person.pending(sid)
    reply = await person.answer(sid, question["approval_id"], "deny", text="we need it")
    turn = await person.settled(sid, reply.json()["message_id"])
    assert turn["state"] == "done" and "Do not run it. we need it" in json.dumps(
        (await person.call("GET", f"/api/sessions/{sid}/messages")).json()
    )
    assert await person.say(sid, script(run("git push origin"), {"say": "not pushed"})) == "not pushed"
    assert await person.pending(sid) == []


@pytest.mark.asyncio(loop_scope="module")
async def test_always_is_seen_and_taken_back(world: World) -> None:
    person = world.person
    sid, other = await person.begin("one"), await person.begin("two")
    text = script(run("rm -rf build"), {"say": "built anew"})
    await person.say(sid, text)
    (question,) = await person.pending(sid)
    reply = await person.answer(sid, question["approval_id"], "approve", scope="always")
    await person.settled(sid, reply.json()["message_id"])
    assert await person.say(other, text) == "built anew"
    (grant,) = (await person.call("GET", "/api/grants")).json()["data"]
    assert (await person.call("DELETE", f"/api/grants/{grant['profile']}/{grant['call_hash']}")).status_code == 204
    assert "May I run this?" in await person.say(other, text)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_question_is_answered_by_number(world: World) -> None:
    person = world.person
    sid = await person.begin("asker")
    call = {"name": "clarify", "arguments": {"question": "Which colour?", "choices": ["red", "blue"]}}
    assert (await person.say(sid, script({"calls": [call]}, {"say": "ok"}))).startswith("Which colour?")
    (question,) = await person.pending(sid)
    reply = await person.answer(sid, question["approval_id"], "answer", text="2")
    turn = await person.settled(sid, reply.json()["message_id"])
    assert turn["state"] == "done"
    messages = (await person.call("GET", f"/api/sessions/{sid}/messages")).json()["data"]
    assert any(part.get("text") == "blue" for message in messages for part in message["parts"])


@pytest.mark.asyncio(loop_scope="module")
async def test_the_button_is_pressed_a_day_later_and_everything_was_restarted(world: World) -> None:
    person = world.person
    sid = await person.begin("patient")
    await person.say(sid, script(run("sh -c 'echo ran >> effects'"), {"say": "done at last"}))
    (question,) = await person.pending(sid)
    await world.asleep(sid)
    world.a_day_passes(sid)
    (later,) = await person.pending(sid)
    assert later["asked_at"] < question["asked_at"] - 86_000
    for name in ("store", "gateway", "nats"):
        await world.stack.restart(name)
    reply = await person.answer(sid, question["approval_id"], "approve")
    turn = await person.settled(sid, reply.json()["message_id"])
    assert (turn["state"], turn["reply"]) == ("done", "done at last")
    assert (world.workspace(sid) / "effects").read_text() == "ran\n"


@pytest.mark.asyncio(loop_scope="module")
async def test_an_agent_killed_in_the_approved_call_neither_runs_it_again_nor_asks_again(world: World) -> None:
    person = world.person
    sid = await person.begin("unlucky")
    waits = "sh -c 'echo ran >> effects; until [ -e go ]; do sleep 0.1; done'"
    await person.say(sid, script(run(waits), {"say": "I looked at what is true"}))
    (question,) = await person.pending(sid)
    message = (await person.answer(sid, question["approval_id"], "approve")).json()["message_id"]
    effects = world.workspace(sid) / "effects"
    await until(effects.exists, 50)
    await world.runner.sessions[sid].agent.kill()
    turn = await person.settled(sid, message)
    assert (turn["state"], turn["reply"]) == ("done", "I looked at what is true")
    assert effects.read_text() == "ran\n"
    transcript = json.dumps((await person.call("GET", f"/api/sessions/{sid}/messages")).json())
    assert transcript.count("Interrupted: the agent was restarted") == 1
    asked = (await person.call("GET", f"/api/sessions/{sid}/approvals", pending=False)).json()["data"]
    assert [one["approval_id"] for one in asked] == [question["approval_id"]]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_run_waits_for_its_approvals_and_goes_on_with_each(world: World) -> None:
    person = world.person
    steps = (run("rm -rf one"), run("rm -rf two"), {"say": "both are gone"})
    started = (await person.call("POST", "/v1/runs", {"model": "default", "input": script(*steps)})).json()
    run_id, path = started["run_id"], f"/v1/runs/{started['run_id']}"
    watching = asyncio.create_task(person.call("GET", f"{path}/events"))
    first = await person.run_that(run_id, "waiting_for_approval")
    assert "rm -rf one" in first["approvals"][0]["question"] and first["output"] is None
    stop = await person.call("POST", f"{path}/stop")
    assert stop.status_code == 409 and "waits for an answer" in stop.json()["error"]["message"]
    assert (await person.call("POST", f"{path}/approval", {"choice": "perhaps"})).status_code == 400
    unasked = await person.call("POST", f"{path}/approval", {"choice": "once", "approval_id": "2aaaaaaa"})
    assert (unasked.status_code, unasked.json()["error"]["param"]) == (404, "approval_id")
    given = (await person.call("POST", f"{path}/approval", {"choice": "approved"})).json()
    assert given | {"approvals": []} == {
        "object": "hermes.run.approval_response", "run_id": run_id, "choice": "once", "resolved": 1, "approvals": [],
    }  # fmt: skip
    async with asyncio.timeout(50):
        while (second := await person.run_that(run_id, "waiting_for_approval")) and (
            second["approvals"][0]["approval_id"] == first["approvals"][0]["approval_id"]
        ):
            await asyncio.sleep(0.05)
    assert "rm -rf two" in second["approvals"][0]["question"]
    given = await person.call("POST", f"{path}/approval", {"choice": "deny", "reason": "keep it", "all": True})
    assert given.status_code == 200, given.text
    done = await person.run_that(run_id, "completed")
    assert (done["output"], done["approvals"]) == ("both are gone", [])
    assert (await person.call("POST", f"{path}/approval", {"choice": "once"})).status_code == 409
    sides = [await watching, await person.call("GET", f"{path}/events")]
    for seen in ([json.loads(line[6:]) for line in side.text.splitlines() if line.startswith("data: ")] for side in sides):
        assert [e["choice"] for e in seen if e["event"] == "approval.responded"] == ["once", "deny"]
        assert seen[-1]["event"] == "run.completed" and seen[-1]["output"] == "both are gone"
        assert seen[-1]["usage"]["total_tokens"] == done["usage"]["total_tokens"] > 0
    live = [json.loads(line[6:]) for line in sides[0].text.splitlines() if line.startswith("data: ")]
    requested = [e for e in live if e["event"] == "approval.request"]
    assert [json.loads(e["arguments"])["command"] for e in requested] == ["rm -rf one", "rm -rf two"]
    assert requested[0]["choices"] == ["once", "session", "always", "deny"]
    assert any(e["event"] == "tool.started" for e in live), "the approved call is seen to run"
