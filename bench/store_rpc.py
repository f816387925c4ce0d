"""What an agent waits for the store: open_turn, append and commit over the bus, synced to disk, one turn after the other.

Starts its own PostgreSQL, nats-server and store. Run: `PYTHONPATH=libs:gateway_image:. python bench/store_rpc.py [turns]`.
Prints one JSON line; times are milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
import time
from collections.abc import Awaitable

from nats.aio.msg import Msg
from psycopg import AsyncConnection

from hermes_contracts.bus_permissions import Role
from hermes_contracts.conversation import Message, Usage
from hermes_contracts.store_api import (
    APPEND,
    COMMIT,
    OPEN_TURN,
    SUMMARIES,
    AppendRequest,
    CommitRequest,
    JournalEntry,
    OpenTurnRequest,
    SessionIdsRequest,
)  # fmt: skip
from tests.integration.store.harness import World, awake, new_session, running_servers

TEXT = "The build failed because a test expected four and got five. " * 32
USAGE = Usage(input_tokens=1200, output_tokens=80, model_calls=1)
WARM_UP_TURNS = 20
PAUSE_SECONDS = 0.005
"""Between calls an agent asks a model or runs a tool; without a pause a call would wait for the relay of the one before."""


async def timed(samples: dict[str, list[float]], name: str, call: Awaitable[object]) -> object:
    started = time.perf_counter()
    reply = await call
    samples.setdefault(name, []).append((time.perf_counter() - started) * 1000)
    await asyncio.sleep(PAUSE_SECONDS)
    return reply


async def measure_floor(world: World, rounds: int) -> dict[str, list[float]]:
    """Time what cannot be avoided: a request and its reply on the bus, and one synced update of one row."""
    samples: dict[str, list[float]] = {}
    caller, responder = await world.witness(), await world.witness()

    async def echo(message: Msg) -> None:
        await responder.publish(message.reply, message.data)

    await responder.subscribe("hermes.echo", cb=echo)
    await responder.flush()
    update = "update hermes.floor set at = now()"
    async with await AsyncConnection.connect(world.postgres.admin(world.database), autocommit=True) as connection:
        await connection.execute("create table hermes.floor as select now() as at")
        for _ in range(rounds):
            await timed(samples, "bus_echo", caller.request("hermes.echo", TEXT.encode(), timeout=5))
            await timed(samples, "synced_update", connection.execute(update, prepare=True))
    await world.close_clients()
    return samples


async def measure(world: World, turns: int) -> dict[str, list[float]]:
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    operator = await world.service(Role.OPERATOR)
    samples: dict[str, list[float]] = {}
    for number in range(turns + WARM_UP_TURNS):
        into = samples if number >= WARM_UP_TURNS else {}
        request = OpenTurnRequest(
            inbound=session.inbound(f"u{number}"), ack_subject=f"$JS.ACK.{number}", stream_sequence=number
        )
        opened = await timed(into, "open_turn", agent.call(OPEN_TURN, request))
        turn_id = opened.turn_id  # type: ignore[attr-defined]
        append = AppendRequest(
            turn_id=turn_id,
            step=0,
            messages=(Message.user("hello"), Message.assistant(TEXT)),
            journal=(JournalEntry(call_id="call", tool="terminal", state="started"),),
            usage=USAGE,
        )
        await timed(into, "append", agent.call(APPEND, append))
        commit = CommitRequest(
            turn_id=turn_id,
            step=1,
            messages=(Message.assistant(TEXT),),
            outcome="done",
            reply=TEXT,
            reason="stop",
            usage=USAGE,
        )
        await timed(into, "commit", agent.call(COMMIT, commit))
        await timed(into, "summaries", operator.call(SUMMARIES, SessionIdsRequest(sids=(session.sid,))))
    await world.close_clients()
    return samples


def describe(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    at = {f"p{part}": ordered[min(len(ordered) - 1, len(ordered) * part // 100)] for part in (50, 95, 99)}
    return {name: round(value, 3) for name, value in at.items()}


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with running_servers() as world:
        world.new_database()
        store = world.store()
        store.start()
        try:
            floor = asyncio.run(measure_floor(world, turns))
            samples = asyncio.run(measure(world, turns))
        finally:
            store.terminate()
    result = {
        "bench": "store_rpc",
        "samples": turns,
        "milliseconds": {name: describe(values) for name, values in samples.items()},
        "floor": {name: describe(values) for name, values in floor.items()},
        "machine": {"cpus": os.cpu_count(), "platform": platform.platform(), "load": os.getloadavg()[0]},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
