"""A message that kills its agent each time is put aside: the person is told, kubectl shows it, one command sends it anew."""

from __future__ import annotations

import json
import re
import uuid

import pytest

from release.kubectl import apply, kubectl, until
from tests.e2e.framework.installation import NAMESPACE, RELEASE, profile, profile_ready
from tests.e2e.framework.model_requests import hanging
from tests.e2e.framework.person import Person
from tests.e2e.framework.sessions import condition_of, events_of, pod_of, session_of

STORY = "poison"
PROFILE = "late"
ATTEMPTS = 5
"""The limit of attempts: `store.rules.MAX_ATTEMPTS`."""


def _poison(model_calls: int) -> str:
    """A message during which the model is silent so often, long enough to be killed each time."""
    steps = [{"hang_seconds": 600, "hang_at": "start", "times": model_calls}, {"say": "well again"}]
    return f"please\n#script {json.dumps({'id': uuid.uuid4().hex, 'steps': steps})}"


@pytest.mark.timeout(600)
async def test_a_message_that_kills_every_agent_is_put_aside_and_can_be_sent_again() -> None:
    model = f"poisoned-{uuid.uuid4().hex[:8]}"
    await apply(profile(STORY, PROFILE, model={"provider": "scripted", "name": model}))
    await profile_ready(STORY, PROFILE)
    async with Person(STORY) as ann:
        chat = f"poison-{uuid.uuid4().hex[:8]}"
        await ann.say(chat, "hello", profile=PROFILE)
        session = await session_of(ann.namespace, chat)
        name, sid = session["metadata"]["name"], session["status"]["id"]

        sent = await ann.send(sid, _poison(ATTEMPTS))
        behind = await ann.send(sid, '#script {"say": "the next one"}')
        await _kill_each_time(ann.namespace, name, model)
        turn = await _settled(ann, sid, sent["message_id"])
        assert (turn["state"], turn["reason"]) == ("dead", "too_many_attempts")
        assert "put aside" in turn["reply"]
        assert (await _settled(ann, sid, behind["message_id"]))["reply"] == "the next one", "nobody waits behind it for ever"

        await condition_of(ann.namespace, "hermessession", name, "DeadLetter", status="True", says="given up")
        assert "MessagesGivenUp" in await events_of(ann.namespace, name)
        assert "DeadLetter" in await kubectl("describe", "hs", name, "-n", ann.namespace)

        shown = await _replay(f"{ann.namespace}/{name}")
        assert re.search(r"too_many_attempts", shown), shown
        assert "sent again" in await _replay(f"{ann.namespace}/{name}", "--all")
        assert "no dead letters" in await _replay(f"{ann.namespace}/{name}", "--all"), "twice is once"
        await _answered_once(ann, sid, "well again")


async def _kill_each_time(namespace: str, name: str, model: str) -> None:
    """Delete the pod each time its agent asks the model for this message."""
    number = 0
    for _ in range(ATTEMPTS):
        number = (await hanging(model, after=number)).number
        pod = await until("the pod that asks", lambda: _pod(namespace, name))
        await kubectl("delete", "pod", pod, "-n", namespace, "--grace-period=0", "--force", "--wait=false")


async def _pod(namespace: str, name: str) -> str:
    session = json.loads(await kubectl("get", "hs", name, "-n", namespace, "-o", "json"))
    found = await pod_of(session)
    return str(found["metadata"]["name"]) if found else ""


async def _settled(ann: Person, sid: str, message_id: str) -> dict[str, str]:
    async def settled() -> dict[str, str] | None:
        turn = await ann.turn(sid, message_id)
        return turn if turn["state"] in ("done", "failed", "dead") else None

    return dict(await until(f"{message_id} to be settled", settled, deadline_seconds=240, period_seconds=1))


async def _replay(session: str, *options: str) -> str:
    command = ("/app/bin/python3", "-m", "hermes_operator", "replay", session, *options)
    return await kubectl("exec", "-n", NAMESPACE, f"deploy/{RELEASE}-operator", "--", *command)


async def _answered_once(ann: Person, sid: str, answer: str) -> None:
    async def times() -> int:
        said = [m for m in await ann.transcript(sid) if m["role"] == "assistant"]
        return sum(any(part.get("text") == answer for part in m["parts"]) for m in said)

    await until(f"{answer!r} to be said", times, deadline_seconds=120)
    last = await ann.send(sid, '#script {"say": "the last one"}')
    await _settled(ann, sid, last["message_id"])
    assert await times() == 1
