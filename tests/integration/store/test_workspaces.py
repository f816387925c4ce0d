"""Files of a workspace are kept for its session: fenced, complete or not at all, and collected when nothing names them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os

import pytest
from nats.js.errors import NotFoundError

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    CLAIM_PIECES,
    COMMIT_SNAPSHOT,
    GET_PIECE,
    MAX_PACKED_BYTES,
    OPEN_WORKSPACE,
    PURGE,
    PUT_PIECE,
    WORKSPACE_STATE,
    ClaimPiecesRequest,
    CommitSnapshotRequest,
    Empty,
    GetPieceRequest,
    PutPieceRequest,
    SidRequest,
    WorkspaceState,
)
from hermes_service.rpc import StoreClient
from tests.integration.store.harness import Session, World, awake, eventually, new_session


async def code_of(call: object) -> ErrorCode:
    with pytest.raises(HermesError) as caught:
        await call  # type: ignore[misc]
    return caught.value.code


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def put(agent: StoreClient, number: int, data: bytes) -> str:
    name = digest(data)
    await agent.call(PUT_PIECE, PutPieceRequest(number=number, digest=name, data=base64.b64encode(data).decode()))
    return name


async def get(agent: StoreClient, name: str) -> bytes:
    return base64.b64decode((await agent.call(GET_PIECE, GetPieceRequest(digest=name))).data)


async def commit(agent: StoreClient, number: int, part: str, pieces: int, *, at: float = 1.0, final: bool = False) -> None:
    request = CommitSnapshotRequest(number=number, parts=(part,), pieces=pieces, taken_at=at, final=final)
    await agent.call(COMMIT_SNAPSHOT, request)


async def state(agent: StoreClient) -> WorkspaceState:
    return await agent.call(WORKSPACE_STATE, Empty())


async def opened(world: World, session: Session, expected: int = 0) -> StoreClient:
    agent = await world.agent(session.sid, await awake(world, session, expected))
    await agent.call(OPEN_WORKSPACE, Empty())
    return agent


async def objects(world: World, sid: str) -> int:
    """Objects of a session on the bus."""
    js = (await world.witness()).jetstream()
    try:
        info = await js.stream_info(subjects.PIECES_STREAM, subjects_filter=subjects.piece(sid, ">"))
    except NotFoundError:
        return 0
    return sum((info.state.subjects or {}).values())


def rows(world: World, sid: str) -> int:
    return len(world.rows("select 1 from workspace_pieces where sid = %s", sid))


async def test_what_one_life_kept_the_next_one_finds(world: World) -> None:
    session, biggest = new_session(), os.urandom(MAX_PACKED_BYTES)
    first = await world.agent(session.sid, await awake(world, session))
    assert (await state(first)).is_first
    await first.call(OPEN_WORKSPACE, Empty())
    names = [await put(first, 1, data) for data in (b"list", b"file", biggest)]
    await put(first, 1, b"file")
    assert await objects(world, session.sid) == 3
    await commit(first, 1, names[0], 3, at=7.5, final=True)

    second = await world.agent(session.sid, await awake(world, session, 1))
    found = await state(second)
    assert (found.number, found.parts, found.taken_at) == (1, (names[0],), 7.5)
    assert (found.is_first, found.is_open, found.is_final) == (False, False, True)
    assert [await get(second, name) for name in names] == [b"list", b"file", biggest]

    await second.call(OPEN_WORKSPACE, Empty())
    again = await state(second)
    assert (again.is_open, again.is_final) == (True, False), "from here on a crash loses what is not in a snapshot"


async def test_an_agent_of_the_past_keeps_nothing(world: World) -> None:
    session = new_session()
    zombie = await opened(world, session)
    part = await put(zombie, 1, b"old")
    agent = await opened(world, session, 1)
    request = PutPieceRequest(number=1, digest=digest(b"new"), data="bmV3")
    assert await code_of(zombie.call(PUT_PIECE, request)) is ErrorCode.FENCED
    assert await code_of(zombie.call(CLAIM_PIECES, ClaimPiecesRequest(number=1, digests=(part,)))) is ErrorCode.FENCED
    assert await code_of(commit(zombie, 1, part, 1)) is ErrorCode.FENCED
    assert await code_of(get(zombie, part)) is ErrorCode.FENCED
    assert await code_of(zombie.call(OPEN_WORKSPACE, Empty())) is ErrorCode.FENCED
    assert (await state(agent)).number == 0


async def test_a_snapshot_with_a_hole_is_refused(world: World) -> None:
    session = new_session()
    agent = await opened(world, session)
    part = await put(agent, 1, b"list")
    claim = ClaimPiecesRequest(number=1, digests=(part, digest(b"missing")))
    assert (await agent.call(CLAIM_PIECES, claim)).digests == (digest(b"missing"),)
    assert await code_of(commit(agent, 1, part, 2)) is ErrorCode.CONFLICT
    assert (await state(agent)).number == 0


async def test_what_no_snapshot_names_is_deleted_and_the_rest_is_not(world: World) -> None:
    session = new_session()
    agent = await opened(world, session)
    old_list, kept = await put(agent, 1, b"list 1"), await put(agent, 1, b"kept")
    dropped = await put(agent, 1, b"dropped")
    await commit(agent, 1, old_list, 3)
    new_list = await put(agent, 2, b"list 2")
    await agent.call(CLAIM_PIECES, ClaimPiecesRequest(number=2, digests=(kept,)))
    await commit(agent, 2, new_list, 2)
    assert await code_of(get(agent, dropped)) is ErrorCode.NOT_FOUND
    assert await get(agent, kept) == b"kept"
    assert await put(agent, 3, b"dropped") == dropped, "what comes back meanwhile is another object"
    await eventually_collected(world, session.sid, 3)
    assert await get(agent, dropped) == b"dropped"


async def test_a_commit_that_arrives_late_takes_nothing_from_the_newer_one(world: World) -> None:
    session = new_session()
    agent = await opened(world, session)
    first = await put(agent, 1, b"list 1")
    await commit(agent, 1, first, 1, at=1.0)
    second = await put(agent, 2, b"list 2")
    await commit(agent, 2, second, 1, at=2.0)
    await commit(agent, 1, first, 1, at=1.0)
    await commit(agent, 2, second, 1, at=3.0, final=True)
    await commit(agent, 2, second, 1, at=2.0)
    found = await state(agent)
    assert (found.number, found.taken_at, found.is_final) == (2, 3.0, True)
    assert await get(agent, second) == b"list 2"


async def test_a_deleted_session_leaves_no_files(world: World) -> None:
    session = new_session()
    agent = await opened(world, session)
    await commit(agent, 1, await put(agent, 1, b"list"), 1)
    operator = await world.service(Role.OPERATOR)
    await operator.call(PURGE, SidRequest(sid=session.sid))
    await eventually_collected(world, session.sid, 0)


async def test_of_two_that_bring_the_same_piece_one_is_kept(world: World) -> None:
    session = new_session()
    agent = await opened(world, session)
    await asyncio.gather(*(put(agent, 1, b"same") for _ in range(20)))
    there = world.rows("select count(*) from workspace_pieces where sid = %s and collect_after is null", session.sid)
    assert there == [(1,)]
    assert await get(agent, digest(b"same")) == b"same"


@pytest.mark.parametrize("data", ["not base64", "", base64.b64encode(bytes(MAX_PACKED_BYTES + 1)).decode()])
async def test_what_is_no_piece_is_refused_in_words(world: World, data: str) -> None:
    session = new_session()
    agent = await opened(world, session)
    request = PutPieceRequest.model_construct(number=1, digest="a" * 64, data=data)
    assert await code_of(agent.call(PUT_PIECE, request)) is ErrorCode.INVALID


async def eventually_collected(world: World, sid: str, left: int) -> None:
    """Wait until rows and objects are gone, but for those that are needed."""
    await eventually(lambda: rows(world, sid) == left, "rows of pieces are deleted", 60)
    assert await objects(world, sid) == left
