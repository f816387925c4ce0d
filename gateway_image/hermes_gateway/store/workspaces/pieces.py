"""Pieces of files: claimed for a snapshot, put, read, and collected when no snapshot names them any more.

A row is written before the bytes and is `there` only after them, so whatever dies leaves nothing that nobody will collect.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
from dataclasses import dataclass

import structlog

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    MAX_ARCHIVE_BYTES,
    MAX_PACKED_BYTES,
    ClaimPiecesRequest,
    Empty,
    GetPieceRequest,
    MissingPieces,
    PieceReply,
    PutPieceRequest,
)
from hermes_gateway.store import rules
from hermes_gateway.store.database import Database, Scope, Transaction
from hermes_gateway.store.workspaces.shelf import Place, Shelf
from hermes_service.rpc import Caller

log = structlog.get_logger()

MAX_SESSION_BYTES = MAX_ARCHIVE_BYTES * 5 // 2
"""Most bytes of one session's pieces: the last snapshot, the next one, and lists of files."""
_COLLECT_AT_ONCE = 64
_COLLECT_SECONDS = 5.0

# Shared with others who write pieces; whoever raises the epoch waits for it, so nothing of an old epoch comes later.
_EPOCH = "select epoch from sessions where sid = %s for share"
_CLAIM = """
update workspace_pieces set wanted = %s
where sid = %s and digest = any(%s) and collect_after is null and wanted <> %s
"""
_THERE = "select digest, object from workspace_pieces where sid = %s and digest = any(%s) and collect_after is null"
_BYTES = "select coalesce(sum(bytes), 0)::bigint as bytes from workspace_pieces where sid = %s and collect_after is null"
_BEGIN = """
insert into workspace_pieces (sid, object, digest, bytes, wanted, collect_after)
values (%s, %s, %s, %s, %s, now() + interval '10 minutes')
"""
_WRITTEN = """
update workspace_pieces set collect_after = null where sid = %s and object = %s and collect_after > now() returning object
"""
_TO_COLLECT = """
select sid, object from workspace_pieces where collect_after <= now() limit %s for update skip locked
"""
_COLLECTED = """
delete from workspace_pieces p using unnest(%s::text[], %s::text[]) gone (sid, object)
where p.sid = gone.sid and p.object = gone.object
"""


def wanted(epoch: int, number: int) -> int:
    """Return what stands for a snapshot in a piece's row: two epochs never share one."""
    return (epoch << 31) + number


@dataclass(frozen=True)
class Pieces:
    """Handlers of `claim_pieces`, `put_piece` and `get_piece`."""

    database: Database
    shelf: Shelf

    async def claim(self, caller: Caller, request: ClaimPiecesRequest) -> MissingPieces:
        """Keep what is there for the caller's snapshot; return what is not."""
        mark, digests = wanted(caller.epoch, request.number), list(request.digests)

        async def work(transaction: Transaction) -> MissingPieces:
            (sessions,) = await transaction.ask((_EPOCH, (caller.sid,)))
            rules.require_epoch(sessions[0]["epoch"] if sessions else None, caller.sid, caller.epoch)
            _, there = await transaction.commit((_CLAIM, (mark, caller.sid, digests, mark)), (_THERE, (caller.sid, digests)))
            found = {row["digest"] for row in there}
            return MissingPieces(digests=tuple(digest for digest in request.digests if digest not in found))

        return await self.database.run(Scope(sid=caller.sid), work, durable=False)

    async def put(self, caller: Caller, request: PutPieceRequest) -> Empty:
        """Write one, unless it is there."""
        data = _packed(request.data)
        place = (caller.sid, secrets.token_hex(16))
        if not await self._begin(caller, request, place, len(data)):
            return Empty()
        await self.shelf.put(place, data)

        async def written(transaction: Transaction) -> bool:
            (rows,) = await transaction.commit((_WRITTEN, place))
            return bool(rows)

        # A crash may forget that it is there: the commit of its snapshot, which is durable, would not find it.
        if not await self.database.run(Scope(sid=caller.sid), written, durable=False):
            raise HermesError(ErrorCode.UNAVAILABLE, "put_piece: writing took too long; send it again", retryable=True)
        return Empty()

    async def _begin(self, caller: Caller, request: PutPieceRequest, place: Place, size: int) -> bool:
        """Tell whether the bytes are to be written."""
        mark = wanted(caller.epoch, request.number)
        digests = [request.digest]

        async def work(transaction: Transaction) -> bool:
            sessions, there, kept = await transaction.ask(
                (_EPOCH, (caller.sid,)), (_THERE, (caller.sid, digests)), (_BYTES, (caller.sid,))
            )
            rules.require_epoch(sessions[0]["epoch"] if sessions else None, caller.sid, caller.epoch)
            if there:
                await transaction.commit((_CLAIM, (mark, caller.sid, digests, mark)))
                return False
            _require_room(kept[0]["bytes"], size)
            await transaction.commit((_BEGIN, (*place, request.digest, size, mark)))
            return True

        return await self.database.run(Scope(sid=caller.sid), work, durable=False)

    async def get(self, caller: Caller, request: GetPieceRequest) -> PieceReply:
        """Return one as it was put."""

        async def work(transaction: Transaction) -> str | None:
            sessions, there = await transaction.commit((_EPOCH, (caller.sid,)), (_THERE, (caller.sid, [request.digest])))
            rules.require_epoch(sessions[0]["epoch"] if sessions else None, caller.sid, caller.epoch)
            return str(there[0]["object"]) if there else None

        name = await self.database.run(Scope(sid=caller.sid), work)
        data = await self.shelf.get((caller.sid, name)) if name is not None else None
        if data is None:
            raise HermesError(ErrorCode.NOT_FOUND, f"there is no piece {request.digest}")
        return PieceReply(data=base64.b64encode(data).decode())


async def collect(database: Database, shelf: Shelf) -> int:
    """Delete a batch of pieces that nobody needs; return how many. Locked meanwhile, so that no writer finishes one."""

    async def work(transaction: Transaction) -> int:
        (rows,) = await transaction.ask((_TO_COLLECT, (_COLLECT_AT_ONCE,)))
        if rows:
            await shelf.delete([(row["sid"], row["object"]) for row in rows])
        sids, objects = [row["sid"] for row in rows], [row["object"] for row in rows]
        await transaction.commit((_COLLECTED, (sids, objects)))
        return len(rows)

    return await database.run(Scope(task="janitor"), work)


async def collect_for_ever(database: Database, shelf: Shelf) -> None:
    """Collect until nothing is left, every few seconds."""
    while True:
        try:
            while await collect(database, shelf):
                pass
        except HermesError as error:
            log.warning("store.pieces.not_collected", error=error.message)
        await asyncio.sleep(_COLLECT_SECONDS)


def _require_room(taken: int, more: int) -> None:
    if taken + more > MAX_SESSION_BYTES:
        raise HermesError(
            ErrorCode.TOO_LARGE,
            f"put_piece: {taken} bytes of this workspace are kept and it may keep {MAX_SESSION_BYTES}: remove files",
        )


def _packed(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise HermesError(ErrorCode.INVALID, "put_piece: data is not base64") from error
    if not 0 < len(data) <= MAX_PACKED_BYTES:
        raise HermesError(ErrorCode.INVALID, f"put_piece: data is {len(data)} bytes; send 1 to {MAX_PACKED_BYTES}")
    return data
