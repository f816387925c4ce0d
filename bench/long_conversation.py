"""A conversation of 2,000 messages: how long a new process needs to load it, and what a turn costs in it.

`load` goes over a real nats-server in pages, with the store's subjects served from memory in a process of its own.
`turn` is one message and its answer with everything else in memory: the agent's own share, in a conversation of 2 and of
MESSAGES messages, the bytes of the request included. Prints one JSON line each.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from pathlib import Path

from bench.report import emit, percentile
from hermes_agent.loop.limits import Limits
from hermes_agent.loop.load import load_transcript
from hermes_agent.loop.ports import Store
from hermes_agent.loop.run import TurnRunner
from hermes_agent.loop.turn import TurnLoop
from hermes_agent.stop import StopSignal
from hermes_agent.testing.model import ScriptedModel, say
from hermes_agent.testing.sandbox import FakeSandbox
from hermes_agent.testing.store import FakeStore
from hermes_agent.tools.executor import Toolbox
from hermes_agent.tools.registry import tools_of
from hermes_contracts.conversation import Message, Role, TextPart, ToolCallPart, ToolResultPart
from hermes_contracts.store_api import OPEN_TURN, LoadReply, LoadRequest, OpenTurnRequest, StoredMessage
from hermes_service.rpc import agent_store_client
from tests.unit.agent.agent_scene import CONFIG, CONVERSATION, SID, Deltas, inbound

MESSAGES = int(os.environ.get("MESSAGES", "2000"))
SAMPLES = int(os.environ.get("SAMPLES", "15"))
PAGE_BYTES = 384 * 1024


def conversation(count: int) -> list[StoredMessage]:
    """Return questions, tool rounds and answers of common sizes."""
    rng = random.Random(1)
    words = [f"word{n}" for n in range(500)]

    def text(length: int) -> str:
        return " ".join(rng.choice(words) for _ in range(length))

    rows: list[Message] = []
    while len(rows) < count:
        number = len(rows)
        called = ToolCallPart(id=f"c{number}", name="terminal", arguments=f'{{"command": "{text(8)}"}}')
        result = ToolResultPart(call_id=f"c{number}", name="terminal", text=text(120))
        rows += [
            Message.user(text(30)),
            Message(role=Role.ASSISTANT, parts=(TextPart(text=text(12)), called)),
            Message(role=Role.TOOL, parts=(result,)),
            Message.assistant(text(60)),
        ]
    return [StoredMessage(sequence=n + 1, turn_id="t0", step=n, message=message) for n, message in enumerate(rows[:count])]


class PagedStore(FakeStore):
    """Cuts pages by bytes, as the real store does."""

    def _load(self, _: int, request: LoadRequest) -> LoadReply:
        rows = self.messages.get(request.conversation, [])
        page: list[StoredMessage] = []
        size = 0
        for row in rows[request.after :][: request.limit]:
            size += len(row.model_dump_json())
            if page and size > PAGE_BYTES:
                break
            page.append(row)
        return LoadReply(
            prompt=self.prompts.get(request.conversation),
            messages=tuple(page),
            more=request.after + len(page) < len(rows),
        )


async def loads(store: PagedStore) -> None:
    from hermes_contracts.bus_permissions import Role as BusRole, agent_permissions, service_permissions
    from hermes_service import bus
    from hermes_service.bus_keys import BusKeys
    from hermes_service.rpc import Caller, RpcServer
    from tests.integration.agent.agent_world import NatsServer

    with tempfile.TemporaryDirectory() as folder:
        keys = BusKeys.generate()
        nats = NatsServer(Path(folder), keys.server_config())
        await nats.start()
        service, agent = service_permissions(BusRole.STORE), agent_permissions(SID, 1)
        serving = await bus.connect(nats.url, keys.user("s", service), name="s", inbox=service.inbox)
        asking = await bus.connect(nats.url, keys.user("a", agent), name="a", inbox=agent.inbox)
        spent: list[float] = []

        async def handle(caller: Caller, request: object) -> object:
            before = time.process_time()
            reply = store.handle(caller.epoch, "load", request)  # type: ignore[arg-type]
            spent.append(time.process_time() - before)
            return reply

        await RpcServer(serving, {"load": handle}).start("store")  # type: ignore[dict-item]
        await serving.flush()
        client, wall, cpu = agent_store_client(asking, SID, 1), [], []
        for _ in range(SAMPLES):
            started, burned = time.perf_counter(), time.process_time()
            transcript = await load_transcript(client, CONVERSATION)
            wall.append((time.perf_counter() - started) * 1000)
            cpu.append((time.process_time() - burned) * 1000)
        load = round(os.getloadavg()[0], 1)
        emit(
            "long_conversation.load", wall, cpu_p50_ms=round(percentile(cpu, 0.5), 1), messages=len(transcript.messages),
            bytes=transcript.size_bytes, load=load,
        )  # fmt: skip
        await asking.close()
        await serving.close()
        await nats.stop()


async def turns(store: Store, model: ScriptedModel, name: str, count: int) -> None:
    tools, limits = tools_of(CONFIG.toolsets), Limits()
    loop = TurnLoop(store, model, Toolbox(tools, FakeSandbox()), limits, Deltas(), random.Random(1))
    runner = TurnRunner(CONFIG, store, loop, tools, limits)
    wall, cpu = [], []
    for number in range(SAMPLES * 4):
        message = inbound(f"{name}{number}")
        started, burned = time.perf_counter(), time.process_time()
        request = OpenTurnRequest(inbound=message, first=runner.opening(message), ack_subject="$JS.ACK.x", stream_sequence=1)
        opened = await store.call(OPEN_TURN, request)
        await runner.run(message, opened, StopSignal())
        if number:
            wall.append((time.perf_counter() - started) * 1000)
            cpu.append((time.process_time() - burned) * 1000)
    load = round(os.getloadavg()[0], 1)
    emit(f"long_conversation.turn_{name}", wall, cpu_p50_ms=round(percentile(cpu, 0.5), 2), messages=count, load=load)


class Light(ScriptedModel):
    """Takes the request's bytes and does not read them: the cost of a model is not the agent's."""

    async def stream(self, call: object):  # type: ignore[no-untyped-def, override]
        call.body()  # type: ignore[attr-defined]
        for piece in say("done"):
            yield piece


async def main() -> None:
    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    store = PagedStore()
    store.messages[CONVERSATION] = conversation(MESSAGES)
    await loads(store)
    for name, count in (("short", 2), ("long", MESSAGES)):
        kept = FakeStore()
        kept.messages[CONVERSATION] = conversation(count)
        await turns(kept.client(1), Light(), name, count)


if __name__ == "__main__":
    asyncio.run(main())
