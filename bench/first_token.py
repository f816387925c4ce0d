"""From the model's first piece inside the agent to the subject that clients listen on: what streaming adds.

A real nats-server; each sample is one turn's first text, from the moment the model's stream yields it to the moment a
subscriber has the delta. Prints one JSON line.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path

from nats.aio.msg import Msg

from bench.report import emit
from hermes_agent.model.collect import collect
from hermes_agent.testing.model import ScriptedModel, say
from hermes_agent.transport.deltas import BusDeltas
from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Permissions, agent_permissions
from hermes_service import bus
from hermes_service.bus_keys import BusKeys
from tests.integration.agent.agent_world import NatsServer
from tests.unit.agent.agent_scene import SID

SAMPLES = int(os.environ.get("SAMPLES", "300"))
EVERYTHING = Permissions(publish=(">",), subscribe=(">",), inbox="_INBOX.bench")


class Clocked(ScriptedModel):
    """Notes when it yields its first piece."""

    def __init__(self) -> None:
        super().__init__(lambda _: say("x"))
        self.at = 0.0

    async def stream(self, call: object):  # type: ignore[no-untyped-def, override]
        del call
        for piece in say("Hello."):
            self.at = self.at or time.perf_counter()
            yield piece


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        keys = BusKeys.generate()
        nats = NatsServer(Path(folder), keys.server_config())
        await nats.start()
        agent = agent_permissions(SID, 1)
        sending = await bus.connect(nats.url, keys.user("a", agent), name="a", inbox=agent.inbox)
        hearing = await bus.connect(nats.url, keys.user("x", EVERYTHING), name="x", inbox=EVERYTHING.inbox)
        heard = asyncio.Event()
        arrived = 0.0

        async def hear(_: Msg) -> None:
            nonlocal arrived
            arrived = time.perf_counter()
            heard.set()

        await hearing.subscribe(subjects.delta(SID, 1), cb=hear)
        await hearing.flush()
        deltas = BusDeltas(sending, SID, 1)
        pump = asyncio.create_task(deltas.pump())
        samples = []
        for number in range(SAMPLES):
            deltas.begin(f"t{number}", 1)
            model = Clocked()
            await collect(model.stream(None), lambda kind, text: deltas.emit("text", text=text) if kind == "text" else None)
            await heard.wait()
            heard.clear()
            samples.append((arrived - model.at) * 1000)
        emit("first_token", samples, load=round(os.getloadavg()[0], 1))
        pump.cancel()
        await sending.close()
        await hearing.close()
        await nats.stop()


if __name__ == "__main__":
    asyncio.run(main())
