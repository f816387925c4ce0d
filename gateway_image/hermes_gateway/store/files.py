"""Files that go with an answer: offered while the turn runs, sent when it is committed, read by the session's owner."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from hermes_contracts.envelopes import OutFile
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import file_id
from hermes_contracts.store_api import (
    MAX_TURN_FILES,
    FileRequest,
    FilesRequest,
    OfferFileReply,
    OfferFileRequest,
    StoredFile,
    StoredFiles,
)  # fmt: skip
from hermes_gateway.store import rules
from hermes_gateway.store.database import Database, Row, Scope, Transaction
from hermes_gateway.store.sessions import require_owner
from hermes_gateway.store.writes import LOCK_SESSION
from hermes_service.rpc import Caller

_COLUMNS = """file_id, media_id, name, media_type, size, caption, turn_id,
    extract(epoch from created_at)::float8 as created_at"""
_TURN = "select state from turns where sid = %s and turn_id = %s"
_MEDIUM = "select total from media where sid = %s and media_id = %s and received = total"
OF_TURN = f"select {_COLUMNS} from files where sid = %s and turn_id = %s order by number"
"""A turn's files, in the order in which they were offered."""
_ONE = f"select {_COLUMNS} from files where sid = %s and file_id = %s"
_NEWEST = f"select {_COLUMNS} from files where sid = %s order by created_at desc, number desc limit 200"
_OWNER = "select owner from sessions where sid = %s"
_OFFER = """
insert into files (sid, file_id, turn_id, media_id, number, name, media_type, size, caption)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


@dataclass(frozen=True)
class Files:
    """Handlers of `offer_file`, `get_file` and `list_files`."""

    database: Database

    async def offer(self, caller: Caller, request: OfferFileRequest) -> OfferFileReply:
        """Have a stored medium go with a running turn's answer."""

        async def work(transaction: Transaction) -> OfferFileReply:
            sessions, turns, media, offered = await transaction.ask(
                (LOCK_SESSION, (caller.sid,)),
                (_TURN, (caller.sid, request.turn_id)),
                (_MEDIUM, (caller.sid, request.media_id)),
                (OF_TURN, (caller.sid, request.turn_id)),
            )
            rules.require_epoch(sessions[0]["epoch"] if sessions else None, caller.sid, caller.epoch)
            rules.require_running(turns[0]["state"] if turns else None, request.turn_id)
            if not media:
                raise HermesError(ErrorCode.NOT_FOUND, f"there is no medium {request.media_id} in session {caller.sid}")
            file = _file(request, media[0]["total"])
            same = next((row for row in offered if row["file_id"] == file.id), None)
            if same is not None:
                if same["media_id"] != file.media_id:
                    why = f"name: another file {file.name!r} goes with this answer already; give this one another name"
                    raise HermesError(ErrorCode.CONFLICT, why)
                await transaction.commit()
                return OfferFileReply(file=stored_file(same).file)
            if len(offered) >= MAX_TURN_FILES:
                raise HermesError(
                    ErrorCode.TOO_LARGE, f"{MAX_TURN_FILES} files go with this answer already, and more cannot; pack them"
                )
            place = (caller.sid, file.id, request.turn_id, file.media_id, len(offered) + 1)
            await transaction.commit((_OFFER, (*place, file.name, file.media_type, file.size, file.caption)))
            return OfferFileReply(file=file)

        return await self.database.run(Scope(sid=caller.sid), work)

    async def get(self, _: Caller, request: FileRequest) -> StoredFile:
        """Return one file of an owner's session."""

        async def work(transaction: Transaction) -> StoredFile:
            owners, found = await transaction.commit((_OWNER, (request.sid,)), (_ONE, (request.sid, request.file_id)))
            require_owner(owners, request.sid, request.owner)
            if not found:
                raise HermesError(ErrorCode.NOT_FOUND, f"there is no file {request.file_id} in session {request.sid}")
            return stored_file(found[0])

        return await self.database.run(Scope(sid=request.sid), work)

    async def list(self, _: Caller, request: FilesRequest) -> StoredFiles:
        """Return an owner's session's files, newest first."""

        async def work(transaction: Transaction) -> StoredFiles:
            owners, found = await transaction.commit((_OWNER, (request.sid,)), (_NEWEST, (request.sid,)))
            require_owner(owners, request.sid, request.owner)
            return StoredFiles(files=tuple(map(stored_file, found)))

        return await self.database.run(Scope(sid=request.sid), work)


def _file(request: OfferFileRequest, size: int) -> OutFile:
    try:
        return OutFile(
            id=file_id(request.turn_id, request.name),
            media_id=request.media_id,
            name=request.name,
            media_type=request.media_type,
            size=size,
            caption=request.caption.replace("\0", ""),
        )
    except ValidationError as error:
        field = ".".join(map(str, error.errors()[0]["loc"]))
        why = "name must be 1 to 120 characters without / and control characters, media_type like text/plain"
        raise HermesError(ErrorCode.INVALID, f"offer_file: {field}: {why}") from error


def stored_file(row: Row) -> StoredFile:
    """Read a row of the queries above."""
    file = OutFile(
        id=row["file_id"],
        media_id=row["media_id"],
        name=row["name"],
        media_type=row["media_type"],
        size=row["size"],
        caption=row["caption"],
    )
    return StoredFile(file=file, turn_id=row["turn_id"], created_at=row["created_at"])
