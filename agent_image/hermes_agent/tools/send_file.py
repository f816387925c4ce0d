"""`send_file`: a file of the workspace goes to the person, behind the answer.

A tool and not a line in the answer: what is wrong with a file is known while the model can still act, a page that the model
quotes cannot make it send one, and the journal says that it was asked for.
"""

from __future__ import annotations

import posixpath
import re

from pydantic import Field

from hermes_agent.tools.base import Access, Arguments, Tool, ToolContext, ToolFailure
from hermes_agent.tools.files import path_key, require_file
from hermes_contracts.envelopes import MAX_CAPTION_CHARACTERS
from hermes_contracts.store_api import MAX_MEDIA_BYTES

CHUNK_BYTES = 256 * 1024
_MIB = 1024 * 1024
_NAME = re.compile(r"[^/\\\x00-\x1f\x7f]{1,120}")


class SendFileArguments(Arguments):
    """Arguments of `send_file`."""

    path: str = Field(min_length=1, max_length=4096, description="File of the workspace, relative to it or absolute")
    caption: str = Field(default="", max_length=MAX_CAPTION_CHARACTERS, description="What the user reads below the file")
    name: str = Field(default="", max_length=120, description="Name that the user sees; the file's own without it")


async def _send(arguments: SendFileArguments, context: ToolContext) -> str:
    if context.offers is None:
        raise ToolFailure("Not sent: files cannot be sent here.")
    name = arguments.name.strip() or posixpath.basename(posixpath.normpath(arguments.path))
    if not _NAME.fullmatch(name):
        raise ToolFailure("name: must be 1 to 120 characters without slashes and control characters")
    info = await require_file(context.sandbox, arguments.path)
    if not info.inside:
        raise ToolFailure(f"{arguments.path}: is outside of the workspace; copy it there first if the user should have it")
    if info.size == 0:
        raise ToolFailure(f"{arguments.path}: is empty; there is nothing to send")
    if info.size > MAX_MEDIA_BYTES:
        raise _too_large(arguments.path, info.size)
    data = bytearray()
    while len(data) <= MAX_MEDIA_BYTES:
        piece = await context.sandbox.read_file(arguments.path, offset=len(data), limit=CHUNK_BYTES)
        if not piece:
            break
        data += piece
    if len(data) > MAX_MEDIA_BYTES:
        raise _too_large(arguments.path, len(data))
    if not data:
        raise ToolFailure(f"{arguments.path}: was emptied at this moment; write it again, then send it")
    file = await context.offers.offer(name, bytes(data), arguments.caption.strip())
    return f"{file.name} ({file.media_type}, {file.size} bytes) goes to the user behind your answer. Do not paste it."


def _too_large(path: str, size: int) -> ToolFailure:
    return ToolFailure(f"{path}: is {size} bytes, and at most {MAX_MEDIA_BYTES // _MIB} MiB can be sent; pack or cut it")


TOOLS = (
    Tool(
        name="send_file",
        toolset="file",
        description="Send the user a file of the workspace. It arrives behind your answer, as a file or a picture.",
        arguments=SendFileArguments,
        run=_send,
        access=lambda a: Access(reads=frozenset({path_key(a.path)}), writes=frozenset({"(files for the user)"})),
    ),
)
