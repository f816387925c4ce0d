"""A task that is to end does end, whatever swallows its cancellations."""

from __future__ import annotations

import asyncio

import pytest

from hermes_service.cancelling import cancel_until_done


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
