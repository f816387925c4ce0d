"""OpenAI's own client for Node, unmodified: chat and responses, streams, tools, errors, time-outs, and leaving early."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.gateway.world import ALICE, World, until

SOURCE = Path(__file__).parent / "node_client"
CACHE = Path(__file__).resolve().parents[3] / ".local" / "clients"
_TEXT = "You said: hello"


@pytest.fixture(scope="module")
def client() -> Path:
    """Install the client by its lock file, once. Without Node this fails: the promise is tested or it is none."""
    lock = (SOURCE / "package-lock.json").read_bytes()
    folder = CACHE / f"node-{hashlib.sha256(lock).hexdigest()[:16]}"
    if not (folder / "installed").exists():
        npm = shutil.which("npm")
        assert npm is not None, "these tests need Node 20 or later with npm"
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(SOURCE / name, folder)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=folder, check=True, timeout=300, capture_output=True)
        (folder / "installed").touch()
    return folder


async def tell(world: World, client: Path, story: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        "node", str(SOURCE / "story.mjs"), story, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "CLIENT": str(client), "BASE_URL": f"{world.api}/v1", "API_KEY": ALICE},
    )  # fmt: skip
    output, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, errors.decode()
    return json.loads(output)


async def test_chat(world: World, client: Path) -> None:
    assert await tell(world, client, "chat") == {"text": _TEXT, "usage": 15, "models": ["helper", "sleepy"]}


async def test_a_streamed_chat(world: World, client: Path) -> None:
    told = await tell(world, client, "chatStream")
    assert told == {"text": _TEXT, "finish": "stop", "usage": 15, "many": True}


async def test_tools_are_the_agents(world: World, client: Path) -> None:
    told = await tell(world, client, "chatTools")
    assert (told["text"], told["tools"]) == ("I look.\n\nIt is there.", ["started", "finished"])
    assert (told["refused"]["name"], told["refused"]["param"]) == ("BadRequestError", "tools")


async def test_responses(world: World, client: Path) -> None:
    told = await tell(world, client, "responses")
    assert (told["text"], told["more"], told["status"]) == (_TEXT, "You said: more", "completed")
    assert told["again"] == {"ticket": "7"}
    assert (told["gone"]["name"], told["gone"]["status"]) == ("NotFoundError", 404)


async def test_a_streamed_response(world: World, client: Path) -> None:
    told = await tell(world, client, "responsesStream")
    assert told == {
        "first": "response.created", "last": "response.completed", "text": _TEXT, "helper": "It is there.",
    }  # fmt: skip


async def test_errors_have_their_names(world: World, client: Path) -> None:
    told = await tell(world, client, "errors")
    shown = {name: (error["name"], error["status"], error["code"]) for name, error in told.items()}
    assert shown == {
        "missing": ("NotFoundError", 404, "model_not_found"),
        "stranger": ("AuthenticationError", 401, "invalid_api_key"),
        "empty": ("BadRequestError", 400, "unsupported_value"),
        "sleepy": ("InternalServerError", 503, "model_not_ready"),
    }
    assert "Secret openai not found" in told["sleepy"]["message"]


async def test_time_outs_on_either_side(world: World, client: Path) -> None:
    told = await tell(world, client, "timeouts")
    assert told["ours"]["name"] == "APIConnectionTimeoutError"
    assert (told["theirs"]["status"], told["theirs"]["code"]) == (504, "answer_timeout")
    assert "/v1/responses/resp_" in told["theirs"]["message"]


async def test_leaving_a_stream_early_leaves_the_turn_alone(world: World, client: Path) -> None:
    told = await tell(world, client, "abort")
    assert told["chunks"] == 2
    assert told["text"] == "1 2 "
    world.script.released.set()
    (inbound,) = world.script.inbound
    identity = (inbound.sid, inbound.channel, inbound.account, inbound.update_id)
    await until(lambda: world.script.turns[identity].state == "done")
