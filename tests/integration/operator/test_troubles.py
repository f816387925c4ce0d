"""What a cluster does to pods and what the operator makes of it: each trouble has a name, each session its next pod."""

from __future__ import annotations

import base64
import json
import signal

import pytest
from nats.errors import Error as NatsError

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.names import credentials_name, session_object_name, workspace_name
from hermes_contracts.store_api import AgentState
from hermes_operator.cluster.client import Manifest
from hermes_operator.cluster.resources import CLAIMS, PODS, SECRETS, SESSIONS, Resource
from hermes_service.bus import BusCredentials
from tests.integration.operator.admin import until
from tests.integration.operator.harness import SMALL, Installation
from tests.integration.operator.stories import (
    FakeAgent,
    change,
    change_profile,
    condition,
    events_about,
    make_session,
    pods,
    publish,
    reaches,
    route_for,
)

pytestmark = pytest.mark.timeout(300)


async def has_condition(installation: Installation, kind: str, *reasons: str) -> Manifest | None:
    found = await condition(installation, "shell", kind)
    return found if found.get("reason") in reasons else None


async def says(installation: Installation, words: str) -> bool:
    found = await condition(installation, "shell", "Ready")
    return found.get("status") == "False" and words in found["message"]


async def has_pod(installation: Installation, name: str) -> bool:
    return name in await pods(installation)


async def test_an_evicted_pod_under_a_running_turn_gives_way_to_the_next_epoch(installation: Installation) -> None:
    await installation.up()
    gateway = await installation.client(Role.GATEWAY)
    route = await route_for(installation, "evicted")
    name = session_object_name("default", route.key)
    await publish(installation, gateway, route, "one")
    first = await FakeAgent(installation, name, 1).start()
    await first.report(AgentState.READY)
    await first.report(AgentState.BUSY)
    await until(lambda: has_pod(installation, f"{name}-1"), "there is a pod")
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": f"{name}-1", "namespace": installation.namespace},
    }
    await installation.admin.create(Resource("", "v1", f"pods/{name}-1/eviction"), eviction)
    second = await FakeAgent(installation, name, 2).start()
    await second.report(AgentState.READY)
    assert await second.pull() == "one"
    await reaches(installation, name, "Ready")


async def test_an_agent_whose_consumer_went_gets_its_messages_again(installation: Installation) -> None:
    await installation.up()
    gateway, operator = await installation.client(Role.GATEWAY), await installation.client(Role.OPERATOR)
    route = await route_for(installation, "deaf")
    await publish(installation, gateway, route, "one")
    name = session_object_name("default", route.key)
    agent = await FakeAgent(installation, name, 1).start()
    await agent.report(AgentState.READY)
    assert await agent.pull() == "one"
    await agent.report(AgentState.IDLE)
    await reaches(installation, name, "Ready")
    stream = subjects.in_stream(route.sid)
    await operator.jetstream().delete_consumer(stream, subjects.consumer(route.sid, 1))
    await publish(installation, gateway, route, "two")

    async def hears() -> str | None:
        try:
            return await agent.pull()
        except (NatsError, TimeoutError):
            return None

    assert await until(hears, "the message reaches the agent", 60) == "two"
    assert installation.store.raised == [(route.sid, 1)], "the same agent goes on"
    assert await events_about(installation, "MessagesNotTaken")


async def test_a_node_that_is_lost_costs_one_epoch(installation: Installation) -> None:
    await installation.up()
    await make_session(installation, "shell")
    agent = await FakeAgent(installation, "shell", 1).start()
    await agent.report(AgentState.READY)
    await until(lambda: has_pod(installation, "shell-1"), "there is a pod")
    gateway = await installation.client(Role.GATEWAY)
    route = (await route_for(installation, "x")).model_copy(update={"sid": agent.sid})
    await publish(installation, gateway, route, "waiting")

    async def lose() -> bool:
        """Say of the pod what the controller says when its node is gone; the kubelet here may say otherwise again."""
        body = await installation.admin.get(PODS, installation.namespace, "shell-1")
        if body is None:
            return True
        body["status"] |= {"phase": "Failed", "reason": "NodeLost", "message": "its node does not answer"}
        await installation.admin.replace(PODS.status, body)
        return True

    await until(lose, "the pod's node is lost")
    second = await FakeAgent(installation, "shell", 2).start()
    assert [note for note in await events_about(installation, "NodeLost") if "does not answer" in note]
    assert await second.pull() == "waiting"


async def test_a_crash_loop_is_ended_before_its_pauses_grow(installation: Installation) -> None:
    await installation.up(HERMES_AGENT_IMAGE="localhost/busybox:1")
    await make_session(installation, "shell")
    await until(lambda: has_pod(installation, "shell-2"), "a new pod takes the place of one that backs off", 120)
    notes = await events_about(installation, "CrashLoopBackOff")
    assert [note for note in notes if "shell-1 is replaced: container agent ended" in note]

    await until(lambda: says(installation, "the pod before ended: CrashLoopBackOff"), "the condition says why")


