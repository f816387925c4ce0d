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
import pytest
import pytest_asyncio

from hermes_contracts.crd.profile import Approvals, ModelSettings, ProfileSpec
from local_stack.runner import LocalRunner
from local_stack.stack import LocalProfile, Stack, running_stack, stack_folder

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
    assert turn["state"] == "done" and (world.workspace(sid) / "effects").read_text() == "ran\n"
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
