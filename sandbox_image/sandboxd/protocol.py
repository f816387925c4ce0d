"""The words of the protocol: frame types, sizes, and how a request is read and refused."""

from __future__ import annotations

import errno
import json
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

    Json = Dict[str, Any]


VERSION = 1
HELLO, REQUEST, STDOUT, STDERR, STDIN, STDIN_END, CREDIT, CONTROL, RESULT, ERROR = range(10)
HEADER = struct.Struct(">IBI")  # payload length, frame type, stream
MAX_PAYLOAD = 256 * 1024
MAX_REQUEST = 4 * 1024 * 1024  # a request carries what the kernel takes as arguments, 2 MiB, escaped
OUTPUT_WINDOW = 1024 * 1024
INPUT_WINDOW = 256 * 1024
MAX_STREAMS = 256
MAX_CONNECTIONS = 8
MAX_COMMANDS = 128
MAX_BACKGROUND = 64
MAX_SHELLS = 256
MAX_LIMITED_OUTPUT = 4 * 1024 * 1024
MAX_COMMAND_CHARS = 120_000  # the kernel refuses one argument of 128 KiB
ROLLING_OUTPUT = 200_000
FINISHED_KEPT_SECONDS = 1800.0
CONGESTED = 1024 * 1024
MAX_UNSENT = 32 * 1024 * 1024


class Refused(Exception):
    """A request that is answered with an error frame: `code` is for programs, the text for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Violation(Exception):
    """The client broke the protocol: its connection is closed."""


ERRNO_CODES = {
    errno.ENOENT: "not_found",
    errno.EISDIR: "is_directory",
    errno.ENOTDIR: "not_directory",
    errno.ENOTEMPTY: "not_empty",
    errno.EEXIST: "exists",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
    errno.ENOSPC: "quota_exceeded",
    errno.EDQUOT: "quota_exceeded",
    errno.EFBIG: "quota_exceeded",
    errno.ENAMETOOLONG: "invalid",
    errno.ELOOP: "invalid",
    errno.E2BIG: "too_large",
    errno.EAGAIN: "busy",
    errno.ENOMEM: "busy",
}


def refusal(error: OSError) -> Refused:
    """Translate an operating-system error."""
    name = error.filename if isinstance(error.filename, str) else ""
    text = os.strerror(error.errno or 0)
    return Refused(ERRNO_CODES.get(error.errno or 0, "io"), "%s: %s" % (name, text) if name else text)


def field(request: Json, name: str, kind: Any, default: Any = None) -> Any:
    """One checked field of a request; `default` when absent or null."""
    value = request.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise Refused("invalid", "%s: wrong type %s" % (name, type(value).__name__))
    return value


def number(request: Json, name: str, default: Any, least: int, most: int) -> Any:
    """One checked whole number of a request."""
    value = field(request, name, int, default)
    if value is not None and not least <= value <= most:
        raise Refused("invalid", "%s: %d is not between %d and %d" % (name, value, least, most))
    return value


def shown(name: str) -> str:
    """A file name as text that every JSON reader takes: bytes that are not UTF-8 become U+FFFD."""
    return os.fsencode(name).decode("utf-8", "replace")


def message_of(payload: bytes) -> Json:
    """A JSON object out of a frame."""
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise Violation("not JSON: %s" % error) from error
    if not isinstance(value, dict):
        raise Violation("not a JSON object")
    return value
