"""More sessions than may live at once: who waits says where, and starts when another has gone to sleep."""

from __future__ import annotations

import json

import pytest

from hermes_contracts.bus_permissions import Role
from hermes_contracts.names import session_object_name
from hermes_contracts.store_api import AgentState
from hermes_operator.cluster.resources import SESSIONS
from tests.integration.operator.admin import until
from tests.integration.operator.harness import Installation
from tests.integration.operator.stories import (
    FakeAgent,
    change_profile,
    condition,
    make_session,
    pods,
    publish,
    reaches,
    route_for,
    session,
    state,
)

pytestmark = pytest.mark.timeout(300)


async def ready(installation: Installation, name: str) -> FakeAgent:
    agent = await FakeAgent(installation, name, 1).start()
    await agent.report(AgentState.READY)
    return agent


async def test_one_waits_for_a_place_and_gets_it_when_an_idle_one_makes_room(installation: Installation) -> None:
    profile = {**json.loads(installation.profile), "maxLiveSessions": 1}
    await installation.up(HERMES_FIRST_PROFILE=json.dumps(profile))
    gateway = await installation.client(Role.GATEWAY)
    await make_session(installation, "first")
    first = await ready(installation, "first")
    await reaches(installation, "first", "Ready")
    await first.report(AgentState.BUSY)

    route = await route_for(installation, "second")
    second = session_object_name("default", route.key)
    await publish(installation, gateway, route, "hello")
    read = lambda: installation.admin.get(SESSIONS, installation.namespace, second)  # noqa: E731
    await until(read, "the second session has its object")
    body = await reaches(installation, second, "Queued")
    assert body["status"]["queuePosition"] == 1
    assert (await condition(installation, second, "Ready"))["reason"] == "ProfileFull"
    assert await pods(installation) == ["first-1"]

    installation.operator("two")
    installation.processes[0].kill()
    await until(lambda: "leader.working" in installation.log("two"), "another operator works", 60)
    assert await state(installation, second) == "Queued"

    await first.report(AgentState.READY)
    await until(lambda: [o for o in first.orders if o["kind"] == "drain"], "the idle one is told to drain", 60)
    await first.report(AgentState.DRAINED)
    await reaches(installation, "first", "Asleep")
    agent = await ready(installation, second)
    await reaches(installation, second, "Ready")
    assert (
        "queuePosition" not in (await session(installation, second))["status"]
        or not ((await session(installation, second))["status"]["queuePosition"])
    )
    assert await agent.pull() == "hello"


async def test_a_namespace_is_full_by_memory_and_a_profile_that_never_fits_says_so(installation: Installation) -> None:
    await installation.up(HERMES_LIMITS=json.dumps({installation.namespace: {"maxLiveSessions": 5, "memory": "48Mi"}}))
    await make_session(installation, "first")
    await ready(installation, "first")
    await reaches(installation, "first", "Ready")
    await make_session(installation, "second")
    await reaches(installation, "second", "Queued")
    assert (await condition(installation, "second", "Ready"))["reason"] == "NamespaceMemory"

    small = json.loads(installation.profile)
    small["sandbox"]["resources"]["memory"] = "64Mi"
    await change_profile(installation, sandbox=small["sandbox"])
    await reaches(installation, "second", "Failed")
    found = await condition(installation, "second", "Ready")
    assert found["reason"] == "TooLarge"
    assert "48 MiB" in found["message"]
