"""What docs/api.md and docs/webhooks.md show can be copied and works."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from tests.integration.gateway.test_openai_client import PNG
from tests.integration.gateway.world import ALICE, WEBHOOK_SECRET, World

DOCS = Path(__file__).resolve().parents[3] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def adapted(world: World, text: str) -> str:
    """Point an example at this installation: its ports, its key, its Profile."""
    for shown, real in (
        ("http://localhost:8642", world.api),
        ("http://localhost:8644", world.webhooks),
        ("<key>", ALICE),
        ('"default"', '"helper"'),
    ):
        text = text.replace(shown, real)
    return text.replace("curl ", "curl --fail-with-body --silent --show-error ")


async def run(world: World, *command: str, **variables: str) -> str:
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "KEY": ALICE, "SECRET": WEBHOOK_SECRET, **variables}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=world.folder, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, output.decode()
    return output.decode()


async def test_the_examples_with_openais_client(world: World) -> None:
    first, more = blocks("api.md", "python")
    output = await run(world, sys.executable, "-c", adapted(world, first + more))
    assert output.splitlines()[:2] == ["You said: What is in my workspace?"] * 2
    assert output.endswith("You said: List it.")


async def test_the_examples_with_curl(world: World) -> None:
    (world.folder / "cat.png").write_bytes(PNG)
    async with world.http() as http:
        made = (await http.post("/api/sessions", json={"profile": "helper"})).json()
    examples = blocks("api.md", "sh")
    assert len(examples) == 2
    outputs = [await run(world, "bash", "-euc", adapted(world, example), ID=made["id"]) for example in examples]
    assert "You said: What is this?" in outputs[0]
    assert [asked.kind for asked in world.script.asked] == ["steer", "compress"]


async def test_the_webhook_example(world: World) -> None:
    (example,) = blocks("webhooks.md", "sh")
    output = await run(world, "bash", "-euc", adapted(world, example))
    assert '"accepted":true' in output
    assert world.script.inbound[0].text == "disk is full"
