"""What an agent does with a store that forgets, breaks off or refuses: files are never taken for saved that are not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
from pydantic import BaseModel

from hermes_agent.sandbox import Sandbox, SandboxTimeout
from hermes_agent.workspace.archive import Archive
from hermes_agent.workspace.keeper import Keeper
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    CommitSnapshotRequest,
    Empty,
    GetPieceRequest,
    MissingPieces,
    PieceReply,
    PutPieceRequest,
    WorkspaceState,
)

ROOM = 1 << 30


class Daemon(Protocol):
    """What these tests use of a daemon."""

    workspace: Path


Start = Callable[..., Awaitable[tuple[Daemon, Sandbox]]]


@dataclass
class Store:
    """The store's six methods, in memory. `breaks` names methods whose next answer is lost after they were done."""

    pieces: dict[str, tuple[str, int]] = field(default_factory=dict)
    state: WorkspaceState = field(default_factory=lambda: WorkspaceState(is_first=True))
    breaks: set[str] = field(default_factory=set)
    refuses: ErrorCode | None = None
    calls: list[str] = field(default_factory=list)

    async def call(self, method: Any, request: BaseModel) -> Any:
        self.calls.append(method.name)
        if self.refuses is not None:
            raise HermesError(self.refuses, "refused by the test", retryable=False)
        reply = getattr(self, method.name)(request)
        if method.name in self.breaks:
            self.breaks.discard(method.name)
            raise HermesError(ErrorCode.UNAVAILABLE, "the answer is lost", retryable=True)
        return reply

    def workspace_state(self, _: Empty) -> WorkspaceState:
        return self.state

    def open_workspace(self, _: Empty) -> Empty:
        self.state = self.state.model_copy(update={"is_first": False, "is_open": True, "is_final": False})
        return Empty()

    def claim_pieces(self, request: Any) -> MissingPieces:
        missing = tuple(digest for digest in request.digests if digest not in self.pieces)
        for digest in set(request.digests) & self.pieces.keys():
            self.pieces[digest] = (self.pieces[digest][0], request.number)
        return MissingPieces(digests=missing)

    def put_piece(self, request: PutPieceRequest) -> Empty:
        self.pieces[request.digest] = (request.data, request.number)
        return Empty()

    def get_piece(self, request: GetPieceRequest) -> PieceReply:
        if request.digest not in self.pieces:
            raise HermesError(ErrorCode.NOT_FOUND, f"there is no piece {request.digest}")
        return PieceReply(data=self.pieces[request.digest][0])

    def commit_snapshot(self, request: CommitSnapshotRequest) -> Empty:
        if request.number < self.state.number:
            return Empty()
        if request.number > self.state.number:
            claimed = {name for name, (_, number) in self.pieces.items() if number == request.number}
            if len(claimed) != request.pieces:
                raise HermesError(ErrorCode.CONFLICT, "not all are there")
            self.pieces = {name: self.pieces[name] for name in claimed}
        self.state = WorkspaceState(
            is_open=True, number=request.number, parts=request.parts, taken_at=request.taken_at,
            is_final=request.final, left_out=request.left_out,
        )  # fmt: skip
        return Empty()

    def next_life(self) -> None:
        """The pod goes; a new epoch begins."""
        self.state = self.state.model_copy(update={"is_open": False})


async def woken(store: Store, sandbox: Sandbox) -> Archive:
    archive = Archive(store, sandbox, ROOM)
    await archive.bring_back(store.state)
    await archive.open()
    return archive


async def files_after(store: Store, start: Start) -> dict[str, str]:
    """The files of the session's next life."""
    store.next_life()
    other, sandbox = await start()
    await woken(store, sandbox)
    return {path.name: path.read_text() for path in other.workspace.iterdir()}


async def test_a_commit_whose_answer_was_lost_is_followed_by_a_whole_one(start: Start) -> None:
    one, sandbox = await start()
    store = Store()
    archive = await woken(store, sandbox)
    (one.workspace / "a").write_text("1")
    store.breaks.add("commit_snapshot")
    with pytest.raises(HermesError):
        await archive.save(final=False)
    assert store.state.number == 1, "it was done; the agent does not know"
    (one.workspace / "a").write_text("2")
    (one.workspace / "b").write_text("new")
    await archive.save(final=True)
    assert (store.state.number, store.state.is_final) == (2, True)
    assert await files_after(store, start) == {"a": "2", "b": "new"}


