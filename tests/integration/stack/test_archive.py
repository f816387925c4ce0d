"""A workspace of kind Archive outlives its pod: files come back as they were, and what a crash took is told.

Here a pod is a folder of one epoch: whatever is in the next one came from the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from hermes_contracts.crd.profile import ModelSettings, ProfileSpec, Sandbox, Workspace
from local_stack.processes import free_port
from local_stack.runner import LocalRunner, LocalSession
from local_stack.stack import LocalProfile, running_stack, stack_folder
from tests.integration.stack.conftest import Receiver, World

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

PROFILE = LocalProfile(
    spec=ProfileSpec(
        model=ModelSettings(provider="scripted", name="scripted-1"),
        sandbox=Sandbox(workspace=Workspace(kind="Archive", size="64Mi")),
    )
)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def world() -> AsyncIterator[World]:
    with stack_folder() as folder:
        async with running_stack(folder, profiles=(PROFILE,)) as stack:
            runner = LocalRunner(stack)
            task = asyncio.create_task(runner.run())
            try:
                yield World(stack, runner, Receiver(free_port()))
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


def session_of(world: World, sid: str) -> LocalSession:
    return world.runner.sessions[sid]


def folder_of(world: World, sid: str) -> Path:
    """The workspace of the session's newest pod."""
    return world.stack.folder / "sessions" / sid / str(session_of(world, sid).epoch) / "workspace"


def running(command: str) -> str:
    call = {"calls": [{"name": "terminal", "arguments": {"command": command}}]}
    return f"go\n#script {json.dumps(call)}\n#script {json.dumps({'say': 'done'})}"


async def sid_of(world: World, chat: str) -> str:
    return str((await world.session(chat))["id"])


async def logged(world: World, sid: str, event: str) -> dict[str, Any]:
    """Wait until the session's agent logs an event."""
    file = world.stack.folder / "sessions" / sid / str(session_of(world, sid).epoch) / "agent.log"
    async with asyncio.timeout(60):
        while True:
            for line in file.read_text().splitlines() if file.exists() else []:
                if line.startswith("{") and json.loads(line).get("event") == event:
                    return dict(json.loads(line))
            await asyncio.sleep(0.05)


async def test_files_are_as_they_were_after_sleep_and_wake(world: World) -> None:
    await world.say("sleeper", running("mkdir -m 750 src empty; echo hello > src/a; chmod 640 src/a; ln -s src/a link"))
    sid = await sid_of(world, "sleeper")
    before = folder_of(world, sid)
    (before / "big.bin").write_bytes(os.urandom(1_500_000))
    picture = {str(p.relative_to(before)): p.lstat().st_mtime_ns for p in before.rglob("*")}
    await world.runner.suspend(sid)

    assert await world.say("sleeper", running("cat link && wc -c < big.bin")) == "done"
    after = folder_of(world, sid)
    assert after != before
    assert {str(p.relative_to(after)): p.lstat().st_mtime_ns for p in after.rglob("*")} == picture
    assert stat.S_IMODE((after / "src").stat().st_mode) == 0o750
    assert (after / "big.bin").read_bytes() == (before / "big.bin").read_bytes()
    heard = json.dumps(await world.transcript("sleeper"))
    assert "1500000" in heard
    assert "[from the platform" not in heard, "nothing was lost, so nothing is told"


async def test_what_was_not_touched_is_not_sent_again(world: World) -> None:
    await world.say("frugal", running("head -c 3000000 /dev/urandom > data"))
    sid = await sid_of(world, "frugal")
    await world.runner.suspend(sid)
    assert (await logged(world, sid, "workspace.saved"))["sent_bytes"] > 3_000_000
    await world.say("frugal", running("echo more > note"))
    await world.runner.suspend(sid)
    saved = await logged(world, sid, "workspace.saved")
    assert 0 < saved["sent_bytes"] < 10_000


async def test_a_crash_loses_what_was_not_saved_and_the_model_is_told(world: World) -> None:
    await world.say("crasher", running("echo saved > one"))
    sid = await sid_of(world, "crasher")
    await logged(world, sid, "workspace.saved")
    await world.say("crasher", running("echo lost > two; mkfifo pipe"))
    session = session_of(world, sid)
    await session.agent.kill()
    await session.sandbox.kill()

    await world.say("crasher", running("ls"))
    after = folder_of(world, sid)
    assert [p.name for p in after.iterdir()] == ["one"]
    told = [m for m in await world.transcript("crasher") if "[from the platform" in json.dumps(m)]
    assert len(told) == 1
    text = told[0]["parts"][0]["text"]
    assert "restarted without warning" in text
    assert "UTC; what was changed after that is lost" in text
    await world.say("crasher", "and now?")
    assert json.dumps(await world.transcript("crasher")).count("[from the platform") == 1, "told once"


async def test_a_crash_in_the_middle_of_a_command_is_told_with_its_result(world: World) -> None:
    await world.say("midway", "hello")
    sid = await sid_of(world, "midway")
    say = asyncio.create_task(world.say("midway", running("echo begun > begun; sleep 300"), key="midway"))
    async with asyncio.timeout(60):
        while not (folder_of(world, sid) / "begun").exists():
            await asyncio.sleep(0.05)
    session = session_of(world, sid)
    await session.agent.kill()
    await session.sandbox.kill()
    assert await say == "done"
    result = next(m for m in await world.transcript("midway") if "nterrupted" in json.dumps(m))
    assert "[from the platform" in json.dumps(result)
    assert list(folder_of(world, sid).iterdir()) == [], "nothing was saved yet"
    assert "before any file was saved" in json.dumps(result)


async def test_an_agent_that_starts_again_in_its_pod_finds_its_files_and_saves_them(world: World) -> None:
    await world.say("restarter", running("echo here > file"))
    sid = await sid_of(world, "restarter")
    await logged(world, sid, "workspace.saved")
    await world.say("restarter", running("echo too > later"))
    session = session_of(world, sid)
    await session.agent.kill()
    await session.agent.start()
    await world.say("restarter", "hello again")
    assert session_of(world, sid).epoch == session.epoch
    await world.runner.suspend(sid)
    await world.say("restarter", running("true"))
    assert {p.name: p.read_text() for p in folder_of(world, sid).iterdir()} == {"file": "here\n", "later": "too\n"}
    assert "[from the platform" not in json.dumps(await world.transcript("restarter"))


async def test_a_store_that_dies_meanwhile_costs_nothing(world: World) -> None:
    await world.say("patient", running("head -c 9000000 /dev/urandom > data; md5sum data"))
    sid = await sid_of(world, "patient")
    kill = asyncio.create_task(world.stack.restart("store"))
    await world.runner.suspend(sid)
    await kill
    before = folder_of(world, sid)
    await world.say("patient", running("md5sum data"))
    assert (folder_of(world, sid) / "data").read_bytes() == (before / "data").read_bytes()


async def test_what_could_not_be_saved_is_told_when_the_agent_wakes(world: World) -> None:
    await world.say("odd", running("mkfifo pipe; echo x > file"))
    sid = await sid_of(world, "odd")
    await world.runner.suspend(sid)
    await world.say("odd", running("ls"))
    (told,) = [m for m in await world.transcript("odd") if "[from the platform" in json.dumps(m)]
    assert "pipe" in told["parts"][0]["text"]
    assert [p.name for p in folder_of(world, sid).iterdir()] == ["file"]
