"""The lease: got, kept, lost, given back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hermes_operator.cluster.errors import ClusterError
from hermes_operator.engine.election import Elector, LeaseTerms, while_leading


class FakeLeases:
    """One Lease with the API server's rule: an update names the version it saw."""

    def __init__(self) -> None:
        self.body: dict[str, Any] | None = None
        self.version = 0
        self.down = False

    async def get(self, *_: Any) -> dict[str, Any] | None:
        if self.down:
            raise ClusterError(0, "Unreachable", "no answer")
        return self.body

    async def create(self, _: Any, body: dict[str, Any]) -> dict[str, Any]:
        if self.body is not None:
            raise ClusterError(409, "AlreadyExists", "taken")
        return self._store(body)

    async def replace(self, _: Any, body: dict[str, Any]) -> dict[str, Any]:
        if self.down:
            raise ClusterError(0, "Unreachable", "no answer")
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise ClusterError(409, "Conflict", "somebody was faster")
        return self._store(body)

    def _store(self, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return self.body


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def leases() -> FakeLeases:
    return FakeLeases()


def elector(leases: FakeLeases, name: str, clock: Clock, seconds: int = 1) -> Elector:
    return Elector(leases, LeaseTerms("hermes", "lease", name, seconds), clock)  # type: ignore[arg-type]


def holder(leases: FakeLeases) -> str:
    assert leases.body is not None
    return str(leases.body["spec"]["holderIdentity"])


async def test_the_first_gets_it_and_gives_it_back(leases: FakeLeases) -> None:
    async with elector(leases, "one", Clock()).lead() as lost:
        assert holder(leases) == "one"
        assert not lost.is_set()
    assert holder(leases) == ""


async def test_the_second_waits_and_takes_over_at_once_when_it_is_given_back(leases: FakeLeases) -> None:
    clock = Clock()
    taken = asyncio.Event()

    async def second() -> None:
        async with elector(leases, "two", clock).lead():
            taken.set()

    async with elector(leases, "one", clock).lead():
        waiting = asyncio.create_task(second())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(taken.wait(), 0.3)
    await asyncio.wait_for(waiting, 2)
    assert taken.is_set()


async def test_a_dead_holder_is_waited_for_on_our_own_clock(leases: FakeLeases) -> None:
    clock = Clock()
    dead = elector(leases, "dead", clock)
    assert await dead._try()
    heir = elector(leases, "heir", clock)
    assert not await heir._try()
    clock.now = 0.9
    assert not await heir._try()
    clock.now = 1.1
    assert await heir._try()
    assert holder(leases) == "heir"
    assert leases.body is not None
    assert leases.body["spec"]["leaseTransitions"] == 1


async def test_a_leader_that_cannot_renew_gives_up_before_another_may_act(leases: FakeLeases) -> None:
    clock = Clock()
    async with elector(leases, "one", clock).lead() as lost:
        leases.down = True
        clock.now = 0.5
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(lost.wait(), 0.3)
        clock.now = 0.7
        await asyncio.wait_for(lost.wait(), 2)
        leases.down = False


async def test_two_that_try_at_once_do_not_both_get_it(leases: FakeLeases) -> None:
    clock = Clock()
    found = await asyncio.gather(*(elector(leases, name, clock)._try() for name in ("a", "b", "c")))
    assert sum(found) == 1


class Work:
    """What a leader does; a library below it swallows the first `deaf` cancellations."""

    def __init__(self, deaf: int = 0) -> None:
        self.deaf = deaf
        self.acts = True

    async def run(self) -> None:
        try:
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    if self.deaf == 0:
                        raise
                    self.deaf -= 1
        finally:
            self.acts = False


async def led(work: Work, lost: asyncio.Event, abandoned: list[bool]) -> None:
    await while_leading(lost, work.run(), stop_seconds=1, abandon=lambda: abandoned.append(work.acts))


@pytest.mark.parametrize("deaf", [0, 1, 3])
async def test_who_lost_the_lease_acts_no_more_even_where_a_cancellation_is_swallowed(deaf: int) -> None:
    work, lost, abandoned = Work(deaf), asyncio.Event(), list[bool]()
    leading = asyncio.create_task(led(work, lost, abandoned))
    await asyncio.sleep(0)
    lost.set()
    await asyncio.wait_for(leading, 5)
    assert not work.acts
    assert abandoned == []


async def test_work_that_does_not_stop_ends_the_process() -> None:
    work, lost, abandoned = Work(deaf=10**9), asyncio.Event(), list[bool]()
    leading = asyncio.create_task(led(work, lost, abandoned))
    await asyncio.sleep(0)
    lost.set()
    while not abandoned:
        await asyncio.sleep(0.01)
    assert abandoned == [True]
    work.deaf = 0
    await asyncio.wait({leading}, timeout=5)
    assert leading.done()


async def test_a_signal_ends_the_work_too_and_a_failure_of_it_is_not_hidden() -> None:
    work = Work(deaf=1)
    leading = asyncio.create_task(led(work, asyncio.Event(), []))
    await asyncio.sleep(0)
    leading.cancel()
    await asyncio.wait({leading}, timeout=5)
    assert leading.cancelled()
    assert not work.acts

    async def broken() -> None:
        raise ClusterError(0, "Unreachable", "no answer")

    with pytest.raises(ClusterError):
        await while_leading(asyncio.Event(), broken(), stop_seconds=0.3, abandon=lambda: None)
