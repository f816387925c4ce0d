"""Everything is killed in turn while people talk: each message is answered once, in order, and no effect happens twice.

`make e2e` runs the short form, `make chaos` the whole one. The seed is printed; `CHAOS_SEED` runs the same plan again.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import time
import uuid
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from release.kubectl import apply, kubectl
from tests.chaos.framework.aftermath import everybody_sleeps, everything_is_ready, leftovers
from tests.chaos.framework.kills import Reaper
from tests.chaos.framework.load import EFFECTS, Client
from tests.chaos.framework.plan import TARGETS, Kill, plan, replay
from tests.chaos.framework.verdict import Evidence, Verdict, judge
from tests.e2e.framework.installation import namespace_of, profile, profile_ready
from tests.e2e.framework.person import Person
from tests.e2e.framework.sessions import pod_running, session_of, shell

STORY = "chaos"
NAMESPACE = namespace_of(STORY)
SEED = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(10**6))
KILLS = int(os.environ.get("CHAOS_KILLS") or 1)
"""Of each target."""
SECONDS = float(os.environ.get("CHAOS_SECONDS") or 5.0 * KILLS * len(TARGETS))
SESSIONS = 5
PATIENCE_SECONDS = 600.0
"""How long a client repeats a call: some storms leave hardly a calm moment."""
IDLE_SECONDS = 8
"""A session that pauses for longer sleeps and is woken."""


@pytest.mark.timeout(SECONDS + 900)
async def test_nothing_is_lost_doubled_reordered_or_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    kills = plan(SEED, KILLS, SECONDS)
    with capsys.disabled():
        print(f"\n{len(kills)} kills in {SECONDS:g} s. To run the same plan: {replay(SEED, KILLS, SECONDS)}")
    await _prepare()
    reaper = Reaper(NAMESPACE)
    run = uuid.uuid4().hex[:6]
    try:
        async with AsyncExitStack() as people:
            clients = [
                Client(
                    await people.enter_async_context(Person(STORY, patience_seconds=PATIENCE_SECONDS)),
                    f"s{n}-{run}",
                    "late",
                    _pause(n),
                )
                for n in range(SESSIONS)
            ]
            started = time.monotonic()
            await _storm(clients, reaper, kills)
            took = time.monotonic() - started
            await everything_is_ready()
            evidence = [await _gather(client) for client in clients]
    finally:
        with capsys.disabled():
            print("\n".join(reaper.log))
    verdicts = [judge(one) for one in evidence]
    await everybody_sleeps(NAMESPACE)
    left = await leftovers(NAMESPACE)
    with capsys.disabled():
        print(_table(reaper, verdicts, left, clients, took))
    assert [fault for verdict in verdicts for fault in verdict.faults] == []
    assert left == [], "something was left behind"
    assert set(reaper.done.values()) == {KILLS}


def _pause(number: int) -> float:
    """The first one's person takes breaks, so that waking up is under fire, too."""
    return IDLE_SECONDS + 4.0 if number == 0 else 0.0


async def _prepare() -> None:
    await kubectl("delete", "hs", "--all", "-n", NAMESPACE, "--wait")
    claim = {"kind": "PersistentVolumeClaim", "size": "64Mi"}
    sandbox = {"workspace": claim, "resources": {"cpu": "20m", "memory": "256Mi"}}
    await apply(profile(STORY, "late", idleTimeoutSeconds=IDLE_SECONDS, sandbox=sandbox))
    await profile_ready(STORY, "late")
    await everything_is_ready()


async def _storm(clients: list[Client], reaper: Reaper, kills: list[Kill]) -> None:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(client.run(stop))
        try:
            await reaper.run(kills)
        finally:
            stop.set()


async def _gather(client: Client) -> Evidence:
    """Ask the API for everything it knows of a session, and its workspace for the file."""
    person, sid = client.person, client.sid
    turns = {one.name: await person.turn(sid, one.message_id) for one in client.sent}
    await person.send(sid, "the end", wait=100)
    name = (await session_of(NAMESPACE, client.chat))["metadata"]["name"]
    pod = (await pod_running(NAMESPACE, name))["metadata"]["name"]
    effects = await shell(NAMESPACE, pod, "sandbox", "sh", "-c", f"cat /workspace/{EFFECTS} 2>/dev/null || true")
    return Evidence(
        chat=client.chat,
        sent=[one.name for one in client.sent],
        turns=turns,
        transcript=await person.transcript(sid),
        events=await person.events(sid, client.sent[-1].message_id),
        effects=effects.split(),
    )


def _table(reaper: Reaper, verdicts: list[Verdict], left: list[str], clients: list[Client], took: float) -> str:
    counts: Counter[str] = sum((verdict.counts for verdict in verdicts), Counter())
    waits = sorted(wait for client in clients for wait in client.waits)
    rows = [
        ("seconds", f"{took:.0f}"),
        *((f"kills of {target}", str(reaper.done[target])) for target in TARGETS),
        *((what, str(number)) for what, number in counts.items()),
        ("a burst answered after, p50 and most", f"{statistics.median(waits):.1f} s, {waits[-1]:.1f} s"),
        ("promises broken", str(sum(len(verdict.faults) for verdict in verdicts))),
        ("left behind", str(len(left))),
    ]
    width = max(len(what) for what, _ in rows)
    return "\n".join(f"| {what:<{width}} | {value:>14} |" for what, value in rows)
