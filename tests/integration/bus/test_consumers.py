"""Who gets a session's messages: one epoch at a time, and never an older one again."""

from __future__ import annotations

import pytest
from nats.js.errors import NotFoundError

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_operator.bus import BusDoor
from hermes_service.signing import Verifier, new_signing_seed, public_key
from tests.integration.bus.conftest import ALICE, Bus, User

OTHERS = "s" + "c" * 25


async def consumers(operator: User) -> set[str]:
    found = set()
    for stream in subjects.IN_STREAMS:
        found |= {info.name for info in await operator.client.jetstream().consumers_info(stream)}
    return found


@pytest.fixture
async def operator(bus: Bus) -> User:
    return await bus.service(Role.OPERATOR)


@pytest.fixture
def door(operator: User) -> BusDoor:
    return BusDoor(operator.client, Verifier(public_key(new_signing_seed())))


async def test_a_newer_epoch_takes_over_whatever_older_ones_left(operator: User, door: BusDoor) -> None:
    before = await consumers(operator)
    await door.make_consumer(OTHERS, 1)
    await door.make_consumer(OTHERS, 4)
    await door.make_consumer(OTHERS, 4)
    assert await consumers(operator) - before == {f"{OTHERS}-4"}


async def test_who_acts_on_an_older_epoch_is_told_and_takes_nothing(operator: User, door: BusDoor) -> None:
    await door.make_consumer(ALICE, 4)
    before = await consumers(operator)
    with pytest.raises(HermesError, match="epoch 4 has the messages of epoch 3 already") as refused:
        await door.make_consumer(ALICE, 3)
    assert refused.value.code is ErrorCode.FENCED
    assert await consumers(operator) == before
    with pytest.raises(NotFoundError):
        await operator.client.jetstream().consumer_info(subjects.in_stream(ALICE), f"{ALICE}-3")