async def test_pieces_that_the_store_has_lost_are_sent_again(start: Start) -> None:
    one, sandbox = await start()
    store = Store()
    archive = await woken(store, sandbox)
    (one.workspace / "old").write_text("old")
    await archive.save(final=False)
    store.pieces.clear()
    (one.workspace / "new").write_text("new")
    await archive.save(final=True)
    assert await files_after(store, start) == {"old": "old", "new": "new"}


async def test_a_workspace_without_changes_costs_one_call(start: Start) -> None:
    one, sandbox = await start()
    store = Store()
    archive = await woken(store, sandbox)
    (one.workspace / "file").write_text("same")
    await archive.save(final=False)
    store.calls.clear()
    await archive.save(final=True)
    assert store.calls == ["commit_snapshot"]
    assert store.state.is_final


async def test_a_list_of_files_that_is_lost_is_told_instead_of_a_command(start: Start) -> None:
    one, sandbox = await start()
    store = Store()
    archive = await woken(store, sandbox)
    (one.workspace / "file").write_text("x")
    await archive.save(final=True)
    store.next_life()
    del store.pieces[store.state.parts[0]]
    _, fresh = await start()
    keeper = Keeper(Archive(store, fresh, ROOM))
    pump = asyncio.create_task(keeper.pump())
    with pytest.raises(SandboxTimeout, match="damaged"):
        async with keeper.using():
            pass
    async with keeper.using():
        pass
    pump.cancel()
    await keeper.last()
    assert store.state.number == 2, "what comes after the damage is kept again"


async def test_commands_wait_for_files_and_a_store_that_is_away_is_asked_again(start: Start) -> None:
    one, sandbox = await start()
    store = Store()
    archive = await woken(store, sandbox)
    (one.workspace / "file").write_text("x")
    await archive.save(final=True)
    store.next_life()
    store.breaks |= {"workspace_state", "get_piece", "open_workspace"}
    other, fresh = await start()
    keeper = Keeper(Archive(store, fresh, ROOM))
    pump = asyncio.create_task(keeper.pump())
    async with keeper.using():
        assert (other.workspace / "file").read_text() == "x"
    assert keeper.note() == ""
    pump.cancel()


async def test_what_cannot_be_saved_is_told_once(start: Start) -> None:
    one, sandbox = await start()
    keeper = Keeper(Archive(Store(), sandbox, 1000), every_seconds=0.0, quiet_seconds=0.01)
    pump = asyncio.create_task(keeper.pump())
    for _ in range(2):
        async with keeper.using():
            (one.workspace / "file").write_bytes(bytes(2000))
    async with asyncio.timeout(30):
        while not keeper.note():
            await asyncio.sleep(0.01)
    assert "1000 bytes" in keeper.note()
    assert "Nothing is safe" in keeper.note()
    keeper.told()
    await keeper.last()
    assert keeper.note() == ""
    pump.cancel()


async def test_an_agent_of_the_past_ends(start: Start) -> None:
    _, sandbox = await start()
    keeper = Keeper(Archive(Store(refuses=ErrorCode.FENCED), sandbox, ROOM))
    with pytest.raises(HermesError, match="refused"):
        await keeper.pump()


async def test_what_no_row_of_a_turn_can_tell_the_next_command_tells(start: Start) -> None:
    one, sandbox = await start()
    store = Store()
    archive = await woken(store, sandbox)
    (one.workspace / "file").write_text("x")
    await archive.save(final=False)
    store.next_life()
    _, fresh = await start()
    keeper = Keeper(Archive(store, fresh, ROOM))
    pump = asyncio.create_task(keeper.pump())
    await keeper.known()
    assert "what was changed after that is lost" in keeper.note()
    keeper.with_next_command()
    assert keeper.note() == ""
    with pytest.raises(SandboxTimeout, match="restarted without warning"):
        async with keeper.using():
            pass
    async with keeper.using():
        pass
    pump.cancel()
