"""A system that posts 200 webhooks a second, each of them several times: all are taken, and each is answered once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from release.kubectl import until
from tests.e2e.framework.fake_platform import FakePlatform, fake_platform
from tests.e2e.framework.installation import STORM

pytestmark = pytest.mark.timeout(300)

STORY = "storm"
RATE, SECONDS, REPEATS, SESSIONS = 200, 10, 10, 4


@pytest.fixture
async def system() -> AsyncIterator[FakePlatform]:
    async with fake_platform(STORM, "webhook_pod", "/webhooks/storm") as found:
        yield found


async def test_a_storm_of_webhooks_is_taken_and_each_is_answered_once(system: FakePlatform) -> None:
    said = await system.act(rate=RATE, seconds=SECONDS, repeats=REPEATS, threads=SESSIONS)
    print(f"{RATE} webhooks a second for {SECONDS} s, client included: p50 {said['p50']} ms, p99 {said['p99']} ms")
    assert said["statuses"] == {"200": RATE * SECONDS}
    assert said["duplicates"] == RATE * SECONDS - said["messages"]
    expected = {f"answer {number}": 1 for number in range(said["messages"])}

    async def answered() -> bool:
        return len((await system.state())["answers"]) >= len(expected)

    await until("an answer to each message", answered, deadline_seconds=200)
    state = await system.state()
    assert (state["answers"], state["forged"]) == (expected, 0)
