"""Files that go with the turn's answer: their bytes to the store, and their names beside the turn."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager

from hermes_agent.store_port import Store
from hermes_agent.tools.base import ToolFailure
from hermes_contracts.conversation import picture_type
from hermes_contracts.envelopes import OutFile
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import media_id
from hermes_contracts.store_api import MEDIA_PAGE_BYTES, OFFER_FILE, PUT_MEDIA, OfferFileRequest, PutMediaRequest

OTHER = "application/octet-stream"


class Offers:
    """One session's. Between `open` and its end it belongs to one turn."""

    def __init__(self, store: Store, sid: str) -> None:
        self._store = store
        self._sid = sid
        self._turn_id = ""
        self.any = False
        """Whether files may go with the turn that is open: what an earlier life of it offered is in the store."""

    @contextmanager
    def open(self, turn_id: str, *, begun: bool) -> Iterator[None]:
        """Belong to a turn meanwhile, which was begun before or was not."""
        self._turn_id, self.any = turn_id, begun
        try:
            yield
        finally:
            self._turn_id = ""

    async def offer(self, name: str, data: bytes, caption: str) -> OutFile:
        """Have a file go with the answer. Raises ToolFailure; HermesError FENCED."""
        kind = picture_type(data)
        media_type = kind or _guess(name)
        identity = media_id(data)
        try:
            for offset in range(0, len(data), MEDIA_PAGE_BYTES):
                page = PutMediaRequest(
                    sid=self._sid,
                    media_id=identity,
                    media_type=kind or OTHER,
                    total=len(data),
                    offset=offset,
                    data=base64.b64encode(data[offset : offset + MEDIA_PAGE_BYTES]).decode(),
                )
                await self._store.call(PUT_MEDIA, page)
            self.any = True
            request = OfferFileRequest(
                turn_id=self._turn_id, media_id=identity, name=name, media_type=media_type, caption=caption
            )
            return (await self._store.call(OFFER_FILE, request)).file
        except HermesError as error:
            if error.code is ErrorCode.FENCED:
                raise
            raise ToolFailure(f"Not sent: {error.message}") from error


def _guess(name: str) -> str:
    import mimetypes  # loaded with the first file: start-up does not pay

    return mimetypes.guess_type(name)[0] or OTHER
