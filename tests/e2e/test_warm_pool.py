"""Pods that wait: the first message finds one, becomes its session, and nobody ever gets it again."""

from __future__ import annotations

import uuid

import pytest

from hermes_contracts.names import LABEL_POOL, LABEL_SID
from release.kubectl import Object, apply, get, get_all, kubectl, until
from tests.e2e.framework.installation import profile
from tests.e2e.framework.node import kill_container
from tests.e2e.framework.person import Person
from tests.e2e.framework.sessions import pod_of, session_of, shell

pytestmark = pytest.mark.timeout(300)

STORY = "warm"


async def _waiting(namespace: str) -> list[Object]:
    pods = await get_all("pods", namespace, LABEL_POOL)
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def _runs(pod: Object) -> bool:
    return any(one["name"] == "agent" and one.get("started") for one in pod["status"].get("containerStatuses", []))


async def _one_waits(namespace: str) -> str:
    """Wait until one pod waits and has said so on the bus: the Profile's count may be of a pod that was claimed since."""

    async def ready() -> str:
        body = await get("profile", "default", namespace)
        pods = await _waiting(namespace)
        said = bool(body and body.get("status", {}).get("warmPods"))
        if not said or len(pods) != 1 or not _runs(pods[0]):
            return ""
        name = str(pods[0]["metadata"]["name"])
        return name if "waiting.ready" in await kubectl("logs", name, "-c", "agent", "-n", namespace) else ""

    return str(await until("one pod to wait", ready, deadline_seconds=120))


async def test_a_first_message_finds_a_pod_that_waited_and_another_takes_its_place() -> None:
    await apply(profile(STORY, warmPool={"size": 1}))
    chat = f"first-{uuid.uuid4().hex[:8]}"
    async with Person(STORY) as ann:
        name = await _one_waits(ann.namespace)
        before = await get("pod", name, ann.namespace)
        assert before and LABEL_SID not in before["metadata"]["labels"]
        assert "7 7" in await ann.say(chat, "!echo 7 7 > seven; cat seven")

        session = await session_of(ann.namespace, chat)
        pod = await until("the session's pod", lambda: pod_of(session))
        assert pod["metadata"]["name"] == name
        assert pod["metadata"]["uid"] == before["metadata"]["uid"]
        assert [owner["kind"] for owner in pod["metadata"]["ownerReferences"]] == ["HermesSession"]
        assert LABEL_POOL not in pod["metadata"]["labels"]
        secrets = [s["metadata"]["name"] for s in await get_all("secrets", ann.namespace)]
        assert f"{session['metadata']['name']}-1" not in secrets, "what it is was never written down"
        mounted = await shell(ann.namespace, name, "agent", "/app/bin/python3", "-c", _LIST)
        assert sorted(mounted.split()) == ["bus.creds", "warm.json"]
        assert await _one_waits(ann.namespace) != name
        assert "7 7" in await ann.say(chat, "!cat seven"), "the same workspace"


_LIST = "import os; print(*(n for n in os.listdir('/run/hermes/session') if not n.startswith('.')))"


async def test_an_agent_that_starts_again_in_a_claimed_pod_means_another_pod() -> None:
    await apply(profile(STORY, warmPool={"size": 1}))
    chat = f"again-{uuid.uuid4().hex[:8]}"
    async with Person(STORY) as ann:
        await _one_waits(ann.namespace)
        await ann.say(chat, "remember 4711")
        session = await session_of(ann.namespace, chat)
        first = await until("the session's pod", lambda: pod_of(session))
        name = str(first["metadata"]["name"])
        assert name.startswith("warm-")
        await kill_container(ann.namespace, name, "agent")

        async def gone() -> bool:
            body = await get("pod", name, ann.namespace)
            return body is None or "deletionTimestamp" in body["metadata"]

        await until("the pod to be given up", gone, deadline_seconds=90)
        assert await ann.say(chat, "are you there")
        again = await session_of(ann.namespace, chat)
        second = await until("another pod", lambda: pod_of(again))
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        assert again["status"]["epoch"] >= 2
        transcript = await ann.transcript(again["status"]["id"])
        assert "4711" in str(transcript)


async def test_a_pool_that_is_taken_away_leaves_no_pod() -> None:
    await apply(profile(STORY))
    async with Person(STORY) as ann:

        async def none() -> bool:
            return not await _waiting(ann.namespace)

        await until("no pod to wait any more", none)
