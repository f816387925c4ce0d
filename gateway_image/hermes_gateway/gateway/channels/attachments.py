"""Files that come with a chat message: pictures go to the model as pictures, text as text, and of the others it is said that
they came."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from hermes_contracts import names
from hermes_contracts.conversation import ImagePart, picture_type
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import MAX_MEDIA_BYTES
from hermes_gateway.gateway.channels.base import Attachment, ChatChannel, ChatMessage
from hermes_gateway.gateway.pictures import MAX_PICTURES, Picture, store_pictures
from hermes_service.rpc import StoreClient

log = structlog.get_logger()

MAX_INLINE_BYTES = 64 * 1024
"""Of a text file; what is longer is better put where the agent can open it."""
FETCH_SECONDS = 2.0
"""For all files of a message together: platforms give up on us after three."""


@dataclass(frozen=True)
class Read:
    """What became of a message's files: words for the agent, pictures, what the person is told of those that are missing."""

    text: str = ""
    images: tuple[ImagePart, ...] = ()
    remark: str = ""


async def read_attachments(channel: ChatChannel, store: StoreClient, sid: str, message: ChatMessage) -> Read:
    """Fetch, sort and store a message's files. Raises HermesError when the store is away; the message comes again."""
    found = await _fetch(channel, message)
    texts, pictures, missing = list[str](), list[Picture](), list[str]()
    for attachment, data in zip(message.attachments, found, strict=True):
        kind = picture_type(data) if isinstance(data, bytes) else None
        if isinstance(data, str):
            missing.append(f"{attachment.name} ({data})")
        elif kind is not None and len(pictures) < MAX_PICTURES:
            pictures.append(Picture(kind, data, ImagePart(media_id=names.media_id(data), media_type=kind, size=len(data))))
        elif (text := _text_of(data)) is not None:
            texts.append(f"File {attachment.name}:\n\n{text}")
        elif is_sound(data):
            missing.append(f"{attachment.name} (a recording, which nobody here can listen to: write what it says)")
        else:
            missing.append(f"{attachment.name} (neither a picture nor a text of at most {MAX_INLINE_BYTES // 1024} KiB)")
    try:
        images = await store_pictures(store, sid, pictures)
    except HermesError as error:
        if error.code is not ErrorCode.TOO_LARGE:
            raise
        images = ()
        missing.append(f"{len(pictures)} of the pictures (so many were sent before that there is no room for more)")
    if missing:
        texts.append(f"Files came with this message that you cannot see: {', '.join(missing)}.")
    remark = f"I cannot see everything you sent: {', '.join(missing)}." if missing else ""
    return Read("\n\n".join(texts), images, remark)


async def _fetch(channel: ChatChannel, message: ChatMessage) -> Sequence[bytes | str]:
    """Return each file's bytes, or why it is not here."""
    found: dict[int, bytes | str] = {}

    async def one(number: int, attachment: Attachment) -> None:
        if attachment.size > MAX_MEDIA_BYTES:
            found[number] = f"larger than {MAX_MEDIA_BYTES // (1024 * 1024)} MiB"
            return
        try:
            found[number] = await channel.fetch(message, attachment)
        except HermesError as error:
            found[number] = error.message

    try:
        async with asyncio.timeout(FETCH_SECONDS), asyncio.TaskGroup() as group:
            for number, attachment in enumerate(message.attachments):
                group.create_task(one(number, attachment))
    except TimeoutError:
        log.info("attachments.slow", channel=message.channel, files=len(message.attachments))
    return [found.get(number, "it could not be fetched in time") for number in range(len(message.attachments))]


def _text_of(data: bytes) -> str | None:
    if len(data) > MAX_INLINE_BYTES or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def is_sound(data: bytes) -> bool:
    """Tell by its first bytes whether a file is a recording, as phones and chats make them."""
    return data.startswith((b"OggS", b"ID3", b"\xff\xfb")) or data[4:11] == b"ftypM4A" or data[8:12] == b"WAVE"
