"""What does not change is not written, by a restarted operator either; and of two operators one acts."""

from __future__ import annotations

import re
import signal
import urllib.request

import pytest

from hermes_contracts.bus_permissions import Role
from hermes_contracts.store_api import AgentState
from hermes_operator.cluster.resources import LEASES
from tests.integration.operator.admin import until
from tests.integration.operator.harness import Installation, free_port
from tests.integration.operator.stories import FakeAgent, make_session, reaches, session

pytestmark = pytest.mark.timeout(300)
_CALL = re.compile(r'^hermes_operator_api_calls_total\{resource="([^"]+)",status="[^"]+",verb="([^"]+)"\} (\S+)$', re.M)


def calls(port: int) -> dict[tuple[str, str], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return {(verb, resource): float(n) for resource, verb, n in _CALL.findall(answer.read().decode())}


def writes(found: dict[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Return the writes, apart from the lease's."""
    return {call: n for call, n in found.items() if call[0] not in ("get", "list", "watch") and call[1] != "leases"}


def passes(port: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        found = re.findall(
            r'^hermes_operator_reconcile_seconds_count\{kind="session".*\} (\S+)$', answer.read().decode(), re.M
        )
    return sum(map(float, found))


async def test_ten_passes_over_a_settled_session_write_nothing_nor_does_a_restart(installation: Installation) -> None:
    port = free_port()
    await installation.up(HERMES_OPERATIONS_PORT=str(port))
    gateway = await installation.client(Role.GATEWAY)
    await make_session(installation, "shell")
    agent = await FakeAgent(installation, "shell", 1).start()
    await agent.report(AgentState.READY)
    await reaches(installation, "shell", "Ready")

    async def settled() -> bool:
        conditions = (await session(installation, "shell"))["status"]["conditions"]
        return {c["type"]: c["status"] for c in conditions}.get("PodReady") == "True"

    await until(settled, "the pod runs", 60)
    before, start = writes(calls(port)), passes(port)
    version = (await session(installation, "shell"))["metadata"]["resourceVersion"]
    for n in range(1, 11):
        # A person's touch brings a pass, as any event does, and changes nothing that is decided on.
        await agent.report(AgentState.IDLE)
        await until(lambda n=n: passes(port) >= start + n, f"pass {n} has run")
    assert writes(calls(port)) == before
    assert (await session(installation, "shell"))["metadata"]["resourceVersion"] == version
    assert gateway.is_connected

    installation.processes[0].send_signal(signal.SIGTERM)
    installation.processes[0].wait(timeout=30)
    port = free_port()
    installation.operator("again", HERMES_OPERATIONS_PORT=str(port))
    await until(lambda: "leader.working" in installation.log("again"), "the next operator works", 60)
    await until(lambda: passes(port) >= 1, "it has looked at the session")
    assert writes(calls(port)) == {}
    assert (await session(installation, "shell"))["metadata"]["resourceVersion"] == version


async def test_a_second_operator_stands_by_and_takes_over(installation: Installation) -> None:
    await installation.up()
    installation.operator("two")
    await until(lambda: "observe.synced" in installation.log("two"), "the second operator watches", 60)
    assert "leader.acquired" not in installation.log("two")
    installation.processes[0].send_signal(signal.SIGTERM)
    assert installation.processes[0].wait(timeout=30) == 0
    assert "leader.released" in installation.log("one")
    await until(lambda: "leader.working" in installation.log("two"), "the second operator works", 12)
    lease = await installation.admin.get(LEASES, installation.namespace, "hermes-operator")
    assert lease is not None
    assert lease["spec"]["holderIdentity"].endswith("-two")
    await make_session(installation, "shell")
    agent = await FakeAgent(installation, "shell", 1).start()
    await agent.report(AgentState.READY)
    await reaches(installation, "shell", "Ready")
