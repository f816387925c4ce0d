"""Content by its hash: how a piece is packed, and the place that keeps pieces."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import Sequence
from typing import Protocol

from hermes_contracts.store_api import PIECE_BYTES

_RAW, _DEFLATED = b"\0", b"\1"
_LEVEL = 1


class Pieces(Protocol):
    """Where packed pieces are kept, for one snapshot: what it neither claims nor puts is deleted when it is committed."""

    async def claim(self, digests: Sequence[str]) -> frozenset[str]:
        """Keep those that are there for this snapshot; return those that are not."""
        ...

    async def put(self, digest: str, packed: bytes) -> None:
        """Keep one, claimed; putting it again changes nothing."""
        ...

    async def get(self, digest: str) -> bytes:
        """Return one as it was put. Raises HermesError (NOT_FOUND) when it is not there."""
        ...


class DamagedPiece(Exception):
    """What came back is not what was put."""


def digest_of(data: bytes) -> str:
    """Return the name of a piece."""
    return hashlib.sha256(data).hexdigest()


def pack(data: bytes) -> bytes:
    """Compress where that helps; the first byte says whether it did."""
    deflated = zlib.compress(data, _LEVEL)
    return _DEFLATED + deflated if len(deflated) < len(data) else _RAW + data


def unpack(packed: bytes, digest: str) -> bytes:
    """Return a piece's bytes, never more than `PIECE_BYTES`.

    Raises:
        DamagedPiece: it does not unpack, is too long, or is not what its name says.
    """
    kind, body = packed[:1], packed[1:]
    data = _inflate(body, digest) if kind == _DEFLATED else body
    if kind not in {_RAW, _DEFLATED} or len(data) > PIECE_BYTES or digest_of(data) != digest:
        raise DamagedPiece(f"piece {digest} is damaged")
    return data


async def fetch(pieces: Pieces, digest: str) -> bytes:
    """Get and unpack one; the work is done beside the event loop."""
    return await asyncio.to_thread(unpack, await pieces.get(digest), digest)


def _inflate(body: bytes, digest: str) -> bytes:
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(body, PIECE_BYTES + 1)
    except zlib.error as error:
        raise DamagedPiece(f"piece {digest} is damaged: {error}") from error
    if not inflater.eof or inflater.unused_data:
        raise DamagedPiece(f"piece {digest} is damaged: its end is missing or there is more behind it")
    return data
