"""Compaction in the real process: over the bus, through a kill at the worst moment, and by hand."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from hermes_agent.compression.sizes import text_tokens, transcript_tokens
from hermes_agent.compression.summary import MARK
from hermes_agent.testing.model import Piece, Reply, call, say
from hermes_contracts.conversation import Role, ToolResultPart, Usage
from hermes_contracts.model_api import Finish, ModelRequest, Purpose
from tests.integration.agent.agent_world import CONVERSATION, World, until

ROOT = Path(__file__).parents[3]
WINDOW = 8_000
ROUNDS = 24


def counted(request: ModelRequest, pieces: Reply) -> Reply:
    """Let a script's answer say what a provider would have counted."""
    size = text_tokens(request.system) + transcript_tokens(request.messages)
    size += sum(text_tokens(tool.model_dump_json()) for tool in request.tools)
    assert size <= WINDOW, "the agent sent more than the model can read"

    def mark(piece: Piece) -> Piece:
        if not isinstance(piece, Finish):
            return piece
        usage = Usage(input_tokens=size, output_tokens=50, model_calls=1)
        return piece.model_copy(update={"usage": usage, "context_window": WINDOW})

    return [mark(piece) for piece in pieces]


class Script:
    """Asks for one command after the other until the person's goal is reached, going by what it can still read."""

    def __init__(self) -> None:
        self.asked = 0
        self.summaries = 0

    def __call__(self, request: ModelRequest) -> Reply:
        if request.purpose is Purpose.COMPRESSION:
            self.summaries += 1
            return counted(request, say(f"### Goal\nCount to {ROUNDS}.\n### Done\nSee the record."))
        if self.asked >= ROUNDS:
            return counted(request, say("Counted."))
        self.asked += 1
        arguments = json.dumps({"command": f"echo {self.asked} >> count.txt; printf %1200s ."})
        return counted(request, call((f"n{self.asked}", "terminal", arguments)))


@pytest.fixture
async def workspace(world: World) -> AsyncIterator[Path]:
    """Start a real sandboxd where the agent looks for it."""
    folder = world.folder / "workspace"
    folder.mkdir()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(ROOT / "sandbox_image"),
        "--socket", str(world.folder / "exec.sock"), "--workspace", str(folder),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    yield folder
    process.terminate()
    await process.wait()


async def test_a_kill_right_after_the_compaction_repeats_no_effect_and_compacts_no_second_time(
    world: World, workspace: Path
) -> None:
    script = Script()
    world.model._script = script
    settings = {"max_iterations": 60, "workspace_path": str(workspace)}
    agent = await world.start_agent(**settings)
    kept = world.store.conversation(CONVERSATION)
    handle = world.store.handle

    def handle_and_kill(epoch: int, name: str, request: BaseModel) -> BaseModel:
        reply = handle(epoch, name, request)
        if name == "compact" and epoch == 1:
            agent.kill()
        return reply

    world.store.handle = handle_and_kill  # type: ignore[method-assign]
    update = await world.send(f"Please count to {ROUNDS}.")
    await until(lambda: len(kept.compactions) == 1 and agent.process.returncode is not None, "it was killed", 30)
    assert 0 < script.asked < ROUNDS
    await world.raise_epoch(2)
    await world.start_agent(2, **settings)
    await until(lambda: world.settled(update), "the second life ends the turn", 60)
    assert (workspace / "count.txt").read_text().split() == [str(n) for n in range(1, ROUNDS + 1)], "each once, in order"
    calls = [c.id for m in world.store.transcript(CONVERSATION) for c in m.tool_calls()]
    assert calls == [f"n{n}" for n in range(1, ROUNDS + 1)], "the person's transcript is whole"
    results = [p for m in world.store.transcript(CONVERSATION) for p in m.parts if isinstance(p, ToolResultPart)]
    assert len(results) == ROUNDS and not any("Interrupted" in result.text for result in results)
    first = next(r for r in world.model.requests if r.messages[0].text().startswith(MARK))
    assert f"Please count to {ROUNDS}." in first.messages[0].text() and first.messages[0].role is Role.USER
    assert len(kept.compactions) == script.summaries, "no summary was paid for twice"
    assert world.denied() == []


async def test_a_person_compacts_by_hand_and_hears_the_numbers(world: World) -> None:
    world.model._script = lambda request: counted(request, say("word " * 300))
    await world.start_agent(compression={"threshold_percent": 95})
    for _ in range(6):
        update = await world.send("more " * 200)
        await until(lambda update=update: world.settled(update), "it is answered")  # type: ignore[misc]
    world.store.put_compress("c1", "everything about words", CONVERSATION)
    await world.hint()
    await until(lambda: "c1" in world.store.results, "the command is done")
    done = world.store.conversation(CONVERSATION).compactions[0]
    assert world.store.results["c1"] == (
        f"Compacted this conversation from {done.tokens_before:,} to {done.tokens_after:,} tokens."
    )
    side = [r for r in world.model.requests if r.purpose is Purpose.COMPRESSION]
    assert len(side) == 1 and "everything about words" in side[0].messages[0].text() and side[0].tools == ()
    update = await world.send("still there?")
    await until(lambda: world.settled(update), "the conversation goes on")
    assert any(m.text().startswith(MARK) for m in world.model.requests[-1].messages)
    assert world.denied() == []
