"""One conversation through two crashes, a provider that fails, and a compression: what the model reads only ever grows."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from release.kubectl import apply, kubectl
from tests.e2e.framework.installation import commands, profile, profile_ready
from tests.e2e.framework.model_requests import Asked, asked, breaks, hanging
from tests.e2e.framework.node import kill_container
from tests.e2e.framework.person import Person
from tests.e2e.framework.sessions import pod_running, session_of, shell

STORY = "long"
PROFILE = "late"
WINDOW_TOKENS = 16_000
FILLER = "Keep in mind that the river runs north and the road runs south. " * 60
"""About a thousand tokens."""


@dataclass(frozen=True)
class Talk:
    """A conversation, and the names under which its models are asked: every run has its own."""

    ann: Person
    chat: str
    main: str
    stand_in: str

    async def say(self, text: str) -> str:
        return await self.ann.say(self.chat, text, profile=PROFILE)

    async def requests(self) -> list[Asked]:
        return await asked(self.main, self.stand_in)

    async def pod(self) -> str:
        name = (await session_of(self.ann.namespace, self.chat))["metadata"]["name"]
        return str((await pod_running(self.ann.namespace, name))["metadata"]["name"])


def _models(main: str, stand_in: str) -> dict[str, Any]:
    facts = {"contextWindow": WINDOW_TOKENS}
    side = {"provider": "scripted", "name": "side-jobs"}
    return {
        "provider": "scripted",
        "name": main,
        "facts": facts,
        "fallbacks": [{"provider": "scripted", "name": stand_in, "apiMode": "anthropic_messages", "facts": facts}],
        "auxiliary": {"compression": side, "title": side},
    }


@pytest.fixture
async def talk() -> AsyncIterator[Talk]:
    run = uuid.uuid4().hex[:8]
    main, stand_in = f"main-{run}", f"stand-in-{run}"
    await apply(profile(STORY, PROFILE, model=_models(main, stand_in)))
    await profile_ready(STORY, PROFILE)
    async with Person(STORY) as ann:
        yield Talk(ann, f"long-{run}", main, stand_in)


@pytest.mark.timeout(600)
async def test_what_the_model_reads_only_grows_through_crashes_failover_and_compression(talk: Talk) -> None:
    await _work(talk)
    await _crash_in_a_command(talk)
    await _failover(talk)
    assert breaks(await talk.requests()) == [], "nothing but compression may change what was said"
    await _compression(talk)
    await _crash_in_a_model_call(talk)
    await _work(talk)

    requests = await talk.requests()
    assert {one.format for one in requests} == {"openai", "anthropic"}, "the stand-in speaks another wire format"
    changed = [later.format for _, later in breaks(requests)]
    assert len(changed) == len(set(changed)), f"more than the compression changed what was said: {breaks(requests)}"
    await _everything_was_said_once(talk)


async def _work(talk: Talk) -> None:
    assert await talk.say(commands("echo worked >> work", "cat work", say="worked")) == "worked"


async def _crash_in_a_command(talk: Talk) -> None:
    """The agent's process is killed while a command runs: it goes on in the same pod, and does not repeat the command."""
    pod, namespace = await talk.pod(), talk.ann.namespace
    turn = asyncio.create_task(talk.say(commands("echo once >> effects; sleep 3600", say="went on")))
    await shell(namespace, pod, "sandbox", "sh", "-c", "until [ -e /workspace/effects ]; do sleep 0.1; done")
    await kill_container(namespace, pod, "agent")
    assert await turn == "went on"
    assert "once" in await talk.say("!cat effects")
    assert (await shell(namespace, pod, "sandbox", "cat", "/workspace/effects")).split() == ["once"]


async def _failover(talk: Talk) -> None:
    """The provider stumbles once, then sends everybody away for minutes: another one takes over within the turn."""
    run = uuid.uuid4().hex
    script = {
        "id": run,
        "steps": [
            {"status": 500, "times": 1},
            {"status": 429, "headers": {"retry-after": "120"}, "times": 1},
            {"calls": [{"name": "terminal", "arguments": {"command": "echo over >> failover"}}]},
            {"say": "taken over"},
        ],
    }
    assert await talk.say(f"please\n#script {json.dumps(script)}") == "taken over"
    requests = await talk.requests()
    assert [one.status for one in requests if one.model == talk.main and one.status >= 400] == [500, 429]
    assert [one for one in requests if one.model == talk.stand_in and one.status == 200]


async def _compression(talk: Talk) -> None:
    """Talk until the conversation is too long for the model's window."""
    for number in range(30):
        assert await talk.say(f'{FILLER}\n#script {{"say": "noted {number}"}}') == f"noted {number}"
        if breaks(await talk.requests()):
            return
    raise AssertionError("thirty thousand tokens and no compression")


async def _crash_in_a_model_call(talk: Talk) -> None:
    """The pod dies while the model is asked: the next one asks the same again, with the results it had."""
    script = {
        "id": uuid.uuid4().hex,
        "steps": [
            {"calls": [{"name": "terminal", "arguments": {"command": "echo before the crash"}}]},
            {"hang_seconds": 600, "hang_at": "start", "times": 1},
            {"say": "came back"},
        ],
    }
    pod = await talk.pod()
    before = (await talk.requests())[-1].number
    turn = asyncio.create_task(talk.say(f"please\n#script {json.dumps(script)}"))
    await hanging(talk.main, talk.stand_in, after=before, step=1)
    await kubectl("delete", "pod", pod, "-n", talk.ann.namespace, "--grace-period=0", "--force", "--wait=false")
    assert await turn == "came back"


async def _everything_was_said_once(talk: Talk) -> None:
    """The person's transcript has it all, the compression happened once, and no command ran twice."""
    (mine,) = [s for s in await talk.ann.sessions() if s["client_id"] == talk.chat]
    last = await talk.ann.send(mine["id"], "the end", wait=100)
    events = await talk.ann.events(mine["id"], last["message_id"])
    assert [e["type"] for e in events].count("conversation.compacted") == 1
    said = [m for m in await talk.ann.transcript(mine["id"]) if m["role"] == "assistant"]
    for answer, times in (("went on", 1), ("taken over", 1), ("came back", 1), ("noted 0", 1), ("worked", 2)):
        assert [_text(m) for m in said].count(answer) == times, answer


def _text(message: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in message["parts"] if part.get("type") == "text")
