"""Sleep and wake: the pod goes, the conversation stays, and the next message brings it back."""

from __future__ import annotations

import asyncio

from release.kubectl import apply, get_all, until
from tests.e2e.framework.installation import commands, profile, profile_ready
from tests.e2e.framework.person import Person
from tests.e2e.framework.sessions import only_session, state_of, suspend

STORY = "sleep"


async def _no_pods(namespace: str) -> None:
    async def gone() -> bool:
        return not await get_all("pods", namespace)

    await until("the pod to be gone", gone)


async def test_a_suspended_session_has_no_pod_and_wakes_with_its_files() -> None:
    await apply(profile(STORY, "claim", sandbox={"workspace": {"kind": "PersistentVolumeClaim", "size": "64Mi"}}))
    await profile_ready(STORY, "claim")
    async with Person(STORY) as ann:
        await ann.say("nap", commands("echo kept > file.txt", say="written"), profile="claim")
        (session,) = await only_session(ann.namespace)
        name, epoch = session["metadata"]["name"], session["status"]["epoch"]

        await suspend(ann.namespace, name, True)
        await state_of(ann.namespace, name, "Suspended")
        await _no_pods(ann.namespace)

        waiting = asyncio.create_task(ann.say("nap", "!cat file.txt", profile="claim"))
        pending = await _pending(ann.namespace, name)
        assert pending >= 1, "a message to a suspended session waits, and kubectl shows it"

        await suspend(ann.namespace, name, False)
        assert "kept" in await waiting
        awake = await state_of(ann.namespace, name, "Ready")
        assert awake["status"]["epoch"] == epoch + 1


async def _pending(namespace: str, name: str) -> int:
    async def found() -> int:
        sessions = await get_all("hermessessions", namespace)
        return int(next((s["status"].get("pending", 0) for s in sessions if s["metadata"]["name"] == name), 0))

    return int(await until("pending messages in status", found, deadline_seconds=90))


async def test_an_idle_session_goes_to_sleep_and_remembers() -> None:
    await apply(profile(STORY, "late", idleTimeoutSeconds=5))
    await profile_ready(STORY, "late")
    async with Person(STORY) as ann:
        await ann.say("idle", "my favourite number is 4711", profile="late")
        sessions = await only_session(ann.namespace, 2)
        name = next(s["metadata"]["name"] for s in sessions if s["spec"]["profileRef"]["name"] == "late")
        await state_of(ann.namespace, name, "Asleep")
        await ann.say("idle", "hello again", profile="late")
        (mine,) = [s for s in await ann.sessions() if s["profile"] == "late"]
        messages = await ann.request("GET", f"/api/sessions/{mine['id']}/messages")
        assert "4711" in messages.text
        assert "hello again" in messages.text
