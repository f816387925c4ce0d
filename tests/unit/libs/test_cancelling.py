"""A task that is to end does end, whatever swallows its cancellations; and waiting for an answer swallows none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hermes_service.cancelling import cancel_until_done
from hermes_service.waiting import wait_for


class Deaf:
    """Swallows so many cancellations."""

    def __init__(self, times: int) -> None:
        self.times = times

    async def run(self) -> None:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if self.times == 0:
                    raise
                self.times -= 1


@pytest.mark.parametrize("times", [0, 1, 2])
async def test_a_swallowed_cancellation_is_said_again(times: int) -> None:
    task = asyncio.create_task(Deaf(times).run())
    await asyncio.sleep(0)
    assert await cancel_until_done(task)
    assert task.cancelled()


async def test_what_never_ends_is_told_apart() -> None:
    deaf = Deaf(10**9)
    task = asyncio.create_task(deaf.run())
    await asyncio.sleep(0)
    assert not await cancel_until_done(task, seconds=0.01)
    assert not task.done()
    deaf.times = 0
    assert await cancel_until_done(task)


async def test_what_has_ended_is_left_as_it_is() -> None:
    task = asyncio.create_task(asyncio.sleep(0))
    await task
    assert await cancel_until_done(task)
    assert not task.cancelled()


WAITS: dict[str, Callable[[Awaitable[object], float], Awaitable[object]]] = {
    "ours": wait_for,
    "the library's": asyncio.wait_for,
}


@pytest.mark.parametrize("which", WAITS)
async def test_a_cancellation_leaves_even_when_the_answer_comes_in_the_same_moment(which: str) -> None:
    answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    left = asyncio.Event()

    async def calls_for_ever() -> None:
        try:
            while True:
                await WAITS[which](answer, 5)
                await asyncio.sleep(3600)
        finally:
            left.set()

    task = asyncio.create_task(calls_for_ever())
    await asyncio.sleep(0)
    answer.set_result(b"here you are")
    task.cancel()
    await asyncio.wait({task}, timeout=1)
    assert left.is_set()
    assert task.cancelled()


async def test_an_answer_that_does_not_come_is_a_timeout() -> None:
    answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    for seconds in (0.01, 0, -1):
        with pytest.raises(TimeoutError):
            await wait_for(asyncio.shield(answer), seconds)
    answer.set_result("here")
    assert await wait_for(answer, 0) == "here"
    assert await wait_for(answer, None) == "here"
