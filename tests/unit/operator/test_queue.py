"""The queue: each key once, one worker a key, failures backed off, one heap."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st

from hermes_operator.engine.queue import MAX_BACKOFF_SECONDS, WorkQueue, backoff_seconds


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> WorkQueue[str]:
    return WorkQueue(clock, lambda: 0.0)


async def test_a_key_that_waits_is_there_once(queue: WorkQueue[str]) -> None:
    for _ in range(3):
        queue.add("a")
    assert len(queue) == 1
    assert await queue.get() == "a"
    assert len(queue) == 0


async def test_a_change_during_a_pass_brings_another_pass(queue: WorkQueue[str]) -> None:
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    assert len(queue) == 0, "no second worker may have it meanwhile"
    queue.done(key, failed=False)
    assert await queue.get() == "a"


async def test_a_failed_key_comes_back_later_and_success_forgets_it(queue: WorkQueue[str], clock: Clock) -> None:
    queue.add("a")
    queue.done(await queue.get(), failed=True)
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    clock.now = 1.0
    assert await asyncio.wait_for(waiting, 2) == "a"
    queue.done("a", failed=False)
    assert queue.failures("a") == 0


async def test_a_change_does_not_cut_a_backoff_short(queue: WorkQueue[str], clock: Clock) -> None:
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.done(key, failed=True)
    assert len(queue) == 0
    clock.now = 1.0
    assert await asyncio.wait_for(queue.get(), 2) == "a"


async def test_the_earliest_due_time_counts(queue: WorkQueue[str], clock: Clock) -> None:
    queue.add_at("a", 10.0)
    queue.add_at("a", 5.0)
    queue.add_at("a", 20.0)
    clock.now = 5.0
    assert await queue.get() == "a"
    queue.done("a", failed=False)
    clock.now = 30.0
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 0.01)


@given(st.integers(min_value=1, max_value=10_000), st.floats(min_value=0, max_value=1, exclude_max=True))
def test_backoff_grows_and_is_bounded(failures: int, chance: float) -> None:
    found = backoff_seconds(failures, chance)
    assert 0 < found <= MAX_BACKOFF_SECONDS
    assert found <= 2 * backoff_seconds(failures + 1, 0.0)
