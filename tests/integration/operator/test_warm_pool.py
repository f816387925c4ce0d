"""Pods that wait for a session: made, claimed once, told who they are, replaced. A real API server and a real bus."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from hermes_contracts import subjects
from hermes_contracts.agent_config import BUS_CREDENTIALS_FILE
from hermes_contracts.bus_permissions import Role
from hermes_contracts.names import API_VERSION, LABEL_EPOCH, LABEL_POOL, LABEL_SID, session_object_name
from hermes_contracts.store_api import AgentState
from hermes_contracts.warm_pool import WARM_FILE, Hello, Identity, Sealed, Waiting
from hermes_operator.cluster.resources import PODS, PROFILES, SECRETS
from hermes_service.bus import BusCredentials, connect
from hermes_service.bus_keys import new_user_seed, public_key_of
from hermes_service.sealing import SealingKey
from tests.integration.operator.admin import QUOTAS, until
from tests.integration.operator.harness import SMALL, Installation
from tests.integration.operator.stories import FakeAgent, events, publish, reaches, route_for

pytestmark = pytest.mark.timeout(80)


class WaitingPod:
    """Does on the bus what the agent of a waiting pod does, with what its Secret holds."""

    def __init__(self, installation: Installation, name: str) -> None:
        self.installation, self.name = installation, name
        self.key, self.seed = SealingKey(), new_user_seed()
        self.boxes: list[str] = []
        self.deaf = False

    async def start(self) -> WaitingPod:
        read = lambda: self.installation.admin.get(SECRETS, self.installation.namespace, self.name)  # noqa: E731
        body = await until(read, f"Secret {self.name} is there")
        files = {key: base64.b64decode(value).decode() for key, value in body["data"].items()}
        assert sorted(files) == [BUS_CREDENTIALS_FILE, WARM_FILE], "no identity is written down"
        self.waiting = Waiting.model_validate_json(files[WARM_FILE])
        credentials = BusCredentials.parse(files[BUS_CREDENTIALS_FILE])
        uid = self.waiting.pod_uid
        self.client = await connect(self.waiting.bus_url, credentials, name="warm", inbox=subjects.warm_inbox(uid))
        self.installation.clients.append(self.client)
        await self.client.subscribe(subjects.warm_claim(uid), cb=self._take)
        await self.hello()
        return self

    async def hello(self, *, accepted: bool = False) -> None:
        hello = Hello(seal_key=self.key.public, bus_key=public_key_of(self.seed), accepted=accepted)
        await self.client.publish(subjects.warm_hello(self.waiting.pod_uid), hello.model_dump_json().encode())
        await self.client.flush()

    async def _take(self, message: Any) -> None:
        self.boxes.append(Sealed.model_validate_json(message.data).box)
        if not self.deaf:
            await self.hello(accepted=True)

    def identity(self) -> Identity:
        return Identity.model_validate_json(self.key.open(self.boxes[0]))

    async def become(self) -> FakeAgent:
        """Be the agent that it was told to be."""
        found = self.identity()
        agent = FakeAgent(self.installation, found.config.session_name, found.config.epoch)
        agent.sid, agent.config = found.config.sid, found.config.model_dump()
        agent.client = await connect(
            found.config.bus_url,
            BusCredentials(found.bus_jwt, self.seed),
            name="agent",
            inbox=subjects.agent_inbox(agent.sid, agent.epoch),
        )
        self.installation.clients.append(agent.client)
        await agent.client.subscribe(subjects.control_epoch(agent.sid, agent.epoch), cb=agent._take_order)
        return agent


async def want(installation: Installation, size: int, profile: str = "default", **spec: Any) -> None:
    manifest = {
        "apiVersion": API_VERSION,
        "kind": "Profile",
        "metadata": {"name": profile, "namespace": installation.namespace},
        "spec": {"model": {"provider": "scripted", "name": "scripted"}, **SMALL, "warmPool": {"size": size}, **spec},
    }
    await installation.admin.apply(PROFILES, manifest)


async def waiting(installation: Installation) -> list[str]:
    found = await installation.admin.list(PODS, installation.namespace, labels=LABEL_POOL)
    return [pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]]


async def are_waiting(installation: Installation, count: int, seconds: float = 30) -> list[str]:
    async def check() -> list[str] | None:
        found = await waiting(installation)
        return found if len(found) == count else None

    return list(await until(check, f"{count} pods wait", seconds) if count else [])


async def hears(installation: Installation, pod: WaitingPod) -> None:
    """Wait until the operator shows in the Profile that it knows of the pod."""

    async def check() -> bool:
        body = await installation.admin.get(PROFILES, installation.namespace, "default")
        return bool(body and body.get("status", {}).get("warmPods"))

    await until(check, f"the operator knows of {pod.name}", 90)


async def test_a_waiting_pod_becomes_a_session_is_renewed_and_is_replaced_in_the_pool(installation: Installation) -> None:
    await installation.up(HERMES_RENEW_SECONDS="3")
    await want(installation, 1)
    [name] = await are_waiting(installation, 1)
    body = await installation.admin.get(PODS, installation.namespace, name)
    assert body and LABEL_SID not in body["metadata"]["labels"]
    assert [owner["kind"] for owner in body["metadata"]["ownerReferences"]] == ["Profile"]
    pod = await WaitingPod(installation, name).start()
    await hears(installation, pod)

    gateway = await installation.client(Role.GATEWAY)
    route = await route_for(installation, "quick")
    await publish(installation, gateway, route, "hello")
    await until(lambda: pod.boxes, "the pod is told who it is")
    agent = await pod.become()
    await agent.report(AgentState.READY)
    assert await agent.pull() == "hello"
    hs = session_object_name("default", route.key)
    shown = await reaches(installation, hs, "Ready")
    assert shown["status"]["pod"] == name
    assert shown["status"]["epoch"] == 1

    body = await installation.admin.get(PODS, installation.namespace, name)
    meta = body["metadata"] if body else {}
    assert [(owner["kind"], owner["name"]) for owner in meta["ownerReferences"]] == [("HermesSession", hs)]
    assert (meta["labels"][LABEL_SID], meta["labels"][LABEL_EPOCH]) == (route.sid, "1")
    assert LABEL_POOL not in meta["labels"]
    assert await installation.admin.get(SECRETS, installation.namespace, f"{hs}-1") is None, "no Secret holds its identity"
    await until(lambda: [o for o in agent.orders if o["kind"] == "credentials"], "its credentials are renewed", 30)
    [another] = await are_waiting(installation, 1)
    assert another != name


async def test_a_pod_that_does_not_answer_is_replaced_under_a_new_epoch(installation: Installation) -> None:
    await installation.up()
    await want(installation, 1)
    [name] = await are_waiting(installation, 1)
    pod = await WaitingPod(installation, name).start()
    pod.deaf = True
    await hears(installation, pod)
    gateway = await installation.client(Role.GATEWAY)
    route = await route_for(installation, "deaf")
    await publish(installation, gateway, route, "hello")
    await until(lambda: len(pod.boxes) >= 2, "it is told again")
    hs = session_object_name("default", route.key)
    second = await FakeAgent(installation, hs, 2).start()
    await second.report(AgentState.READY)
    assert await second.pull() == "hello"
    assert installation.store.raised == [(route.sid, 1), (route.sid, 2)]
    gone = lambda: installation.admin.get(PODS, installation.namespace, name)  # noqa: E731

    async def ended() -> bool:
        body = await gone()
        return body is None or "deletionTimestamp" in body["metadata"]

    await until(ended, "the first pod ends")


async def test_twenty_wishes_for_two_pods_get_a_pod_each_and_nobody_gets_two(installation: Installation) -> None:
    await installation.up()
    await want(installation, 2)
    names = await are_waiting(installation, 2)
    pods = [await WaitingPod(installation, name).start() for name in names]
    await hears(installation, pods[0])
    await asyncio.sleep(0)
    gateway = await installation.client(Role.GATEWAY)
    routes = [await route_for(installation, f"person-{number}") for number in range(6)]
    for route in routes:
        await publish(installation, gateway, route, "hello")

    async def sessions() -> bool:
        found = await installation.admin.list(PODS, installation.namespace, labels=LABEL_SID)
        return len({pod["metadata"]["labels"][LABEL_SID] for pod in found}) == len(routes) == len(found)

    await until(sessions, "each session has one pod", 60)
    await until(lambda: all(pod.boxes for pod in pods), "both pods were claimed")
    assert len({pod.identity().config.sid for pod in pods}) == 2


async def test_another_operator_hands_over_what_the_first_one_had_claimed(installation: Installation) -> None:
    await installation.up()
    await want(installation, 1)
    [name] = await are_waiting(installation, 1)
    pod = await WaitingPod(installation, name).start()
    pod.deaf = True
    await hears(installation, pod)
    gateway = await installation.client(Role.GATEWAY)
    route = await route_for(installation, "orphan")
    await publish(installation, gateway, route, "hello")
    await until(lambda: pod.boxes, "it is claimed")
    installation.processes[0].kill()
    pod.boxes.clear()
    pod.deaf = False
    installation.operator("two")
    await until(lambda: "leader.working" in installation.log("two"), "the second operator works", 60)
    await pod.hello()
    await until(lambda: pod.boxes, "it is told by the other one")
    agent = await pod.become()
    assert agent.epoch == 1
    await agent.report(AgentState.READY)
    assert await agent.pull() == "hello"
    await reaches(installation, session_object_name("default", route.key), "Ready")


async def test_a_pool_follows_its_profile(installation: Installation) -> None:
    await installation.up()
    await want(installation, 2)
    before = await are_waiting(installation, 2)
    await want(installation, 1)
    [kept] = await are_waiting(installation, 1)
    assert kept in before
    await want(installation, 1, sandbox={**SMALL["sandbox"], "egress": "Internet"})

    async def replaced() -> bool:
        found = await waiting(installation)
        return len(found) == 1 and found != [kept]

    await until(replaced, "a pod of the new class waits")
    await installation.admin.delete(PROFILES, installation.namespace, "default")

    async def empty() -> bool:
        return not await waiting(installation)

    await until(empty, "nothing waits any more", 60)


async def test_a_profile_with_a_volume_cannot_have_a_pool(installation: Installation) -> None:
    from hermes_operator.cluster.errors import ClusterError

    claim = {**SMALL["sandbox"], "workspace": {"kind": "PersistentVolumeClaim", "size": "16Mi"}}
    with pytest.raises(ClusterError, match="a pod that waits cannot have a session's volume"):
        await want(installation, 1, "volume", sandbox=claim)
    with pytest.raises(ClusterError, match="20"):
        await want(installation, 21, "many")
    assert await session_names(installation) == []


async def session_names(installation: Installation) -> list[str]:
    found = await installation.admin.list(PROFILES, installation.namespace)
    return [body["metadata"]["name"] for body in found if body["metadata"]["name"] in ("volume", "many")]


async def test_a_pool_that_a_quota_refuses_says_so_and_tries_again_later(installation: Installation) -> None:
    await installation.up()
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": installation.namespace},
        "spec": {"hard": {"pods": "0"}},
    }
    await installation.admin.apply(QUOTAS, quota)

    async def enforced() -> bool:
        body = await installation.admin.get(QUOTAS, installation.namespace, "none")
        return bool(body and body.get("status", {}).get("hard"))

    await until(enforced, "the quota counts")
    await want(installation, 1)

    async def told() -> bool:
        return "QuotaExceeded" in await events(installation)

    await until(told, "an Event says why no pod waits", 30)
    await installation.admin.delete(QUOTAS, installation.namespace, "none")
    await are_waiting(installation, 1, 60)
