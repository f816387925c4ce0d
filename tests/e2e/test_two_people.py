"""Two people, two pods: no file, subject or row of one is within the other's reach."""

from __future__ import annotations

from tests.e2e.framework.installation import commands
from tests.e2e.framework.person import Person
from tests.e2e.framework.sessions import only_session, pod_running, python_in, shell

STORY = "two-people"


async def test_two_people_with_the_same_session_id_never_meet() -> None:
    async with Person(STORY) as ann, Person(STORY, "ben") as ben:
        await ann.say("shared-id", commands("echo ann-was-here > secret.txt"))
        seen = await ben.say("shared-id", "!ls; cat secret.txt")
        assert "ann-was-here" not in seen

        sessions = await only_session(ann.namespace, 2)
        assert len({s["status"]["id"] for s in sessions}) == 2
        pods = [await pod_running(ann.namespace, s["metadata"]["name"]) for s in sessions]
        addresses = [p["status"]["podIP"] for p in pods]
        assert len(set(addresses)) == 2
        theirs = {s["id"] for s in await ann.sessions()} & {s["id"] for s in await ben.sessions()}
        assert not theirs


async def test_one_agents_credential_opens_nothing_of_the_other() -> None:
    async with Person(STORY) as ann, Person(STORY, "ben") as ben:
        await ann.say("shared-id", "hello")
        await ben.say("shared-id", "hello")
        first, second = await only_session(ann.namespace, 2)
        pod = await pod_running(ann.namespace, first["metadata"]["name"])
        sid, epoch = second["status"]["id"], second["status"]["epoch"]
        tried = await python_in(ann.namespace, pod["metadata"]["name"], "agent", _reach_for(sid, epoch))
        assert tried.split() == ["refused"] * 5, tried


def _reach_for(sid: str, epoch: int) -> str:
    """Code that uses the agent's own credential for the other session's subjects; prints a word for each attempt."""
    return f"""
import asyncio, json, sys
sys.path.insert(0, "/app/src")
from pathlib import Path
from hermes_contracts import subjects
from hermes_service.bus import BusCredentials, connect
home = Path("/run/hermes/session")
config = json.loads((home / "session.json").read_text())
async def main():
    errors = []
    credentials = BusCredentials.load(home / "bus.creds")
    bus = await connect(config["bus_url"], credentials, name="x", inbox=subjects.agent_inbox(config["sid"], config["epoch"]))
    async def note(error): errors.append(str(error))
    bus._error_cb = note
    sid, epoch = "{sid}", {epoch}
    stream, consumer = subjects.in_stream(sid), subjects.consumer(sid, epoch)
    wanted = [
        subjects.agent_store(sid, epoch, "load"), subjects.inbound(sid), subjects.delta(sid, epoch),
        "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer,
    ]
    for subject in wanted: await bus.publish(subject, b"{{}}")
    await bus.subscribe(subjects.control(sid))
    await bus.publish("nobody.may.1", b"")
    while not any("nobody.may.1" in e for e in errors): await asyncio.sleep(0.01)
    for subject in [*wanted, subjects.control(sid)]:
        print("refused" if any(subject.lower() in e.lower() for e in errors) else "ALLOWED:" + subject)
asyncio.run(main())
"""


async def test_the_workspace_of_one_is_not_mounted_in_the_other() -> None:
    async with Person(STORY) as ann:
        sessions = await only_session(ann.namespace, 2)
        pods = [await pod_running(ann.namespace, s["metadata"]["name"]) for s in sessions]
        found = [
            await shell(ann.namespace, p["metadata"]["name"], "sandbox", "sh", "-c", "cat /workspace/secret.txt || true")
            for p in pods
        ]
        assert sorted(text.strip() for text in found) == ["", "ann-was-here"]
