"""Pictures of a session: written in pages, readable once they are whole and are what their id says."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import media_id
from hermes_contracts.store_api import (
    MEDIA_PAGE_BYTES,
    DescribeMediaRequest,
    Descriptions,
    DescriptionsRequest,
    Empty,
    GetMediaRequest,
    MediaPage,
    PutMediaRequest,
)
from hermes_gateway.store import rules
from hermes_gateway.store.answers import storable
from hermes_gateway.store.database import Database, Scope, Statement, Transaction
from hermes_gateway.store.rules import FoundMedium, PageWrite, decide_page
from hermes_gateway.store.writes import LOCK_SESSION
from hermes_service.rpc import Caller

MAX_PICTURE_BYTES = 256 * 1024 * 1024
"""Most bytes in one session of what people sent."""
MAX_SESSION_BYTES = 512 * 1024 * 1024
"""Most bytes of that and of what the agent sends, together: an agent that sends much keeps nobody's pictures out."""

# A picture may come before its session has a row, so there may be no row to lock.
_LOCK = "select pg_advisory_xact_lock(hashtextextended(%s, 2))"
_FIND = "select media_type, total, received from media where sid = %s and media_id = %s"
_BYTES = """
select coalesce(sum(total), 0)::bigint as bytes,
    coalesce(sum(total) filter (where not exists (
        select from files where files.sid = media.sid and files.media_id = media.media_id
    )), 0)::bigint as pictures
from media where sid = %s and media_id <> %s
"""
_PAGES = "select data from media_pages where sid = %s and media_id = %s order by starts"
_BEGIN = """
insert into media (sid, media_id, media_type, total, received) values (%s, %s, %s, %s, 0)
on conflict (sid, media_id) do update
    set media_type = excluded.media_type, total = excluded.total, received = 0, created_at = now()
"""
_WRITE = "insert into media_pages (sid, media_id, starts, data) values (%s, %s, %s, %s)"
_RECEIVED = "update media set received = %s where sid = %s and media_id = %s"
_DESCRIBE = """
update media set description = coalesce(description, %s) where sid = %s and media_id = %s returning media_id, description
"""
_DESCRIPTIONS = "select media_id, description from media where sid = %s and media_id = any(%s) and description is not null"
_FORGET_PAGES = "delete from media_pages where sid = %s and media_id = %s"
_FORGET = "delete from media where sid = %s and media_id = %s"
_PAGE_AT = """
select starts, data from media_pages where sid = %s and media_id = %s and starts <= %s order by starts desc limit 1
"""


