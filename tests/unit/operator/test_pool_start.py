"""A start from the pool that fails half-way leaves no pod behind that could be told who it is."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_operator.cluster.cache import Cache
from hermes_operator.cluster.views import PodView
from hermes_operator.engine.queue import WorkQueue
from hermes_operator.launch import Launcher
from hermes_operator.pending import PendingBoard
from hermes_operator.state import Shared
from tests.unit.operator.builders import pod
from tests.unit.operator.test_manifests import epoch

CLAIMED = pod(3, name="warm-1", uid="uid-1", bus_key="U" + "A" * 55)


@dataclass
class World:
    """Stands for the API server, the bus and the pool."""

    shared: Shared
    found: PodView | None = CLAIMED
    consumer_fails: bool = False
    deleted: list[str] = field(default_factory=list)
    handed: list[str] = field(default_factory=list)

    async def make_consumer(self, sid: str, number: int) -> None:
        if self.consumer_fails:
            raise HermesError(ErrorCode.UNAVAILABLE, "the bus: away")

    async def delete(self, _resource: Any, _namespace: str, name: str, **_: Any) -> bool:
        self.deleted.append(name)
        return True

    def candidates(self, _facts: Any) -> list[str]:
        return ["warm-1"]

    async def claim(self, _facts: Any) -> PodView | None:
        if self.found is not None:
            self.shared.cache.claim(self.found)
        return self.found

    async def hand_over(self, _facts: Any, claimed: PodView) -> None:
        self.handed.append(claimed.name)


def launcher(world: World) -> Launcher:
    anything: Any = None
    door: Any = world
    return Launcher(door, door, anything, world.shared, anything, anything, anything, anything, door)


@pytest.fixture
def world() -> World:
    return World(Shared(WorkQueue(time.time), Cache(), PendingBoard(time.monotonic)))


async def test_a_claimed_pod_is_handed_over_and_its_epoch_is_used_up(world: World) -> None:
    facts = epoch()
    world.shared.memories.change(facts.session_uid, prepared_epoch=3)
    assert await launcher(world)._start_warm(facts)
    assert (world.handed, world.deleted) == (["warm-1"], [])
    assert world.shared.memories.get(facts.session_uid).prepared_epoch == 0


async def test_without_a_pod_to_get_the_same_epoch_starts_in_the_usual_way(world: World) -> None:
    world.found = None
    facts = epoch()
    assert not await launcher(world)._start_warm(facts)
    assert world.shared.memories.get(facts.session_uid).prepared_epoch == 3


async def test_a_consumer_that_cannot_be_made_costs_the_claimed_pod(world: World) -> None:
    world.consumer_fails = True
    with pytest.raises(BaseExceptionGroup):
        await launcher(world)._start_warm(epoch())
    assert world.handed == []
    for claimed in world.shared.cache.pods.all():
        assert claimed.deleting, "a pod that is not deleted could still be told who it is"
        assert world.deleted == [claimed.name]
