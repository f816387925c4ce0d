"""The bytes of pictures: from the store, page by page, kept in memory up to a limit."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from hermes_contracts.conversation import ImagePart
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import ModelRequest
from hermes_contracts.store_api import (
    DESCRIPTIONS,
    GET_MEDIA,
    MAX_DESCRIBED,
    MAX_MEDIA_BYTES,
    DescriptionsRequest,
    GetMediaRequest,
)
from hermes_gateway.models.store import Store
from hermes_gateway.models.target import Medium

CACHE_BYTES = 64 * 1024 * 1024
MAX_DESCRIPTIONS = 2_000
_AT_ONCE = 4
_UNREADABLE = "The pictures of this conversation cannot be read now."


def image_ids(request: ModelRequest) -> list[str]:
    """Return the pictures of a request, each once, in order."""
    return list(dict.fromkeys(part.media_id for m in request.messages for part in m.parts if isinstance(part, ImagePart)))


class Pictures:
    """Pictures by session and id; those used longest ago leave when all of them together are too many bytes."""

    def __init__(self, store: Store, limit_bytes: int = CACHE_BYTES) -> None:
        self._store = store
        self._limit = limit_bytes
        self._size = 0
        self._kept: OrderedDict[tuple[str, str], Medium] = OrderedDict()
        self._described: OrderedDict[tuple[str, str], str] = OrderedDict()

    async def get(self, sid: str, ids: Iterable[str]) -> dict[str, Medium]:
        """Return a session's pictures; those that are gone are left out. Raises HermesError UNAVAILABLE."""
        slots = asyncio.Semaphore(_AT_ONCE)
        found: dict[str, Medium] = {}

        async def one(media_id: str) -> None:
            async with slots:
                medium = await self._one(sid, media_id)
            if medium is not None:
                found[media_id] = medium

        try:
            async with asyncio.TaskGroup() as group:
                for media_id in ids:
                    group.create_task(one(media_id))
        except* HermesError as errors:
            raise HermesError(ErrorCode.UNAVAILABLE, _UNREADABLE, retryable=True) from errors
        return found

    async def descriptions(self, sid: str, ids: Sequence[str]) -> dict[str, str]:
        """Return what a session's pictures show, as far as they were described. Raises HermesError UNAVAILABLE.

        A description never changes, so it is asked for until there is one, and then never again.
        """
        unknown = [media_id for media_id in ids if (sid, media_id) not in self._described]
        found = {media_id: self._described[sid, media_id] for media_id in ids if (sid, media_id) in self._described}
        try:
            for start in range(0, len(unknown), MAX_DESCRIBED):
                some = DescriptionsRequest(sid=sid, media_ids=tuple(unknown[start : start + MAX_DESCRIBED]))
                found.update((await self._store.call(DESCRIPTIONS, some)).descriptions)
        except HermesError as error:
            raise HermesError(ErrorCode.UNAVAILABLE, _UNREADABLE, retryable=True) from error
        for media_id, text in found.items():
            self._described[sid, media_id] = text
            self._described.move_to_end((sid, media_id))
        while len(self._described) > MAX_DESCRIPTIONS:
            self._described.popitem(last=False)
        return found

    async def _one(self, sid: str, media_id: str) -> Medium | None:
        key = (sid, media_id)
        if (kept := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return kept
        medium = await self._read(sid, media_id)
        if medium is not None:
            self._keep(key, medium)
        return medium

    async def _read(self, sid: str, media_id: str) -> Medium | None:
        data = bytearray()
        while True:
            try:
                page = await self._store.call(GET_MEDIA, GetMediaRequest(sid=sid, media_id=media_id, offset=len(data)))
                piece = base64.b64decode(page.data, validate=True)
            except binascii.Error as error:
                raise HermesError(ErrorCode.INTERNAL, f"the store's page of {media_id} is not base64") from error
            except HermesError as error:
                if error.code is ErrorCode.NOT_FOUND:
                    return None
                raise
            if page.media_type == "application/octet-stream":
                return None
            data += piece
            if len(data) >= page.total:
                return Medium(page.media_type, bytes(data))
            if not piece or len(data) > MAX_MEDIA_BYTES:
                raise HermesError(ErrorCode.INTERNAL, f"the store's pages of {media_id} do not end")

    def _keep(self, key: tuple[str, str], medium: Medium) -> None:
        if len(medium.data) > self._limit or key in self._kept:
            return
        self._kept[key] = medium
        self._size += len(medium.data)
        while self._size > self._limit:
            _, left = self._kept.popitem(last=False)
            self._size -= len(left.data)
