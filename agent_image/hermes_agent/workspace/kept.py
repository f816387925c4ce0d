"""A session's snapshots in the store: pieces, and the list of files, which travels as pieces too."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from hermes_agent.store_port import Store
from hermes_agent.workspace.manifest import Manifest
from hermes_agent.workspace.parallel import each
from hermes_agent.workspace.pieces import DamagedPiece, digest_of, fetch, pack
from hermes_contracts.store_api import (
    CLAIM_PIECES,
    GET_PIECE,
    MAX_CLAIMED,
    PIECE_BYTES,
    PUT_PIECE,
    ClaimPiecesRequest,
    GetPieceRequest,
    PutPieceRequest,
)


@dataclass(frozen=True)
class StorePieces:
    """`Pieces` of snapshot `number`, with the store."""

    store: Store
    number: int

    async def claim(self, digests: Sequence[str]) -> frozenset[str]:
        """Claim in requests of bounded size."""
        missing: set[str] = set()
        for start in range(0, len(digests), MAX_CLAIMED):
            page = tuple(digests[start : start + MAX_CLAIMED])
            reply = await self.store.call(CLAIM_PIECES, ClaimPiecesRequest(number=self.number, digests=page))
            missing.update(reply.digests)
        return frozenset(missing)

    async def put(self, digest: str, packed: bytes) -> None:
        """Put one."""
        data = base64.b64encode(packed).decode()
        await self.store.call(PUT_PIECE, PutPieceRequest(number=self.number, digest=digest, data=data))

    async def get(self, digest: str) -> bytes:
        """Get one."""
        return base64.b64decode((await self.store.call(GET_PIECE, GetPieceRequest(digest=digest))).data)


def parts_of(manifest: Manifest) -> list[bytes]:
    """Return a list of files in pieces; the same list is the same pieces."""
    text = manifest.model_dump_json(exclude_defaults=True).encode()
    return [text[start : start + PIECE_BYTES] for start in range(0, len(text), PIECE_BYTES)]


async def put_parts(pieces: StorePieces, parts: Sequence[bytes], kept: frozenset[str]) -> None:
    """Put those parts that are not kept yet."""
    new = [part for part in parts if digest_of(part) not in kept]

    async def put(part: bytes) -> None:
        await pieces.put(digest_of(part), await asyncio.to_thread(pack, part))

    await each(new, put)


async def load(pieces: StorePieces, parts: Sequence[str]) -> Manifest:
    """Return the list of files that these parts are.

    Raises DamagedPiece when it cannot be read, and HermesError when the store does not answer.
    """

    async def part(digest: str) -> bytes:
        return await fetch(pieces, digest)

    text = b"".join(await each(parts, part))
    try:
        return await asyncio.to_thread(Manifest.model_validate_json, text)
    except ValidationError as error:
        raise DamagedPiece("the list of files is damaged") from error
