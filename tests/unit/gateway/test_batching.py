"""Parts of one message that are posted one by one."""

from __future__ import annotations

import asyncio

import pytest

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.gateway.channels.batching import Batches

Taken = list[list[str]]


def batches(window: float = 30.0) -> Batches[str]:
    """Parts that end with `-` go on; those with the same first letter are of one message."""
    return Batches(lambda a, b: a[0] == b[0], lambda part: part.endswith("-"), window)


async def test_parts_are_taken_together_and_each_source_for_itself() -> None:
    taken: Taken = []

    async def act(parts: list[str]) -> None:
        taken.append(parts)

    found = batches()
    async with asyncio.TaskGroup() as group:
        for source, part in (("x", "a1-"), ("y", "a2-"), ("x", "b"), ("x", "a3-"), ("y", "a4"), ("x", "a5")):
            group.create_task(found.take(source, part, act))
    assert sorted(taken) == [["a1-", "a3-", "a5"], ["a2-", "a4"], ["b"]]


async def test_what_does_not_come_is_not_waited_for_longer_than_the_window() -> None:
    taken: Taken = []

    async def act(parts: list[str]) -> None:
        taken.append(parts)

    found = batches(0.01)
    await found.take("x", "a1-", act)
    await found.take("x", "a2", act)
    assert taken == [["a1-"], ["a2"]]


async def test_no_part_is_answered_before_all_are_taken_and_none_is_when_that_fails() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def act(parts: list[str]) -> None:
        del parts
        begun.set()
        await go.wait()
        raise HermesError(ErrorCode.UNAVAILABLE, "the bus is away")

    found = batches()
    first = asyncio.create_task(found.take("x", "a1-", act))
    second = asyncio.create_task(found.take("x", "a2", act))
    await begun.wait()
    assert not first.done()
    assert not second.done()
    go.set()
    for task in (first, second):
        with pytest.raises(HermesError):
            await task


async def test_a_part_whose_first_request_was_cut_comes_again() -> None:
    async def act(parts: list[str]) -> None:
        raise AssertionError(parts)

    found = batches()
    first = asyncio.create_task(found.take("x", "a1-", act))
    second = asyncio.create_task(found.take("x", "a2-", act))
    await asyncio.wait((first, second), timeout=0.01)
    first.cancel()
    with pytest.raises(HermesError, match="rest of this message"):
        await second
    with pytest.raises(asyncio.CancelledError):
        await first
