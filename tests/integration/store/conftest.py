"""Fixtures over the harness: servers for the whole folder, one store for every test that kills nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.integration.store.harness import StoreProcess, World, running_servers


@pytest.fixture(scope="session")
def servers() -> Iterator[World]:
    with running_servers() as world:
        yield world


@pytest.fixture(scope="session")
def shared_store(servers: World) -> Iterator[StoreProcess]:
    servers.new_database()
    process = servers.store()
    process.start()
    yield process
    assert process.terminate() == 0


@pytest.fixture
async def world(servers: World, shared_store: StoreProcess) -> AsyncIterator[World]:
    yield servers
    await servers.close_clients()


@pytest.fixture
def own_servers() -> Iterator[World]:
    """Servers of one test, which may kill them, with an empty database."""
    with running_servers() as world:
        world.new_database()
        yield world
