"""Talking while the agent works: a message waits its turn, /stop ends a run, a repeated request is the same turn."""

from __future__ import annotations

import asyncio
import uuid

from tests.e2e.framework.installation import Script, commands
from tests.e2e.framework.person import Person
from tests.e2e.framework.sessions import only_session, pod_running, shell

STORY = "conversation"
WAIT_FOR_FILE = "until [ -e {0} ]; do sleep 0.1; done; rm {0}"


async def test_a_message_during_a_run_waits_and_runs_next() -> None:
    async with Person(STORY) as ann:
        await ann.say("busy", "hello")
        (session,) = await only_session(ann.namespace)
        pod = (await pod_running(ann.namespace, session["metadata"]["name"]))["metadata"]["name"]
        async with asyncio.TaskGroup() as group:
            first = group.create_task(
                ann.say("busy", commands(f"echo one >> order; {WAIT_FOR_FILE.format('go')}", say="first"))
            )
            await _file(ann.namespace, pod, "order")
            second = group.create_task(ann.say("busy", commands("echo two >> order", say="second")))
            await shell(ann.namespace, pod, "sandbox", "touch", "/workspace/go")
        assert (first.result(), second.result()) == ("first", "second")
        assert (await shell(ann.namespace, pod, "sandbox", "cat", "/workspace/order")).split() == ["one", "two"]


async def _file(namespace: str, pod: str, name: str) -> None:
    """Wait until a file is in the workspace: the command that makes it is running."""
    await shell(namespace, pod, "sandbox", "sh", "-c", f"until [ -e /workspace/{name} ]; do sleep 0.1; done")


async def test_stop_ends_a_command_that_never_returns() -> None:
    async with Person(STORY) as ann:
        await ann.say("busy", "hello")
        (session,) = await only_session(ann.namespace)
        pod = (await pod_running(ann.namespace, session["metadata"]["name"]))["metadata"]["name"]
        async with asyncio.TaskGroup() as group:
            endless = group.create_task(ann.say("busy", commands("touch started; sleep 100000", say="never said")))
            await _file(ann.namespace, pod, "started")
            stopped = await ann.request("POST", f"/api/sessions/{session['status']['id']}/stop")
            assert stopped.status_code in (200, 202), stopped.text
        assert "topped" in endless.result()
        assert "sleep 100000" not in await shell(
            ann.namespace, pod, "sandbox", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
        )
        assert "still here" in await ann.say("busy", "!echo still here")


async def test_a_repeated_request_is_one_turn_with_one_answer() -> None:
    async with Person(STORY) as ann:
        delivery = f"delivery-{uuid.uuid4().hex}"  # an installation that is used again remembers keys for a day
        text = commands(f"echo ran >> {delivery}", say="counted")
        answers = await asyncio.gather(*(ann.say("busy", text, key=delivery) for _ in range(3)))
        assert set(answers) == {"counted"}
        again = await ann.say("busy", text, key=delivery)
        assert again == "counted"
        assert (await ann.say("busy", f"!cat {delivery}")).count("ran\n") == 1


async def test_a_model_that_misbehaves_gets_the_person_an_answer_or_a_plain_error() -> None:
    async with Person(STORY) as ann:
        recovered = await ann.say("busy", Script(({"status": 500, "times": 1}, {"say": "recovered"})).text())
        assert recovered == "recovered"
        unknown = Script(({"calls": [{"name": "no_such_tool", "arguments": {}}]}, {"say": "sorry"})).text()
        assert await ann.say("busy", unknown) == "sorry"
        refused = await ann.say("busy", Script(({"error": "auth"}, {"error": "auth"})).text())
        assert "key" in refused.lower(), refused
