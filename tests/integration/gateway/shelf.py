"""What a scripted store keeps of files and homes."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hermes_contracts.envelopes import OutFile, Route, Target
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import file_id, media_id
from hermes_contracts.store_api import (
    Empty,
    FileRequest,
    FilesRequest,
    GetMediaRequest,
    HomeRequest,
    Homes,
    HomesRequest,
    MediaPage,
    SetHomeRequest,
    StoredFile,
    StoredFiles,
)  # fmt: skip
from hermes_service.rpc import Caller

PAGE_BYTES = 1_000


@dataclass
class Shelf:
    """Files by session and id, and homes by person and platform."""

    owned: Callable[[str, str], Route]
    files: dict[tuple[str, str], tuple[StoredFile, bytes]] = field(default_factory=dict)
    homes: dict[tuple[str, str], Target] = field(default_factory=dict)
    away: bool = False

    def put(self, sid: str, turn_id: str, name: str, data: bytes, caption: str = "") -> OutFile:
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        file = OutFile(
            id=file_id(turn_id, name), media_id=media_id(data), name=name, media_type=kind, size=len(data), caption=caption
        )
        self.files[sid, file.id] = (StoredFile(file=file, turn_id=turn_id, created_at=1.0), data)
        return file

    def handlers(self) -> dict[str, Any]:
        return {
            "get_media": self.get_media, "get_file": self.get_file, "list_files": self.list_files,
            "set_home": self.set_home, "list_homes": self.list_homes, "find_home": self.find_home,
        }  # fmt: skip

    async def get_media(self, caller: Caller, request: GetMediaRequest) -> MediaPage:
        if self.away:
            self.away = False
            raise HermesError(ErrorCode.UNAVAILABLE, "the database is away")
        for (sid, _), (stored, data) in self.files.items():
            if (sid, stored.file.media_id) == (request.sid, request.media_id):
                page = base64.b64encode(data[request.offset : request.offset + PAGE_BYTES]).decode()
                return MediaPage(media_type="application/octet-stream", total=len(data), data=page)
        raise HermesError(ErrorCode.NOT_FOUND, "there is no such medium")

    async def get_file(self, caller: Caller, request: FileRequest) -> StoredFile:
        self.owned(request.sid, request.owner)
        if (request.sid, request.file_id) not in self.files:
            raise HermesError(ErrorCode.NOT_FOUND, "there is no such file")
        return self.files[request.sid, request.file_id][0]

    async def list_files(self, caller: Caller, request: FilesRequest) -> StoredFiles:
        self.owned(request.sid, request.owner)
        return StoredFiles(files=tuple(stored for (sid, _), (stored, _) in self.files.items() if sid == request.sid))

    async def set_home(self, caller: Caller, request: SetHomeRequest) -> Empty:
        self.homes.pop((request.owner, request.channel), None)
        if request.place is not None:
            self.homes[request.owner, request.channel] = request.place
        return Empty()

    async def list_homes(self, caller: Caller, request: HomesRequest) -> Homes:
        return self._homes(request.owner, "")

    async def find_home(self, caller: Caller, request: HomeRequest) -> Homes:
        return self._homes(request.owner, request.channel)

    def _homes(self, owner: str, channel: str) -> Homes:
        places = [p for (who, where), p in self.homes.items() if who == owner and channel in ("", where)]
        return Homes(places=tuple(reversed(places)))
