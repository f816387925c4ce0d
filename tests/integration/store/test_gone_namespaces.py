"""A namespace is deleted: what its sessions left goes after a time of grace, and only then, and only theirs."""

from __future__ import annotations

from hermes_contracts.bus_permissions import Role
from hermes_contracts.store_api import (
    GONE_NAMESPACES,
    SESSION_NAMESPACES,
    Empty,
    GoneNamespacesRequest,
)
from tests.integration.store.harness import Session, World, awake, new_session

DAY = 86_400.0


def session_in(namespace: str) -> Session:
    session = new_session()
    return Session(session.sid, session.route.model_copy(update={"namespace": namespace}), session.conversation)


async def test_sessions_of_a_namespace_are_named_when_it_has_been_gone_for_long_enough(world: World) -> None:
    here, gone = session_in("here"), session_in("gone")
    for session in (here, gone):
        await awake(world, session)
    operator = await world.service(Role.OPERATOR)
    assert {"gone", "here"} <= set((await operator.call(SESSION_NAMESPACES, Empty())).names), "beside those of other stories"

    missing = GoneNamespacesRequest(gone=("gone",), grace_seconds=DAY)
    assert (await operator.call(GONE_NAMESPACES, missing)).sids == (), "its time of grace begins"
    world.rows_change("update gone_namespaces set since = now() - interval '2 days'")
    assert (await operator.call(GONE_NAMESPACES, missing)).sids == (gone.sid,)

    assert (await operator.call(GONE_NAMESPACES, GoneNamespacesRequest(gone=(), grace_seconds=0))).sids == ()
    assert (await operator.call(GONE_NAMESPACES, missing)).sids == (), "it came back, and its grace begins anew"