async def test_an_image_that_cannot_be_pulled_is_named_and_a_better_one_heals(installation: Installation) -> None:
    await installation.up(HERMES_AGENT_IMAGE="localhost:1/nothing:1")
    await make_session(installation, "shell")
    wanted = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable")
    found = await until(lambda: has_condition(installation, "PodReady", *wanted), "the condition names the image", 60)
    assert "nothing" in found["message"]
    installation.processes[0].send_signal(signal.SIGTERM)
    installation.processes[0].wait(timeout=30)
    installation.operator("two")
    agent = await FakeAgent(installation, "shell", 2).start()
    await agent.report(AgentState.READY)
    await reaches(installation, "shell", "Ready")


async def test_a_pod_that_fits_nowhere_says_so_and_a_smaller_profile_heals(installation: Installation) -> None:
    big = {**SMALL, "agent": {"resources": {"cpu": "4000", "memory": "16Mi", "ephemeralStorage": "16Mi"}}}
    installation.profile = json.dumps({"model": {"provider": "scripted", "name": "s"}, **big})
    await installation.up()
    await make_session(installation, "shell")
    found = await until(lambda: has_condition(installation, "Scheduled", "Unschedulable"), "the condition shows", 60)
    assert "cpu" in found["message"].lower()
    await change_profile(installation, **SMALL)
    agent = await FakeAgent(installation, "shell", 2).start()
    await agent.report(AgentState.READY)
    await reaches(installation, "shell", "Ready")


async def test_an_agent_that_never_speaks_is_replaced_and_the_reason_stays_readable(installation: Installation) -> None:
    await installation.up(HERMES_SILENCE_SECONDS="3")
    await make_session(installation, "shell")
    await until(lambda: has_pod(installation, "shell-2"), "a silent pod is replaced", 90)
    assert [note for note in await events_about(installation, "AgentSilent") if "said nothing for 3 s" in note]
    await until(lambda: says(installation, "AgentSilent"), "the condition says why")


async def test_credentials_are_renewed_over_the_bus_and_in_the_secret(installation: Installation) -> None:
    await installation.up(HERMES_RENEW_SECONDS="2")
    await make_session(installation, "shell")
    agent = await FakeAgent(installation, "shell", 1).start()
    await agent.report(AgentState.READY)

    def orders() -> list[Manifest]:
        return [order for order in agent.orders if order["kind"] == "credentials"]

    # The JWT names seconds: three orders are at least two different ones.
    await until(lambda: len(orders()) >= 3, "fresh credentials come again and again", 60)
    assert len({order["bus_jwt"] for order in orders()}) > 1

    async def in_secret() -> bool:
        body = await installation.admin.get(SECRETS, installation.namespace, credentials_name("shell", 1))
        assert body is not None
        held = BusCredentials.parse(base64.b64decode(body["data"]["bus.creds"]).decode())
        return held.jwt in {order["bus_jwt"] for order in orders()}

    await until(in_secret, "an agent that starts again finds them")


async def test_a_workspace_stays_while_its_session_sleeps_and_goes_with_it(installation: Installation) -> None:
    sandbox = {**SMALL["sandbox"], "workspace": {"kind": "PersistentVolumeClaim", "size": "16Mi"}}
    installation.profile = json.dumps({"model": {"provider": "scripted", "name": "s"}, **SMALL, "sandbox": sandbox})
    await installation.up()
    await make_session(installation, "shell")
    agent = await FakeAgent(installation, "shell", 1).start()
    await until(lambda: has_pod(installation, "shell-1"), "there is a pod")
    await agent.report(AgentState.READY)
    await reaches(installation, "shell", "Ready")

    async def claim() -> Manifest | None:
        return await installation.admin.get(CLAIMS, installation.namespace, workspace_name("shell"))

    before = await claim()
    assert before is not None
    await change(installation, "shell", suspend=True)
    await until(lambda: agent.orders, "the agent is told to drain")
    await agent.report(AgentState.DRAINED)
    await reaches(installation, "shell", "Suspended")
    await change(installation, "shell", suspend=False)
    gateway = await installation.client(Role.GATEWAY)
    route = (await route_for(installation, "x")).model_copy(update={"sid": agent.sid})
    await publish(installation, gateway, route, "again")
    second = await FakeAgent(installation, "shell", 2).start()
    await second.report(AgentState.READY)
    after = await claim()
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    await installation.admin.delete(SESSIONS, installation.namespace, "shell")

    async def gone() -> bool:
        found = await claim()
        return found is None or "deletionTimestamp" in found["metadata"]

    await until(gone, "the claim goes with its session", 120)
