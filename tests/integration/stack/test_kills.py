"""Kill anything, again and again, while people talk: every message is answered once, in order, and no command runs twice.

Each session sends numbered messages; each has the agent append its number to a file. A killer, driven by a printed seed,
kills processes in turn. From outside it is then checked what was promised.
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

SESSIONS, MESSAGES, KILLS_EACH = 3, 14, 3
VICTIMS = ("store", "models", "gateway", "nats", "postgres", "agent", "sandbox")


def _message(number: int) -> str:
    call = {"calls": [{"name": "terminal", "arguments": {"command": f"echo {number} >> effects"}}]}
    return "\n".join(["go", f"#script {json.dumps(call)}", f"#script {json.dumps({'say': f'answer {number}'})}"])


async def _talk(world: Any, session: str) -> list[str]:
    return [await world.say(session, _message(n), key=f"{session}-{n}") for n in range(MESSAGES)]


async def _kill(world: Any, victim: str, dice: random.Random) -> None:
    if victim in ("agent", "sandbox"):
        session = dice.choice(list(world.runner.sessions.values()))
        await getattr(session, victim).kill()
        if victim == "sandbox":
            await session.sandbox.start()
    else:
        await world.stack.restart(victim)


async def _kill_in_turn(world: Any, dice: random.Random) -> list[str]:
    order = [victim for victim in VICTIMS for _ in range(KILLS_EACH)]
    dice.shuffle(order)
    for victim in order:
        await asyncio.sleep(dice.uniform(0.05, 0.6))
        await _kill(world, victim, dice)
    return order


async def test_nothing_is_lost_doubled_or_reordered(world: Any) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    names = [f"load-{n}" for n in range(SESSIONS)]
    for name in names:
        await world.say(name, "hello")
    async with asyncio.TaskGroup() as group:
        killer = group.create_task(_kill_in_turn(world, random.Random(seed)))
        talks = {name: group.create_task(_talk(world, name)) for name in names}
    print("killed:", ", ".join(killer.result()))
    for name, talk in talks.items():
        assert talk.result() == [f"answer {n}" for n in range(MESSAGES)], "every message was answered, once, in order"
        await _check(world, name)


async def _check(world: Any, name: str) -> None:
    transcript = await world.transcript(name)
    said = [part["text"] for m in transcript if m["role"] == "assistant" for part in m["parts"] if part["type"] == "text"]
    assert said[1:] == [f"answer {n}" for n in range(MESSAGES)], "one answer a message in the transcript, after the greeting"
    effects = [int(n) for n in (await world.workspace(name) / "effects").read_text().split()]
    assert len(effects) == len(set(effects)), f"a command ran twice: {effects}"
    assert effects == sorted(effects), "in order"
    interrupted = json.dumps(transcript).count("nterrupted")
    assert len(effects) + interrupted >= MESSAGES, "a command that did not run was reported as interrupted"
