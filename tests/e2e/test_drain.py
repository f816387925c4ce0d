"""A node is emptied: the eviction of a pod in mid-turn, as `kubectl drain` asks for it, moves the session, loses nothing."""

from __future__ import annotations

import asyncio
import json
import uuid

from release.kubectl import apply, get, kubectl, until
from tests.e2e.framework.installation import commands, profile, profile_ready
from tests.e2e.framework.person import Person
from tests.e2e.framework.sessions import pod_running, session_of, shell

STORY = "drain"


async def _evict(namespace: str, pod: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
    await kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


async def test_an_evicted_pod_in_mid_turn_moves_with_its_volume_and_every_message_is_answered_once() -> None:
    await apply(profile(STORY, "claim", sandbox={"workspace": {"kind": "PersistentVolumeClaim", "size": "64Mi"}}))
    await profile_ready(STORY, "claim")
    async with Person(STORY) as ann:
        chat = f"drain-{uuid.uuid4().hex[:8]}"
        await ann.say(chat, "hello", profile="claim")
        session = (await session_of(ann.namespace, chat))["metadata"]["name"]
        pod = (await pod_running(ann.namespace, session))["metadata"]["name"]
        text = commands("echo once >> effects; sleep 3600", say="moved")
        turn = asyncio.create_task(ann.say(chat, text, profile="claim", key=f"turn-{chat}"))
        await shell(ann.namespace, pod, "sandbox", "sh", "-c", "until [ -e /workspace/effects ]; do sleep 0.1; done")
        behind = asyncio.create_task(ann.say(chat, "!cat effects", profile="claim", key=f"behind-{chat}"))

        await _evict(ann.namespace, pod)
        assert await turn == "moved"
        effects = await behind
        assert effects.count("once") == 1, "the volume came along, and the command was not run again"

        async def gone() -> bool:
            return await get("pod", pod, ann.namespace) is None

        await until("the evicted pod to be gone", gone)
        assert (await pod_running(ann.namespace, session))["metadata"]["name"] != pod
        (mine,) = [s for s in await ann.sessions() if chat in str(s)]
        transcript = (await ann.request("GET", f"/api/sessions/{mine['id']}/messages")).text
        assert transcript.count("!cat effects") == 1, "each message is in the conversation once"
