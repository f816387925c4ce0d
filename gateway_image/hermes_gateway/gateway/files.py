"""Bytes of files that go with answers, page by page from the store."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator

from hermes_contracts.envelopes import OutFile
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import GET_MEDIA, MAX_MEDIA_BYTES, GetMediaRequest
from hermes_service.rpc import StoreClient


async def pages_of(store: StoreClient, sid: str, file: OutFile) -> AsyncIterator[bytes]:
    """Yield a file's bytes. Raises HermesError: NOT_FOUND, or what the store says."""
    read = 0
    while read < file.size:
        page = await store.call(GET_MEDIA, GetMediaRequest(sid=sid, media_id=file.media_id, offset=read))
        try:
            piece = base64.b64decode(page.data, validate=True)
        except binascii.Error as error:
            raise HermesError(ErrorCode.INTERNAL, f"the store's page of {file.media_id} is not base64") from error
        read += len(piece)
        if not piece or read > MAX_MEDIA_BYTES:
            raise HermesError(ErrorCode.INTERNAL, f"the store's pages of {file.media_id} do not end")
        yield piece


async def read_file(store: StoreClient, sid: str, file: OutFile) -> bytes:
    """Return a file's bytes. Raises HermesError."""
    return b"".join([piece async for piece in pages_of(store, sid, file)])
