"""Kill anything in mid-turn: the turn completes once or is reported as interrupted, and nothing happens twice."""

from __future__ import annotations

import asyncio
import re
import uuid

import pytest

from release.kubectl import get_all, kubectl, until
from tests.e2e.framework.installation import NAMESPACE, RELEASE, commands
from tests.e2e.framework.node import kill_container
from tests.e2e.framework.person import Person
from tests.e2e.framework.sessions import pod_running, session_of, shell

STORY = "kills"
OURS = ("operator", "gateway", "store", "models", "bus", "database")


async def _kill_component(component: str) -> None:
    """SIGKILL, by deleting every pod of a component without grace."""
    selector = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component={component}"
    assert await get_all("pods", NAMESPACE, selector), f"no pod of {component}"
    await kubectl("delete", "pods", "-n", NAMESPACE, "-l", selector, "--grace-period=0", "--force", "--wait=false")


async def _settled() -> None:
    async def ready() -> bool:
        pods = await get_all("pods", NAMESPACE, f"app.kubernetes.io/instance={RELEASE}")
        return all(
            any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", [])) for p in pods
        )

    await until("every pod of the installation to be ready", ready, deadline_seconds=180)


async def _turn_with_kill(ann: Person, session: str, component: str) -> str:
    """Start a turn that writes a line and waits; kill; let it go on; return the answer."""
    await ann.say(session, "hello")
    found = await session_of(ann.namespace, session)
    pod = (await pod_running(ann.namespace, found["metadata"]["name"]))["metadata"]["name"]
    text = commands(f"echo {component} >> effects; until [ -e go-{component} ]; do sleep 0.1; done", say="finished")
    turn = asyncio.create_task(ann.say(session, text, key=f"turn-{session}"))
    await shell(ann.namespace, pod, "sandbox", "sh", "-c", "until [ -e /workspace/effects ]; do sleep 0.1; done")
    await _kill_component(component)
    await shell(ann.namespace, pod, "sandbox", "touch", f"/workspace/go-{component}")
    return await turn


@pytest.mark.parametrize("component", OURS)
@pytest.mark.timeout(400)
async def test_a_turn_survives_the_death_of_our_processes(component: str) -> None:
    async with Person(STORY) as ann:
        session = f"kill-{component}-{uuid.uuid4().hex[:8]}"
        answer = await _turn_with_kill(ann, session, component)
        assert answer == "finished"
        await _settled()
        effects = await ann.say(session, "!cat effects")
        assert effects.count(component) == 1, "the command ran once"
        transcript = await _transcript(ann, session)
        assert transcript.count("finished") <= 2, "one answer in the transcript (and once in the script that asked for it)"


async def _transcript(ann: Person, session: str) -> str:
    (mine,) = [s for s in await ann.sessions() if session in str(s)]
    return (await ann.request("GET", f"/api/sessions/{mine['id']}/messages")).text


@pytest.mark.timeout(300)
async def test_an_agent_pod_that_dies_in_a_turn_is_replaced_and_the_command_is_not_repeated() -> None:
    async with Person(STORY) as ann:
        session = f"kill-pod-{uuid.uuid4().hex[:8]}"
        await ann.say(session, "hello")
        found = await session_of(ann.namespace, session)
        pod = await pod_running(ann.namespace, found["metadata"]["name"])
        text = commands("echo once >> /workspace/effects; sleep 3600", say="resumed")
        turn = asyncio.create_task(ann.say(session, text, key=f"turn-{session}"))
        name = pod["metadata"]["name"]
        await shell(ann.namespace, name, "sandbox", "sh", "-c", "until [ -e /workspace/effects ]; do sleep 0.1; done")
        await kubectl("delete", "pod", name, "-n", ann.namespace, "--grace-period=0", "--force", "--wait=false")
        assert await turn == "resumed"
        transcript = await _transcript(ann, session)
        told = re.search(r"interrupted|sandbox (?:stopped|is gone|restarted)", transcript, re.IGNORECASE)
        assert told, f"the model was told that the effect of the command is unknown: {transcript}"
        assert "once" not in await ann.say(session, "!cat effects 2>/dev/null; true"), "nothing ran again in the new pod"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("container", ["agent", "sandbox"])
async def test_a_container_that_dies_in_a_turn_does_not_repeat_the_command(container: str) -> None:
    async with Person(STORY) as ann:
        session = f"kill-{container}-{uuid.uuid4().hex[:8]}"
        await ann.say(session, "hello")
        found = await session_of(ann.namespace, session)
        pod = (await pod_running(ann.namespace, found["metadata"]["name"]))["metadata"]["name"]
        text = commands("echo once >> effects; sleep 3600", say="resumed")
        turn = asyncio.create_task(ann.say(session, text, key=f"turn-{session}"))
        await shell(ann.namespace, pod, "sandbox", "sh", "-c", "until [ -e /workspace/effects ]; do sleep 0.1; done")
        await _kill_first_process(ann.namespace, pod, container)
        assert await turn == "resumed"
        assert (await ann.say(session, "!cat effects")).count("once") == 1


async def _kill_first_process(namespace: str, pod: str, container: str) -> None:
    """The kernel shields process 1 from its own namespace: the node kills it, as it would for lack of memory."""
    await kill_container(namespace, pod, container)


async def test_everything_is_well_afterwards() -> None:
    await _settled()
    async with Person(STORY) as ann:
        assert "well" in await ann.say("afterwards", "!echo well")
