"""Routes of the files that an agent has sent: list them, fetch one."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import GET_FILE, LIST_FILES, FileRequest, FilesRequest, StoredFile
from hermes_gateway.gateway.files import read_file
from hermes_gateway.gateway.sessions_api.service import SessionsService
from hermes_gateway.gateway.web.callers import Problem, SessionsCaller, problems
from hermes_gateway.gateway.web.errors import ApiError
from hermes_service.rpc import StoreClient

_SCHEMA = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_BYTES: Problem = {200: {"content": _SCHEMA, "description": "Bytes"}}


class FileView(BaseModel):
    """A file that goes with the answer of turn `turn`. `size` is in bytes, `created_at` in seconds since the epoch."""

    id: str
    name: str
    media_type: str
    size: int
    caption: str
    turn: str
    created_at: float

    @classmethod
    def of(cls, stored: StoredFile) -> FileView:
        """Show what the store knows."""
        shown = stored.file.model_dump(exclude={"media_id"})
        return cls(**shown, turn=stored.turn_id, created_at=stored.created_at)


class FileList(BaseModel):
    """Newest first, at most 200."""

    object: str = "list"
    data: list[FileView]


def build_router(sessions: SessionsService, store: StoreClient) -> APIRouter:
    """Build the routes."""
    router = APIRouter(prefix="/api/sessions", tags=["Sessions"], responses=problems(404, 503))

    @router.get("/{id}/files")
    async def list_files(id: str, caller: SessionsCaller) -> FileList:  # noqa: A002 - the path's own word
        """List the files that the session's agent has sent."""
        await sessions.get(caller, id)
        found = await store.call(LIST_FILES, FilesRequest(sid=id, owner=caller.owner))
        return FileList(data=[FileView.of(stored) for stored in found.files])

    @router.get("/{id}/files/{file_id}", response_class=Response, responses=_BYTES)
    async def get_file(
        id: str,  # noqa: A002
        file_id: Annotated[str, Path(max_length=40)],
        caller: SessionsCaller,
    ) -> Response:
        """Fetch a file's bytes."""
        await sessions.get(caller, id)
        try:
            stored = await store.call(GET_FILE, FileRequest(sid=id, owner=caller.owner, file_id=file_id))
            data = await read_file(store, id, stored.file)
        except HermesError as error:
            if error.code is ErrorCode.NOT_FOUND:
                raise ApiError(404, f"no file {file_id!r}", code="not_found", param="file_id") from error
            raise
        return Response(data, media_type=stored.file.media_type, headers=_headers(stored.file.name))

    return router


def _headers(name: str) -> dict[str, str]:
    """Have a browser save the file whatever it is: an agent made it, and a page of it must not run as one of ours."""
    return {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "private, no-store",
    }
