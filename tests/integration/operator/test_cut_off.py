"""The API server or the bus goes away and comes back, a watch falls silent: nothing is doubled, nothing is forgotten."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator

import pytest

from hermes_contracts.bus_permissions import Role
from hermes_contracts.names import session_object_name
from hermes_contracts.store_api import AgentState
from hermes_operator.cluster.resources import SESSIONS
from tests.integration.operator.admin import until
from tests.integration.operator.harness import Installation
from tests.integration.operator.proxy import Wire, through_wire
from tests.integration.operator.stories import FakeAgent, make_session, pods, publish, reaches, route_for

pytestmark = pytest.mark.timeout(300)

CUT_SECONDS = float(os.environ.get("CUT_SECONDS") or 0)
"""How long API server and bus stay away at least; `make chaos` sets a minute."""


async def stays_away(since: float) -> None:
    """Let the rest of the time pass: that it is long is what is tried."""
    await asyncio.sleep(max(0.0, since + CUT_SECONDS - time.monotonic()))


@pytest.fixture
async def wired(installation: Installation) -> AsyncIterator[tuple[Installation, Wire]]:
    """An installation whose operators reach the API server over a wire."""
    wire = await through_wire(installation.kubeconfig, installation.folder / "wired.kubeconfig")
    installation.kubeconfig = installation.folder / "wired.kubeconfig"
    yield installation, wire
    await wire.close()


async def ready(installation: Installation, name: str, epoch: int = 1) -> FakeAgent:
    agent = await FakeAgent(installation, name, epoch).start()
    await agent.report(AgentState.READY)
    await reaches(installation, name, "Ready", 60)
    return agent


async def test_an_api_server_that_was_away_finds_everything_as_it_was(wired: tuple[Installation, Wire]) -> None:
    installation, wire = wired
    await installation.up()
    await make_session(installation, "shell")
    agent = await ready(installation, "shell")
    wire.cut()
    since = time.monotonic()
    await until(lambda: "leader.lost" in installation.log(), "the lease is given up", 60)
    await make_session(installation, "meanwhile")
    await stays_away(since)
    wire.mend()
    await until(lambda: installation.log().count("leader.working") == 2, "the operator works again", 60)
    await ready(installation, "meanwhile")
    assert sorted(await pods(installation)) == ["meanwhile-1", "shell-1"], "nobody's pod was replaced"
    assert [epoch for sid, epoch in installation.store.raised if sid == agent.sid] == [1]


async def test_a_bus_that_was_away_costs_no_pod_and_no_message(installation: Installation) -> None:
    await installation.up()
    gateway = await installation.client(Role.GATEWAY)
    route = await route_for(installation, "first")
    name = session_object_name("default", route.key)
    await publish(installation, gateway, route, "one")
    agent = await ready(installation, name)
    assert await agent.pull() == "one"
    bus = installation.processes[1]
    bus.send_signal(signal.SIGKILL)
    bus.wait()
    since = time.monotonic()
    await until(lambda: "sweep.failed" in installation.log(), "the operator has noticed", 60)
    await stays_away(since)
    await installation.start_bus()
    await until(lambda: gateway.is_connected and agent.client.is_connected, "everybody is back", 60)
    await publish(installation, gateway, route, "two")
    assert await agent.pull() == "two"
    assert await pods(installation) == [f"{name}-1"]
    assert installation.store.raised == [(route.sid, 1)]


async def test_a_watch_that_falls_silent_is_noticed_and_what_it_missed_is_done(wired: tuple[Installation, Wire]) -> None:
    installation, wire = wired
    await installation.up()
    installation.operator("two", HERMES_RESYNC_SECONDS="3")
    await until(lambda: "observe.synced" in installation.log("two"), "a second operator watches", 60)
    wire.freeze()
    await until(lambda: "leader.lost" in installation.log(), "the first one cannot renew and gives up", 60)
    await make_session(installation, "meanwhile")
    assert await installation.admin.get(SESSIONS, installation.namespace, "meanwhile") is not None
    wire.mend()
    await ready(installation, "meanwhile")
    assert await pods(installation) == ["meanwhile-1"], "of two operators one has acted"


async def test_a_leader_that_is_killed_is_followed_within_fifteen_seconds(installation: Installation) -> None:
    await installation.up()
    installation.operator("two")
    await until(lambda: "observe.synced" in installation.log("two"), "the second operator watches", 60)
    route = await route_for(installation, "first")
    gateway = await installation.client(Role.GATEWAY)
    installation.processes[0].kill()
    await publish(installation, gateway, route, "one")
    await until(lambda: "leader.working" in installation.log("two"), "the second operator works", 15)
    name = session_object_name("default", route.key)
    agent = await ready(installation, name)
    assert await agent.pull() == "one"
    assert installation.store.raised == [(route.sid, 1)], "nothing was done twice"
