"""The frames of docs/exec-protocol.md, and a parser that believes nothing about their sizes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum

from hermes_agent.sandbox.errors import ProtocolError

VERSION = 1
MAX_PAYLOAD = 256 * 1024
MAX_REQUEST = 4 * 1024 * 1024
"""A request may be longer than other frames: it carries arguments and environment."""
OUTPUT_WINDOW = 1024 * 1024
"""Bytes of output the sandbox may send on a stream before credit comes back."""
INPUT_WINDOW = 256 * 1024
"""Bytes of input we may send on a stream before credit comes back."""

HEADER = struct.Struct(">IBI")
BUFFER_BYTES = 2 * (MAX_PAYLOAD + HEADER.size)


class Kind(IntEnum):
    """Frame types; the numbers are the protocol."""

    HELLO = 0
    REQUEST = 1
    STDOUT = 2
    STDERR = 3
    STDIN = 4
    STDIN_END = 5
    CREDIT = 6
    CONTROL = 7
    RESULT = 8
    ERROR = 9


FROM_SANDBOX = frozenset({Kind.HELLO, Kind.STDOUT, Kind.STDERR, Kind.CREDIT, Kind.RESULT, Kind.ERROR})


def pack(kind: Kind, stream: int, payload: bytes = b"") -> bytes:
    """One frame as bytes."""
    return HEADER.pack(len(payload), kind, stream) + payload


class FrameBuffer:
    """Memory that a socket reads into and frames are cut out of; never larger than two frames."""

    def __init__(self) -> None:
        self._data = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._data)
        self._start = 0
        self._end = 0

    def free(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start > MAX_PAYLOAD:
            rest = bytes(self._view[self._start : self._end])
            self._view[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
        return self._view[self._end :]

    def filled(self, count: int) -> Iterator[tuple[Kind, int, bytes]]:
        """Yield every frame that is whole now: kind, stream, payload.

        Raises:
            ProtocolError: a frame is too long or of a kind the sandbox may not send.
        """
        self._end += count
        while self._end - self._start >= HEADER.size:
            length, kind, stream = HEADER.unpack_from(self._data, self._start)
            if length > MAX_PAYLOAD:
                raise ProtocolError(f"the sandbox sent a frame of {length} bytes; {MAX_PAYLOAD} is the most")
            if kind not in FROM_SANDBOX:
                raise ProtocolError(f"the sandbox sent a frame of type {kind}")
            end = self._start + HEADER.size + length
            if end > self._end:
                break
            payload = bytes(self._view[self._start + HEADER.size : end])
            self._start = end
            yield Kind(kind), stream, payload
