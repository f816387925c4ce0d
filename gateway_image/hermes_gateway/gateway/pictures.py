"""Pictures that callers send: read from data URLs, told apart by their bytes, stored before the message is published."""

from __future__ import annotations

import asyncio
import base64
import binascii
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hermes_contracts import names
from hermes_contracts.conversation import ImagePart, MediaType, picture_type
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import MAX_MEDIA_BYTES, MEDIA_PAGE_BYTES, PUT_MEDIA, PutMediaRequest
from hermes_gateway.gateway.web.errors import ApiError
from hermes_service.rpc import StoreClient

MAX_PICTURES = 16
"""Pictures of one message."""
_HEAD = re.compile(r"data:([a-z]+/[a-z0-9.+-]+)((?:;[a-z0-9=_.-]+)*),", re.IGNORECASE)
_MAX_HEAD = 200
_ATTEMPTS = 4
_KINDS = "PNG, JPEG, GIF or WebP"
_MIB = 1024 * 1024


@dataclass(frozen=True)
class PictureUrl:
    """A picture as it was sent, and where in the request: `param` names the field in errors."""

    param: str
    url: str = field(repr=False)


@dataclass(frozen=True)
class Picture:
    """A picture's bytes, known to be of this type."""

    media_type: MediaType
    data: bytes = field(repr=False)
    part: ImagePart


def read_picture(sent: PictureUrl) -> Picture:
    """Decode a data URL. Raises ApiError 400, or 413 when it is too large."""
    where, url = sent.param, sent.url
    if url[:8].lower().startswith(("http://", "https:/")):
        why = "addresses are not fetched, because that would be a way into the cluster's network; send a data: URL"
        raise _refused(where, why)
    head = _HEAD.match(url[:_MAX_HEAD])
    if head is None or not head.group(2).lower().endswith(";base64"):
        raise _refused(where, "must be a data: URL, like data:image/png;base64,...")
    if not head.group(1).lower().startswith("image/"):
        raise _refused(where, f"must be a picture ({_KINDS}), not {head.group(1)[:64]}")
    if (len(url) - head.end()) // 4 * 3 - 2 > MAX_MEDIA_BYTES:
        raise _too_large(where)
    try:
        data = base64.b64decode(url[head.end() :], validate=True)
    except (binascii.Error, ValueError) as error:
        raise _refused(where, "is not valid base64") from error
    if len(data) > MAX_MEDIA_BYTES:
        raise _too_large(where)
    # The bytes decide: a provider refuses a picture whose declared type is another.
    kind = picture_type(data)
    if kind is None:
        raise _refused(where, f"the bytes are not a picture of a type that models take: {_KINDS}")
    return Picture(kind, data, ImagePart(media_id=names.media_id(data), media_type=kind, size=len(data)))


async def read_pictures(sent: Sequence[PictureUrl]) -> tuple[Picture, ...]:
    """Decode a message's pictures beside the event loop. Raises ApiError."""
    if len(sent) > MAX_PICTURES:
        raise _refused(sent[MAX_PICTURES].param, f"a message has at most {MAX_PICTURES} pictures")
    if not sent:
        return ()
    return tuple(await asyncio.to_thread(lambda: [read_picture(one) for one in sent]))


async def store_pictures(store: StoreClient, sid: str, pictures: Sequence[Picture]) -> tuple[ImagePart, ...]:
    """Store pictures under a session, which need not have a message yet. Raises HermesError."""
    for picture in {picture.part.media_id: picture for picture in pictures}.values():
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await _store(store, sid, picture)
                break
            except HermesError as error:
                # Somebody sends the same picture at the same time and began it anew: so do we, or find it there.
                if error.code is not ErrorCode.CONFLICT:
                    raise
                if attempt == _ATTEMPTS:
                    busy = "the picture is being stored by another call; try again"
                    raise HermesError(ErrorCode.UNAVAILABLE, busy, retryable=True) from error
                await asyncio.sleep(random.uniform(0.05, 0.2) * attempt)
    return tuple(picture.part for picture in pictures)


async def _store(store: StoreClient, sid: str, picture: Picture) -> None:
    for offset in range(0, len(picture.data), MEDIA_PAGE_BYTES):
        page = base64.b64encode(picture.data[offset : offset + MEDIA_PAGE_BYTES]).decode()
        request = PutMediaRequest(
            sid=sid,
            media_id=picture.part.media_id,
            media_type=picture.media_type,
            total=len(picture.data),
            offset=offset,
            data=page,
        )
        await store.call(PUT_MEDIA, request)


def _refused(param: str, message: str) -> ApiError:
    return ApiError(400, f"{param}: {message}", code="invalid_image", param=param)


def _too_large(param: str) -> ApiError:
    too_large = f"{param}: the picture is larger than {MAX_MEDIA_BYTES // _MIB} MiB"
    return ApiError(413, too_large, code="request_too_large", param=param)
