"""Which calls of one message run together."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st

from hermes_agent.model.hygiene import ParsedCall
from hermes_agent.stop import StopSignal
from hermes_agent.testing.sandbox import FakeSandbox
from hermes_agent.tools.base import BARRIER, Access, Arguments, Tool, ToolContext
from hermes_agent.tools.executor import Toolbox
from hermes_agent.tools.planner import MAX_PARALLEL, segments
from hermes_contracts.conversation import ToolCallPart


def reads(*paths: str) -> Access:
    return Access(reads=frozenset(paths))


def writes(*paths: str) -> Access:
    return Access(writes=frozenset(paths))


TABLE: list[tuple[str, list[Access], list[list[int]]]] = [
    ("nothing", [], []),
    ("one call", [reads("a")], [[0]]),
    ("readers share", [reads("a"), reads("a"), reads("b")], [[0, 1, 2]]),
    ("a barrier is alone", [reads("a"), BARRIER, reads("b")], [[0], [1], [2]]),
    ("two barriers", [BARRIER, BARRIER], [[0], [1]]),
    ("writers of different files share", [writes("a"), writes("b"), reads("c")], [[0, 1, 2]]),
    ("a writer of what is read closes the segment", [reads("a"), writes("a"), reads("b")], [[0], [1, 2]]),
    ("a reader of what is written waits", [writes("a"), reads("a")], [[0], [1]]),
    ("two writers of one file", [writes("a"), writes("a")], [[0], [1]]),
    ("a folder holds its files", [writes("dir/a"), reads("dir")], [[0], [1]]),
    ("a name is not a folder", [writes("dir-a"), reads("dir")], [[0, 1]]),
    ("the workspace holds everything", [reads("."), writes("x/y")], [[0], [1]]),
    ("eight at once", [reads("a")] * (MAX_PARALLEL + 1), [list(range(MAX_PARALLEL)), [MAX_PARALLEL]]),
]


@pytest.mark.parametrize(("story", "accesses", "plan"), TABLE, ids=[row[0] for row in TABLE])
def test_segments(story: str, accesses: list[Access], plan: list[list[int]]) -> None:
    del story
    assert segments(accesses) == plan


PATHS = st.frozensets(st.sampled_from(["a", "a/b", "c", "."]), max_size=2)
ACCESSES = st.lists(st.one_of(st.just(BARRIER), st.builds(Access, reads=PATHS, writes=PATHS)), max_size=20)


@given(ACCESSES)
def test_order_is_kept_nothing_is_lost_and_barriers_are_alone(accesses: list[Access]) -> None:
    plan = segments(accesses)
    assert [n for segment in plan for n in segment] == list(range(len(accesses)))
    for segment in plan:
        assert len(segment) <= MAX_PARALLEL
        assert len(segment) == 1 or not any(accesses[n].barrier for n in segment)


class Nothing(Arguments):
    """No arguments."""


async def test_a_batch_has_a_clock_and_one_slow_call_does_not_lose_the_others() -> None:
    async def slow(_: Nothing, __: ToolContext) -> str:
        await asyncio.sleep(30)
        return "never"

    async def quick(_: Nothing, __: ToolContext) -> str:
        return "here"

    tools = {
        name: Tool(name, "t", "", Nothing, run, lambda _: reads("a"), deadline_seconds=lambda _: 600.0)
        for name, run in (("slow", slow), ("quick", quick))
    }
    box = Toolbox(tools, FakeSandbox(), batch_seconds=0.05)
    calls = [box.check(ParsedCall(name, name, "{}", {}), name) for name in ("slow", "quick")]

    def ignore(_: str, __: ToolCallPart) -> None:
        return

    results = await box.run(calls, StopSignal(), ignore)
    assert [r.text for r in results] == ["No result after 0.05 seconds; its effect is unknown.", "here"]
