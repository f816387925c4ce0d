"""What a deleted namespace's sessions left is deleted on the API server's word only."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import GoneNamespacesRequest, GoneSessions, Method, SessionNamespaces
from hermes_operator.gone_namespaces import GoneNamespaces
from hermes_service.rpc import StoreClient

SID = "s" + "a" * 25


class MemoryStore(StoreClient):
    """Two namespaces; notes which it was told are gone."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []

    async def call(self, method: Method, request: BaseModel, *, patience_seconds: float | None = None) -> BaseModel:  # type: ignore[override, type-arg]
        if method.name == "session_namespaces":
            return SessionNamespaces(names=("gone", "here"))
        assert isinstance(request, GoneNamespacesRequest)
        self.told.append(request.gone)
        return GoneSessions(sids=(SID,) if request.gone else ())


class World:
    """An API server's answers by name."""

    def __init__(self, **answers: bool) -> None:
        self.answers, self.purged, self.store = answers, list[str](), MemoryStore()
        self.sweep = GoneNamespaces(self.store, self.exists, self.purge, 60.0, 1.0)

    async def exists(self, name: str) -> bool:
        if name not in self.answers:
            raise HermesError(ErrorCode.UNAVAILABLE, "the API server does not answer", retryable=True)
        return self.answers[name]

    async def purge(self, sid: str) -> None:
        self.purged.append(sid)


async def test_the_sessions_of_a_namespace_that_is_gone_are_purged() -> None:
    world = World(gone=False, here=True)
    assert await world.sweep.once() == 1
    assert world.store.told == [("gone",)]
    assert world.purged == [SID]


async def test_while_all_are_there_nothing_is_purged() -> None:
    world = World(gone=True, here=True)
    assert await world.sweep.once() == 0
    assert world.purged == []


async def test_one_look_that_fails_concludes_nothing_from_the_others() -> None:
    world = World(gone=False)
    with pytest.raises(HermesError):
        await world.sweep.once()
    assert world.store.told == []
    assert world.purged == []
