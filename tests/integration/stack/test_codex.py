"""Turns handed to a program, through every process: the models service serves it, and a kill does nothing twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from hermes_contracts.crd.profile import ProfileSpec
from local_stack.runner import LocalRunner
from local_stack.stack import LocalProfile, Stack, running_stack, stack_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROGRAM = Path(__file__).parents[2] / "fakes" / "codex_program.py"
SPEC = {
    "model": {
        "provider": "scripted",
        "name": "scripted-1",
        "apiMode": "codex_app_server",
        "codex": {"command": [sys.executable, str(PROGRAM)]},
    }
}


@dataclass
class Desk:
    """Somebody whose work a program does."""

    stack: Stack
    runner: LocalRunner

    async def api(self, method: str, path: str, **arguments: object) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.stack.api_key}", "X-Hermes-Session-Id": "desk"}
        async with httpx.AsyncClient(base_url=self.stack.api_url, timeout=100, headers=headers) as client:
            return await client.request(method, path, **arguments)  # type: ignore[arg-type]

    async def say(self, text: str) -> str:
        body = {"model": "default", "messages": [{"role": "user", "content": text}]}
        response = await self.api("POST", "/v1/chat/completions", json=body)
        assert response.status_code == 200, response.text
        return str(response.json()["choices"][0]["message"]["content"])

    async def asked(self) -> list[list[str]]:
        """Return the model's requests, each as hashes of its ever longer beginnings."""
        async with httpx.AsyncClient(base_url=self.stack.scripted_url) as client:
            return [one["prefix"] for one in (await client.get("/requests")).json()["requests"]]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk() -> AsyncIterator[Desk]:
    profile = LocalProfile(spec=ProfileSpec.model_validate(SPEC))
    with stack_folder() as folder:
        async with running_stack(folder, (profile,)) as stack:
            runner = LocalRunner(stack)
            task = asyncio.create_task(runner.run())
            try:
                yield Desk(stack, runner)
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


def runs(command: str, say: str) -> str:
    step = {"calls": [{"name": "exec_command", "arguments": {"cmd": command}}]}
    return f"please\n#script {json.dumps(step)}\n#script {json.dumps({'say': say})}"


async def test_the_program_works_with_the_profiles_model_and_the_next_agent_goes_on_in_its_thread(desk: Desk) -> None:
    assert await desk.say(runs("echo once >> count.txt; cat count.txt", "counted")) == "counted"
    (session,) = (await desk.api("GET", "/api/sessions")).json()["data"]
    shown = (await desk.api("GET", f"/api/sessions/{session['id']}/messages")).text
    assert "echo once" in shown and "[exit code 0]" in shown
    first, second = await desk.asked()

    (running,) = desk.runner.sessions.values()
    await running.agent.kill()
    assert await desk.say(runs("cat count.txt", "read")) == "read"
    shown = (await desk.api("GET", f"/api/sessions/{session['id']}/messages")).text
    assert "once\\nonce" not in shown
    third, _ = (await desk.asked())[2:]
    assert second[: len(first)] == first and third[: len(second)] == second
