"""A picture for a Profile whose model takes none, through every process: described once, and the words stay after a kill."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio

from hermes_contracts.crd.profile import ProfileSpec
from local_stack.runner import LocalRunner
from local_stack.stack import LocalProfile, Stack, running_stack, stack_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
SPEC = {
    "model": {
        "provider": "scripted",
        "name": "blind",
        "facts": {"vision": False},
        "auxiliary": {"vision": {"provider": "scripted", "name": "eye"}},
    }
}


@dataclass
class Room:
    """Somebody who shows pictures."""

    stack: Stack
    runner: LocalRunner

    async def say(self, text: str, *pictures: bytes) -> str:
        urls = [f"data:image/png;base64,{base64.b64encode(picture).decode()}" for picture in pictures]
        parts = [{"type": "text", "text": text}, *({"type": "image_url", "image_url": {"url": url}} for url in urls)]
        headers = {"Authorization": f"Bearer {self.stack.api_key}", "X-Hermes-Session-Id": "gallery"}
        body = {"model": "default", "messages": [{"role": "user", "content": parts}]}
        async with httpx.AsyncClient(base_url=self.stack.api_url, timeout=100) as client:
            response = await client.post("/v1/chat/completions", json=body, headers=headers)
        assert response.status_code == 200, response.text
        return str(response.json()["choices"][0]["message"]["content"])

    async def asked(self, model: str) -> list[list[str]]:
        """Return the requests that a model got, each as hashes of its ever longer beginnings."""
        async with httpx.AsyncClient(base_url=self.stack.scripted_url) as client:
            seen = (await client.get("/requests")).json()["requests"]
        return [one["prefix"] for one in seen if one["model"] == model]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def room() -> AsyncIterator[Room]:
    profile = LocalProfile(spec=ProfileSpec.model_validate(SPEC))
    with stack_folder() as folder:
        async with running_stack(folder, (profile,)) as stack:
            runner = LocalRunner(stack)
            task = asyncio.create_task(runner.run())
            try:
                yield Room(stack, runner)
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def test_a_picture_is_described_once_and_the_words_outlive_the_agent_and_the_models_service(room: Room) -> None:
    reply = await room.say("what is it?", PNG)
    assert "Another model describes it so" in reply, "the scripted model repeats what it was told"
    assert len(await room.asked("eye")) == 1
    (first,) = await room.asked("blind")

    (session,) = room.runner.sessions.values()
    await session.agent.kill()
    await room.stack.restart("models")
    assert "Another model describes it so" in await room.say("and this one?", PNG)
    assert len(await room.asked("eye")) == 1, "the same picture"
    _, second = await room.asked("blind")
    assert second[: len(first)] == first
