"""The snapshots of one workspace, from its agent's side: put back the last one, make the next one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from hermes_agent.sandbox import Sandbox
from hermes_agent.store_port import Store
from hermes_agent.workspace import notes
from hermes_agent.workspace.kept import StorePieces, load, parts_of, put_parts
from hermes_agent.workspace.manifest import Manifest
from hermes_agent.workspace.pieces import DamagedPiece, digest_of
from hermes_agent.workspace.plan import LeftOut, Seen
from hermes_agent.workspace.restore import clear, restore
from hermes_agent.workspace.snapshot import Snapshot, take
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    COMMIT_SNAPSHOT,
    OPEN_WORKSPACE,
    WORKSPACE_STATE,
    CommitSnapshotRequest,
    Empty,
    WorkspaceState,
)

log = structlog.get_logger()


@dataclass(frozen=True)
class Kept:
    """The snapshot that the next one is compared with; number 0: there is none."""

    number: int = 0
    taken_at: float = 0.0
    parts: tuple[str, ...] = ()
    pieces: frozenset[str] = frozenset()
    """What the store has, as far as is known; to be claimed before it is relied on."""
    seen: Mapping[str, Seen] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()


class Archive:
    """One workspace and what the store keeps of it."""

    def __init__(self, store: Store, sandbox: Sandbox, max_bytes: int, *, now: Callable[[], float] = time.time) -> None:
        self.kept = Kept()
        self._store = store
        self._sandbox = sandbox
        self._max_bytes = max_bytes
        self._now = now
        self._number = 0
        """The last one that was tried: none is tried twice, because nobody knows how far the first try came."""

    async def state(self) -> WorkspaceState:
        """Ask what is kept. Raises HermesError."""
        return await self._store.call(WORKSPACE_STATE, Empty())

    async def bring_back(self, state: WorkspaceState) -> tuple[LeftOut, ...]:
        """Make the workspace what it was, unless it still is; return what could not be. May be repeated.

        Raises HermesError: the store or the sandbox does not answer; DamagedPiece: the list of files is lost.
        """
        manifest = Manifest()
        if state.parts:
            manifest = await self._listed(state)
        lost: tuple[LeftOut, ...] = ()
        if not state.is_open and manifest.entries:
            started = time.perf_counter()
            await clear(self._sandbox)
            lost = await restore(self._sandbox, StorePieces(self._store, state.number), manifest)
            seconds = round(time.perf_counter() - started, 4)
            log.info("workspace.restored", names=len(manifest.entries), lost=len(lost), seconds=seconds)
        self.kept = Kept(state.number, state.taken_at, state.parts, manifest.pieces() | frozenset(state.parts))
        self._number = state.number
        return lost

    async def open(self) -> None:
        """Say that commands may run now. Raises HermesError."""
        await self._store.call(OPEN_WORKSPACE, Empty())

    async def save(self, *, final: bool, untouched: bool = False) -> None:
        """Take a snapshot and commit it; `untouched` says that no command ran since the last one.

        Raises HermesError: FENCED, the store or the sandbox does not answer, or there is more than may be kept.
        """
        if untouched and self.kept.number and self._number == self.kept.number:
            await self._commit(self.kept.number, self.kept, final=final, pieces=len(self.kept.pieces))
            return
        started, before, number = time.perf_counter(), self.kept, self._number
        try:
            taken = await self._take_and_commit(before, final=final)
        except _Gone:
            taken = await self._take_and_commit(replace(before, pieces=frozenset(), seen={}), final=final)
        log.info(
            "workspace.saved",
            number=self.kept.number,
            changed=self._number != number,
            names=len(taken.manifest.entries),
            left_out=len(taken.left_out),
            sent_bytes=taken.sent_bytes,
            final=final,
            seconds=round(time.perf_counter() - started, 4),
        )

    async def _take_and_commit(self, before: Kept, *, final: bool) -> Snapshot:
        sure = self._number == before.number
        self._number = number = self._number + 1
        pieces = StorePieces(self._store, number)
        taken = await take(self._sandbox, pieces, before.seen, before.pieces, max_bytes=self._max_bytes)
        parts = await asyncio.to_thread(parts_of, taken.manifest)
        digests = tuple(map(digest_of, parts))
        kept = Kept(number, taken.taken_at, digests, taken.manifest.pieces() | {*digests}, taken.seen, taken.left_out)
        if sure and digests == before.parts and taken.left_out == before.left_out:
            self._number = before.number
            kept = replace(kept, number=before.number)
        else:
            await put_parts(pieces, parts, before.pieces)
            if await pieces.claim(sorted(kept.pieces)):
                raise _Gone
        await self._commit(kept.number, kept, final=final, pieces=len(kept.pieces))
        self.kept = kept
        return taken

    async def _commit(self, number: int, kept: Kept, *, final: bool, pieces: int) -> None:
        request = CommitSnapshotRequest(
            number=number,
            parts=kept.parts,
            pieces=pieces,
            taken_at=kept.taken_at,
            final=final,
            left_out=notes.listed(kept.left_out),
        )
        try:
            await self._store.call(COMMIT_SNAPSHOT, request)
        except HermesError as error:
            if error.code is ErrorCode.CONFLICT:
                raise _Gone from error
            raise

    async def _listed(self, state: WorkspaceState) -> Manifest:
        try:
            return await load(StorePieces(self._store, state.number), state.parts)
        except HermesError as error:
            if error.code is ErrorCode.NOT_FOUND:
                raise DamagedPiece("the list of files is gone") from error
            raise


class _Gone(HermesError):
    """Pieces that were relied on are not there any more."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.CONFLICT, "the store has not all pieces of the snapshot", retryable=True)