@dataclass(frozen=True)
class Media:
    """Handlers of `put_media`, `get_media`, `describe_media` and `descriptions`."""

    database: Database

    async def put(self, caller: Caller, request: PutMediaRequest) -> Empty:
        """Write one page. The last one is refused, and the medium forgotten, when its bytes are not those of its id."""
        _require_own(caller, request.sid, "put_media")
        data = _page_bytes(request)
        place = (request.sid, request.media_id)

        async def work(transaction: Transaction) -> bool:
            _, sessions, found, others = await transaction.ask(
                (_LOCK, (request.sid,)), (LOCK_SESSION, (request.sid,)), (_FIND, place), (_BYTES, place)
            )
            if caller.role == "agent":
                rules.require_epoch(sessions[0]["epoch"] if sessions else None, caller.sid, caller.epoch)
            write = decide_page(FoundMedium(**found[0]) if found else None, request, len(data))
            if write is PageWrite.NOTHING:
                await transaction.commit()
                return True
            if write is PageWrite.BEGIN:
                if caller.role == "agent":
                    rules.require_room(others[0]["bytes"], request.total, MAX_SESSION_BYTES)
                else:
                    rules.require_room(others[0]["pictures"], request.total, MAX_PICTURE_BYTES)
            if request.offset + len(data) == request.total:
                before = await transaction.ask((_PAGES, place)) if write is PageWrite.NEXT else [[]]
                if media_id(b"".join([*(row["data"] for row in before[0]), data])) != request.media_id:
                    await transaction.commit((_FORGET_PAGES, place), (_FORGET, place))
                    return False
            await transaction.commit(*_write(request, data, write))
            return True

        if not await self.database.run(Scope(sid=request.sid), work):
            raise HermesError(
                ErrorCode.INVALID, f"put_media: the bytes are not those of {request.media_id}; send them again from offset 0"
            )
        return Empty()

    async def get(self, caller: Caller, request: GetMediaRequest) -> MediaPage:
        """Return the page at an offset, as it was written."""
        _require_own(caller, request.sid, "get_media")
        place = (request.sid, request.media_id)

        async def work(transaction: Transaction) -> MediaPage:
            found, pages = await transaction.commit((_FIND, place), (_PAGE_AT, (*place, request.offset)))
            if not found or not pages or found[0]["received"] < found[0]["total"]:
                raise HermesError(ErrorCode.NOT_FOUND, f"there is no medium {request.media_id} in session {request.sid}")
            data = pages[0]["data"][request.offset - pages[0]["starts"] :]
            return MediaPage(
                media_type=found[0]["media_type"], total=found[0]["total"], data=base64.b64encode(data).decode()
            )

        return await self.database.run(Scope(sid=request.sid), work)

    async def describe(self, caller: Caller, request: DescribeMediaRequest) -> Descriptions:
        """Keep a picture's description; return the one that stays, which may be an earlier one."""

        async def work(transaction: Transaction) -> Descriptions:
            (sessions,) = await transaction.ask((LOCK_SESSION, (caller.sid,)))
            rules.require_epoch(sessions[0]["epoch"] if sessions else None, caller.sid, caller.epoch)
            (rows,) = await transaction.commit((_DESCRIBE, (storable(request.description), caller.sid, request.media_id)))
            if not rows:
                raise HermesError(ErrorCode.NOT_FOUND, f"there is no medium {request.media_id} in session {caller.sid}")
            return _descriptions(rows)

        return await self.database.run(Scope(sid=caller.sid), work)

    async def descriptions(self, caller: Caller, request: DescriptionsRequest) -> Descriptions:
        """Return what is known of pictures."""
        _require_own(caller, request.sid, "descriptions")

        async def work(transaction: Transaction) -> Descriptions:
            (rows,) = await transaction.commit((_DESCRIPTIONS, (request.sid, list(request.media_ids))))
            return _descriptions(rows)

        return await self.database.run(Scope(sid=request.sid), work)


def _descriptions(rows: Sequence[Mapping[str, Any]]) -> Descriptions:
    return Descriptions(descriptions={row["media_id"]: row["description"] for row in rows})


def _require_own(caller: Caller, sid: str, method: str) -> None:
    if caller.role == "agent" and caller.sid != sid:
        raise HermesError(ErrorCode.FORBIDDEN, f"{method}: sid is not the caller's session")


def _page_bytes(request: PutMediaRequest) -> bytes:
    try:
        data = base64.b64decode(request.data, validate=True)
    except binascii.Error as error:
        raise HermesError(ErrorCode.INVALID, "put_media: data is not base64") from error
    if not 0 < len(data) <= MEDIA_PAGE_BYTES:
        raise HermesError(ErrorCode.INVALID, f"put_media: data is {len(data)} bytes; send 1 to {MEDIA_PAGE_BYTES}")
    if request.offset + len(data) > request.total:
        raise HermesError(ErrorCode.INVALID, f"put_media: data ends behind total, which is {request.total}")
    return data


def _write(request: PutMediaRequest, data: bytes, write: PageWrite) -> list[Statement]:
    place = (request.sid, request.media_id)
    begin: list[Statement] = [
        (_FORGET_PAGES, place),
        (_BEGIN, (*place, request.media_type, request.total)),
    ]
    return [
        *(begin if write is PageWrite.BEGIN else []),
        (_WRITE, (*place, request.offset, data)),
        (_RECEIVED, (request.offset + len(data), *place)),
    ]
