"""From a message, or an object, to a pod and back to sleep: the whole operator against a real API server and a real bus."""

from __future__ import annotations

import json

import pytest

from hermes_contracts.bus_permissions import Role
from hermes_contracts.names import credentials_name, session_object_name
from hermes_contracts.store_api import AgentState
from hermes_operator.cluster.resources import PODS, PROFILES, SECRETS, SESSIONS
from tests.integration.operator.admin import QUOTAS, until
from tests.integration.operator.harness import SMALL, Installation
from tests.integration.operator.stories import (
    FakeAgent,
    change,
    condition,
    events,
    make_session,
    pods,
    publish,
    reaches,
    route_for,
    session,
    state,
)

pytestmark = pytest.mark.timeout(300)


async def test_a_message_wakes_a_session_that_sleeps_again_and_wakes_once_more(installation: Installation) -> None:
    await installation.up()
    profile = await until(
        lambda: installation.admin.get(PROFILES, installation.namespace, "default"), "the first Profile is there"
    )
    assert profile["spec"]["model"]["provider"] == "scripted"
    gateway = await installation.client(Role.GATEWAY)
    route = await route_for(installation, "first")
    await publish(installation, gateway, route, "hello")
    name = session_object_name("default", route.key)
    agent = await FakeAgent(installation, name, 1).start()
    await until(lambda: pods(installation), "there is a pod")
    await reaches(installation, name, "Starting")
    await agent.report(AgentState.READY)
    await reaches(installation, name, "Ready")
    assert await agent.pull() == "hello"
    body = await session(installation, name)
    assert body["status"]["id"] == route.sid
    assert body["status"]["epoch"] == 1
    assert body["status"]["startupMilliseconds"]["imports"] == 200.0

    await change(installation, name, idleTimeoutSeconds=5)
    await until(lambda: [o for o in agent.orders if o["kind"] == "drain"], "the agent is told to drain", 30)
    await agent.report(AgentState.DRAINED)
    await reaches(installation, name, "Asleep")

    async def no_pods() -> bool:
        return not await pods(installation)

    await until(no_pods, "the pod is gone", 60)
    assert await installation.admin.get(SECRETS, installation.namespace, credentials_name(name, 1)) is None

    await publish(installation, gateway, route, "again", wake=False)
    second = await FakeAgent(installation, name, 2).start()
    await second.report(AgentState.READY)
    assert await second.pull() == "again"
    await reaches(installation, name, "Ready")
    assert installation.store.raised == [(route.sid, 1), (route.sid, 2)]

    await second.report(AgentState.DRAINED)
    await reaches(installation, name, "Asleep")
    installation.store.commanded.add(route.sid)
    third = await FakeAgent(installation, name, 3).start()
    await third.report(AgentState.READY)
    await reaches(installation, name, "Ready")


async def test_an_object_made_by_hand_starts_once_is_suspended_and_comes_back(installation: Installation) -> None:
    await installation.up()
    gateway = await installation.client(Role.GATEWAY)
    sid = await make_session(installation, "shell")
    agent = await FakeAgent(installation, "shell", 1).start()
    assert agent.sid == sid
    await agent.report(AgentState.READY)
    await reaches(installation, "shell", "Ready")

    await change(installation, "shell", suspend=True)
    await until(lambda: agent.orders, "the agent is told to drain")
    await reaches(installation, "shell", "Draining")
    await agent.report(AgentState.DRAINED)
    await reaches(installation, "shell", "Suspended")
    route = (await route_for(installation, "x")).model_copy(update={"sid": sid})
    await publish(installation, gateway, route, "are you there")
    await until(lambda: reads_pending(installation, "shell"), "the waiting message shows", 90)
    assert installation.store.raised == [(sid, 1)], "a suspended session is not started"

    await change(installation, "shell", suspend=False)
    second = await FakeAgent(installation, "shell", 2).start()
    await second.report(AgentState.READY)
    assert await second.pull() == "are you there"


async def reads_pending(installation: Installation, name: str) -> bool:
    return bool((await session(installation, name))["status"].get("pending") == 1)


