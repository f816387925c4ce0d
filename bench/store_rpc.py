"""What an agent waits for the store: turns of one tool round, over the bus, synced to disk, and a long conversation's load.

Starts its own PostgreSQL, nats-server and store. Run: `PYTHONPATH=libs:gateway_image:. python bench/store_rpc.py [turns]`.
Prints one JSON line; times are milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import sys
import time
from collections.abc import Awaitable
from pathlib import Path

from nats.aio.msg import Msg
from psycopg import AsyncConnection

from hermes_contracts.bus_permissions import Role
from hermes_contracts.conversation import Message, Role as Speaker, ToolCallPart, ToolResultPart, Usage
from hermes_contracts.store_api import (
    APPEND,
    COMMIT,
    LOAD,
    OPEN_TURN,
    SUMMARIES,
    AppendRequest,
    CommitRequest,
    JournalEntry,
    LoadRequest,
    OpenTurnRequest,
    SessionIdsRequest,
)  # fmt: skip
from tests.integration.store.harness import World, awake, new_session, running_servers

TEXT = "The build failed because a test expected four and got five. " * 32
USAGE = Usage(input_tokens=1200, output_tokens=80, model_calls=1)
CALL = Message(role=Speaker.ASSISTANT, parts=(ToolCallPart(id="call", name="terminal", arguments='{"command":"make"}'),))
RESULT = Message(role=Speaker.TOOL, parts=(ToolResultPart(call_id="call", name="terminal", text=TEXT),))
LONG = 2000
"""Messages of the conversation that is loaded."""
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
            inbound=session.inbound(f"u{number}"),
            first=Message.user("hello"),
            ack_subject=f"$JS.ACK.{number}",
            stream_sequence=number,
        )
        opened = await timed(into, "open_turn", agent.call(OPEN_TURN, request))
        turn_id = opened.turn_id  # type: ignore[attr-defined]
        for step, said, state in ((1, CALL, "started"), (2, RESULT, "finished")):
            append = AppendRequest(
                turn_id=turn_id,
                step=step,
                messages=(said,),
                journal=(JournalEntry(call_id="call", tool="terminal", state=state),),
                usage=USAGE,
                context_tokens=1280,
            )
            await timed(into, "append", agent.call(APPEND, append))
        commit = CommitRequest(
            turn_id=turn_id,
            step=3,
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


async def measure_load(world: World, rounds: int) -> list[float]:
    """Time a whole conversation of `LONG` messages, all its pages."""
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    bodies = [message.model_dump_json() for message in (Message.user("hello"), CALL, RESULT, Message.assistant("done"))]
    world.rows_change(
        "insert into messages (sid, sequence, cid, turn_id, step, body) "
        "select %s, n, %s, 't', n, (%s::text[])[1 + n %% 4] from generate_series(1, %s) n",
        session.sid, session.conversation, bodies, LONG,
    )  # fmt: skip
    samples: dict[str, list[float]] = {}

    async def load() -> None:
        after, more = 0, True
        while more:
            page = await agent.call(LOAD, LoadRequest(conversation=session.conversation, after=after, limit=1000))
            after, more = page.messages[-1].sequence, page.more
        assert after == LONG

    for _ in range(rounds):
        await timed(samples, "load", load())
    await world.close_clients()
    return samples["load"]


def cpu_seconds(parent: int) -> float:
    """Return what a process and its children have used of the CPUs."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if parent in (int(stat.parent.name), int(fields[1])):
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


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
            started = {"store": store.process, "postgres": world.postgres.process, "nats": world.nats.process}
            processes = {name: process.pid for name, process in started.items() if process is not None}
            before = {name: cpu_seconds(pid) for name, pid in processes.items()}
            samples = asyncio.run(measure(world, turns))
            used = {name: cpu_seconds(pid) - before[name] for name, pid in processes.items()}
            samples[f"load_{LONG}_messages"] = asyncio.run(measure_load(world, 20))
        finally:
            store.terminate()
    result = {
        "bench": "store_rpc",
        "samples": turns,
        "milliseconds": {name: describe(values) for name, values in samples.items()},
        "cpu_milliseconds_a_turn": {
            name: round(seconds * 1000 / (turns + WARM_UP_TURNS), 2) for name, seconds in used.items()
        },
        "floor": {name: describe(values) for name, values in floor.items()},
        "machine": {"cpus": os.cpu_count(), "platform": platform.platform(), "load": os.getloadavg()[0]},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
