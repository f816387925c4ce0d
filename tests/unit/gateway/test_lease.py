"""At most one holder works, and losing the lease ends the work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nats.errors import TimeoutError as NatsTimeout
from nats.js.errors import KeyWrongLastSequenceError

from hermes_gateway.gateway.delivery.lease import Lease, Pace


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

    async def __call__(self, holder: str) -> None:
        self.now.add(holder)
        self.ever.append(holder)
        try:
            await asyncio.Event().wait()
        finally:
            self.now.discard(holder)


async def until(condition: object) -> None:
    async with asyncio.timeout(5):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.005)


QUICK = Pace(renew_seconds=0.02, give_up_seconds=0.1, retry_seconds=0.01)


@asynccontextmanager
async def wanting(bucket: Bucket, work: Work, instance: str) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(Lease(bucket, "x", instance, QUICK).run(work))  # type: ignore[arg-type]
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

    async def fail(holder: str) -> None:
        tries.append(holder)
        raise RuntimeError("a bug")

    async with wanting(bucket, fail, "a"):  # type: ignore[arg-type]
        await until(lambda: len(tries) == 2)
