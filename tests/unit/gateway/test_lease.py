"""At most one holder works, and losing the lease ends the work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, strategies as st
from nats.errors import TimeoutError as NatsTimeout
from nats.js.errors import KeyWrongLastSequenceError

from hermes_gateway.gateway.delivery.lease import Lease, Pace
from hermes_gateway.gateway.delivery.share import Share, fair_share


class Bucket:
    """A bucket's create, update and delete by revision, in memory."""

    def __init__(self) -> None:
        self.revision = 0
        self.held: int | None = None
        self.away = False

    async def create(self, name: str, value: bytes) -> int:
        self._reach()
        if self.held is not None:
            raise KeyWrongLastSequenceError
        return self._write()

    async def update(self, name: str, value: bytes, last: int) -> int:
        self._reach()
        if self.held != last:
            raise KeyWrongLastSequenceError
        return self._write()

    async def delete(self, name: str, last: int) -> None:
        if self.held == last:
            self.held = None

    def _write(self) -> int:
        self.revision += 1
        self.held = self.revision
        return self.revision

    def _reach(self) -> None:
        if self.away:
            raise NatsTimeout


class Work:
    def __init__(self) -> None:
        self.now: set[str] = set()
        self.ever: list[str] = []
        self.finished: list[str] = []

    async def __call__(self, holder: str, finish: asyncio.Event) -> None:
        self.now.add(holder)
        self.ever.append(holder)
        try:
            await finish.wait()
            self.finished.append(holder)
        finally:
            self.now.discard(holder)


async def until(condition: object) -> None:
    async with asyncio.timeout(5):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.005)


QUICK = Pace(
    renew_seconds=0.02,
    give_up_seconds=0.1,
    retry_seconds=0.01,
    look_seconds=0.01,
    finish_seconds=0.2,
    last_words_seconds=0.2,
)


@asynccontextmanager
async def wanting(
    bucket: Bucket, work: Work, instance: str, share: Share | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    lease = Lease(bucket, "x", instance, share or Share(1), QUICK)  # type: ignore[arg-type]
    task = asyncio.create_task(lease.run(work))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_one_works_and_the_next_takes_over() -> None:
    bucket, work = Bucket(), Work()
    async with wanting(bucket, work, "a") as first, wanting(bucket, work, "b"):
        await until(lambda: work.now)
        await until(lambda: bucket.revision > 3)
        assert len(work.now) == 1
        assert len(work.ever) == 1
        first.cancel()
        await until(lambda: len(work.ever) == 2)
        assert len(work.now) == 1
    assert bucket.held is None, "a lease is given back"


async def test_a_stolen_lease_ends_the_work() -> None:
    bucket, work = Bucket(), Work()
    async with wanting(bucket, work, "a"):
        await until(lambda: work.now)
        bucket._write()
        await until(lambda: not work.now)
        assert bucket.held is not None, "somebody else's lease is not given back"


async def test_a_bus_that_is_away_too_long_ends_the_work_and_its_return_starts_it_anew() -> None:
    bucket, work = Bucket(), Work()
    async with wanting(bucket, work, "a"):
        await until(lambda: work.now)
        bucket.away = True
        await until(lambda: not work.now)
        bucket.away, bucket.held = False, None
        await until(lambda: work.now)
    assert len(set(work.ever)) == 2, "each holder has a name of its own"


async def test_work_that_fails_is_started_again() -> None:
    bucket, tries = Bucket(), []

    async def fail(holder: str, finish: asyncio.Event) -> None:
        tries.append(holder)
        raise RuntimeError("a bug")

    async with wanting(bucket, fail, "a"):  # type: ignore[arg-type]
        await until(lambda: len(tries) == 2)


async def test_a_lease_above_the_share_is_given_back_once_its_work_has_finished() -> None:
    bucket, work, share = Bucket(), Work(), Share(1)
    async with wanting(bucket, work, "a", share):
        await until(lambda: work.now)
        share.limit = 0
        await until(lambda: bucket.held is None)
        assert work.finished == work.ever, "the work was asked to finish and did"
        assert share.held == 0
        share.limit = 1
        await until(lambda: work.now)


async def test_work_that_does_not_finish_is_cancelled_and_the_lease_given_back() -> None:
    bucket, share, cancelled = Bucket(), Share(1), asyncio.Event()

    async def stubborn(holder: str, finish: asyncio.Event) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with wanting(bucket, stubborn, "a", share):  # type: ignore[arg-type]
        await until(lambda: bucket.held is not None)
        share.limit = 0
        await until(lambda: cancelled.is_set() and bucket.held is None)


async def test_work_in_hand_has_a_moment_when_the_process_ends() -> None:
    bucket, work = Bucket(), Work()
    async with wanting(bucket, work, "a"):
        await until(lambda: work.now)
    assert work.finished == work.ever
    assert bucket.held is None


async def test_a_lost_lease_leaves_no_moment() -> None:
    bucket, work = Bucket(), Work()
    async with wanting(bucket, work, "a"):
        await until(lambda: work.now)
        bucket._write()
        await until(lambda: not work.now)
    assert work.finished == [], "somebody else may be at work already"


@pytest.mark.parametrize(("replicas", "most"), [(0, 8), (1, 8), (2, 4), (3, 3), (4, 2), (7, 2), (8, 1), (100, 1)])
def test_fair_shares_of_eight(replicas: int, most: int) -> None:
    assert fair_share(8, replicas) == most


@given(st.integers(1, 64), st.integers(1, 64))
def test_all_shares_together_hold_everything_and_none_is_larger_than_it_must_be(partitions: int, replicas: int) -> None:
    most = fair_share(partitions, replicas)
    assert most * replicas >= partitions
    assert (most - 1) * replicas < partitions


@given(st.lists(st.sampled_from(["reserve", "take", "cancel", "look", "end", "less", "more"]), max_size=60))
def test_a_share_never_counts_more_than_is_held(steps: list[str]) -> None:
    share, asked, held = Share(2), 0, []
    for step in steps:
        if step == "reserve":
            asked += share.reserve()
        elif step == "take" and asked:
            asked -= 1
            held.append(share.holding())
        elif step == "cancel" and asked:
            asked -= 1
            share.cancel()
        elif step == "end" and held:
            held.pop(0).end()
        elif step in ("less", "more"):
            share.limit = max(0, share.limit + (1 if step == "more" else -1))
        assert share.held == asked + len(held)
        if step == "look":
            before = share.held
            leaving = sum(one.give_back() for one in held)
            assert before - leaving <= max(share.limit, asked) or leaving == len(held)
