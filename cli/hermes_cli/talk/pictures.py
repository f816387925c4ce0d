"""Pictures from files, as the `data:` URLs that the API takes."""

from __future__ import annotations

import base64
from pathlib import Path

from hermes_cli.errors import usage

_MAX_BYTES = 8 * 1024 * 1024
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def read_picture(path: Path) -> str:
    """Read a PNG, JPEG, GIF or WebP file of at most 8 MiB. Raises CliError."""
    try:
        with path.expanduser().open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise usage(f"cannot read {path}", error.strerror or "check the path") from error
    if len(data) > _MAX_BYTES:
        raise usage(f"{path} is larger than 8 MiB", "make it smaller")
    return f"data:{_media_type(data, path)};base64,{base64.b64encode(data).decode()}"


def _media_type(data: bytes, path: Path) -> str:
    for beginning, media_type in _BEGINNINGS:
        if data.startswith(beginning):
            return media_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    raise usage(f"{path} is no picture", "PNG, JPEG, GIF and WebP are understood")
