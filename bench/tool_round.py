"""One tool round inside the agent: model call, shell command in a real sandboxd, two appends.

`own` uses a store and a sandbox in memory: what is left is the agent's Python. `round` has the real sandboxd, and a real
nats-server with the store's subjects served from memory. Times are from one request of the model to the next.
Prints one JSON line each.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from bench.report import emit, percentile
from hermes_agent.loop.limits import GuardrailLimits, Limits
from hermes_agent.loop.outcome import Outcome
from hermes_agent.loop.ports import Store
from hermes_agent.loop.run import TurnRunner
from hermes_agent.loop.turn import TurnLoop
from hermes_agent.stop import StopSignal
from hermes_agent.testing.model import Reply, ScriptedModel, call, say
from hermes_agent.testing.sandbox import FakeSandbox
from hermes_agent.testing.store import FakeStore
from hermes_agent.tools.executor import Toolbox
from hermes_agent.tools.registry import tools_of
from hermes_agent.tools.sandbox_adapter import SandboxAdapter
from hermes_agent.tools.sandbox_port import SandboxPort
from hermes_contracts.model_api import ModelRequest
from hermes_contracts.store_api import OPEN_TURN, OpenTurnRequest
from hermes_service.rpc import agent_store_client
from tests.unit.agent.agent_scene import CONFIG, SID, Deltas, inbound

ROUNDS = int(os.environ.get("ROUNDS", "300"))
ROOT = Path(__file__).parents[1]


class Stopwatch(ScriptedModel):
    """Notes when each request comes."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.asked: list[float] = []
        self.cpu: list[float] = []

    def _answer(self, _: ModelRequest | None) -> Reply:
        self.asked.append(time.perf_counter())
        self.cpu.append(time.process_time())
        count = len(self.asked)
        return say("done") if count > ROUNDS else call((f"c{count}", "terminal", '{"command": "echo true"}'))


async def turn(store: Store, sandbox: SandboxPort, model: ScriptedModel) -> Outcome:
    tools = tools_of(CONFIG.toolsets)
    limits = Limits(max_iterations=2 * ROUNDS, guardrails=GuardrailLimits(repeat_notice=10**9))
    loop = TurnLoop(store, model, Toolbox(tools, sandbox), limits, Deltas(), random.Random(1))
    runner = TurnRunner(CONFIG, store, loop, tools, limits)
    first = runner.opening(inbound())
    request = OpenTurnRequest(inbound=inbound(), first=first, ack_subject="$JS.ACK.x", stream_sequence=1)
    opened = await store.call(OPEN_TURN, request)
    return await runner.run(inbound(), opened, StopSignal())


def report(name: str, model: Stopwatch) -> None:
    rounds = [(b - a) * 1000 for a, b in pairwise(model.asked)]
    cpu = [(b - a) * 1000 for a, b in pairwise(model.cpu)]
    emit(f"tool_round.{name}", rounds, cpu_p50_ms=round(percentile(cpu, 0.5), 2), load=round(os.getloadavg()[0], 1))


class Light(Stopwatch):
    """Does not read what it is asked: the cost of a model is not the agent's."""

    async def stream(self, call: object):  # type: ignore[no-untyped-def, override]
        call.body()  # type: ignore[attr-defined]
        for piece in self._answer(None):
            yield piece


async def own() -> None:
    model = Light()
    await turn(FakeStore().client(1), FakeSandbox(), model)
    report("own", model)


async def whole() -> None:
    from nats.aio.client import Client

    from hermes_contracts.bus_permissions import Role, agent_permissions, service_permissions
    from hermes_service import bus
    from hermes_service.bus_keys import BusKeys
    from hermes_service.rpc import Caller, RpcServer
    from tests.integration.agent.agent_world import AGENT_STORE_METHODS, NatsServer

    with tempfile.TemporaryDirectory() as folder:
        keys = BusKeys.generate()
        nats = NatsServer(Path(folder), keys.server_config())
        await nats.start()
        workspace, socket = Path(folder) / "workspace", Path(folder) / "exec.sock"
        workspace.mkdir()
        daemon = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(ROOT / "sandbox_image"),
            "--socket", str(socket), "--workspace", str(workspace),
        )  # fmt: skip
        store, sandbox, clients = FakeStore(), SandboxAdapter(str(socket)), list[Client]()
        try:
            service, agent = service_permissions(Role.STORE), agent_permissions(SID, 1)
            clients.append(await bus.connect(nats.url, keys.user("s", service), name="s", inbox=service.inbox))
            clients.append(await bus.connect(nats.url, keys.user("a", agent), name="a", inbox=agent.inbox))

            async def handle(name: str, caller: Caller, request: object) -> object:
                return store.handle(caller.epoch, name, request)  # type: ignore[arg-type]

            handlers = {name: (lambda c, r, n=name: handle(n, c, r)) for name in AGENT_STORE_METHODS}
            await RpcServer(clients[0], handlers).start("store")  # type: ignore[arg-type]
            await clients[0].flush()
            model = Light()
            await turn(agent_store_client(clients[1], SID, 1), sandbox, model)
            report("round", model)
        finally:
            await sandbox.close()
            for client in clients:
                await client.close()
            await nats.stop()
            daemon.terminate()
            await daemon.wait()


async def main() -> None:
    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    await own()
    await whole()


if __name__ == "__main__":
    asyncio.run(main())
