"""A message comes in; an agent pod with its sandbox appears; a command runs in the sandbox; the reply streams back."""

from __future__ import annotations

from release.kubectl import kubectl
from tests.e2e.framework.installation import commands
from tests.e2e.framework.person import Person, content
from tests.e2e.framework.sessions import only_session, pod_running, shell, state_of

STORY = "first-reply"


async def test_the_first_message_makes_a_pod_and_gets_an_answer() -> None:
    async with Person(STORY) as ann:
        pieces, tools = [], []
        text = commands("echo $((6 * 7)) > answer.txt; cat answer.txt; id -u", say="The answer is in answer.txt.")
        async with ann.streaming("first", text) as chunks:
            async for chunk in chunks:
                if chunk["event"] == "hermes.tool.progress":
                    tools.append(chunk["hermes"]["tool"]["tool"])
                elif content(chunk):
                    pieces.append(content(chunk))
        assert "".join(pieces) == "The answer is in answer.txt."
        assert "terminal" in tools

        (session,) = await only_session(ann.namespace)
        name = session["metadata"]["name"]
        pod = await pod_running(ann.namespace, name)
        containers = [c["name"] for c in pod["spec"]["initContainers"] + pod["spec"]["containers"]]
        assert containers == ["sandbox", "agent"]
        pod_name = pod["metadata"]["name"]
        assert (await shell(ann.namespace, pod_name, "sandbox", "cat", "/workspace/answer.txt")).strip() == "42"

        assert "42" in (await ann.say("first", "!cat answer.txt")), "the second message continues in the same workspace"
        assert len(await only_session(ann.namespace)) == 1


async def test_kubectl_tells_what_is_going_on() -> None:
    async with Person(STORY) as ann:
        await ann.say("first", "hello")
        (session,) = await only_session(ann.namespace)
        name = session["metadata"]["name"]
        awake = await state_of(ann.namespace, name, "Ready")
        assert awake["status"]["isolation"] == "Container"
        assert awake["status"]["startupMilliseconds"]["total"] > 0
        listed = await kubectl("get", "hs", "-n", ann.namespace)
        assert f"ann@{STORY}" in listed
        assert "Ready" in listed
        described = await kubectl("describe", "hs", name, "-n", ann.namespace)
        for word in ("Ready", "Scheduled", "SandboxReady", "BusReady", "Started"):
            assert word in described, described


async def test_the_transcript_is_there_for_its_owner() -> None:
    async with Person(STORY) as ann, Person(STORY, "ben") as ben:
        await ann.say("transcript", "remember the number 7919")
        (mine,) = [s for s in await ann.sessions() if "transcript" in str(s)]
        messages = await ann.request("GET", f"/api/sessions/{mine['id']}/messages")
        assert "7919" in messages.text
        foreign = await ben.request("GET", f"/api/sessions/{mine['id']}/messages")
        assert foreign.status_code == 404
        assert "7919" not in foreign.text