async def test_a_pod_that_dies_is_replaced_under_a_new_epoch(installation: Installation) -> None:
    await installation.up()
    gateway = await installation.client(Role.GATEWAY)
    route = await route_for(installation, "dying")
    name = session_object_name("default", route.key)
    await publish(installation, gateway, route, "one")
    first = await FakeAgent(installation, name, 1).start()
    await first.report(AgentState.READY)
    await until(lambda: pods(installation), "there is a pod")
    await installation.admin.delete(PODS, installation.namespace, f"{name}-1", grace_seconds=0)
    second = await FakeAgent(installation, name, 2).start()
    await second.report(AgentState.READY)
    assert await second.pull() == "one"
    assert installation.store.summaries[route.sid].epoch == 2

    await installation.admin.delete(SESSIONS, installation.namespace, name)

    async def nothing_left() -> bool:
        left = await installation.admin.list(SECRETS, installation.namespace, labels="hermes.run/sid")
        return not left and not await pods(installation)

    await until(nothing_left, "owner references have cleaned up", 120)


async def test_a_quota_is_shown_and_heals(installation: Installation) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": installation.namespace},
        "spec": {"hard": {"pods": "0"}},
    }
    await installation.admin.create(QUOTAS, quota)
    await installation.up()
    sid = await make_session(installation, "shell")
    await until(lambda: condition(installation, "shell", "PodReady"), "the condition shows")
    found = await condition(installation, "shell", "PodReady")
    assert (found["status"], found["reason"]) == ("False", "QuotaExceeded")
    assert "exceeded quota" in found["message"]
    await until(lambda: has_event(installation, "QuotaExceeded"), "an Event says so")
    await installation.admin.delete(QUOTAS, installation.namespace, "none")
    agent = await FakeAgent(installation, "shell", 1).start()
    await until(lambda: pods(installation), "the pod is made", 90)
    await agent.report(AgentState.READY)
    await reaches(installation, "shell", "Ready")
    assert installation.store.raised == [(sid, 1)], "a refused pod costs no epoch"


async def has_event(installation: Installation, reason: str) -> bool:
    return reason in await events(installation)


async def test_a_profile_without_its_secret_says_so_and_heals(installation: Installation) -> None:
    model = {"provider": "openai", "name": "m", "secretRef": {"name": "key"}, "baseUrl": "https://llm.example/v1"}
    installation.profile = json.dumps({"model": model, **SMALL})
    await installation.up()

    async def reason() -> str:
        body = await installation.admin.get(PROFILES, installation.namespace, "default")
        conditions = (body or {}).get("status", {}).get("conditions", [])
        return next((c["reason"] for c in conditions if c["type"] == "Ready"), "")

    async def is_reason(wanted: str) -> bool:
        return await reason() == wanted

    await until(lambda: is_reason("SecretNotFound"), "the Profile says that its Secret is missing")
    await make_session(installation, "shell")
    await reaches(installation, "shell", "Failed")
    assert (await condition(installation, "shell", "Ready"))["reason"] == "ProfileNotReady"
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "key", "namespace": installation.namespace},
        "type": "hermes.run/provider",
        "stringData": {"api-key": "k", "hosts": "other.example"},
    }
    await installation.admin.create(SECRETS, secret)
    await until(lambda: is_reason("SecretInvalid"), "the Profile says that its host is not allowed")
    await installation.admin.delete(SECRETS, installation.namespace, "key")
    await installation.admin.create(SECRETS, {**secret, "stringData": {"api-key": "k", "hosts": "llm.example"}})
    await until(lambda: is_reason("Ready"), "the Profile is ready")
    await until(lambda: pods(installation), "the session starts")
    assert await state(installation, "shell") in ("Starting", "Failed")

    await installation.admin.delete(SECRETS, installation.namespace, "key")
    await until(lambda: is_reason("SecretNotFound"), "a Secret that goes under a ready Profile is missed", 15)
    await installation.admin.create(
        SECRETS, {**secret, "type": "Opaque", "stringData": {"api-key": "k", "hosts": "llm.example"}}
    )
    await until(lambda: is_reason("SecretInvalid"), "its type is wrong", 15)
